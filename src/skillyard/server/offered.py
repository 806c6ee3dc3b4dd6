"""What this server offers to the clients of other protocols: the installed skills that the rules let anybody read."""

from __future__ import annotations

import contextlib
import hashlib
import io
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from skillyard.errors import PermissionDenied, SkillNotFound, VersionNotFound, VersionUnusable
from skillyard.packages import pack
from skillyard.registry import InstalledSkill, SkillVersion
from skillyard.server.numbering import Numbered, numbered
from skillyard.server.service import Service

if TYPE_CHECKING:
    from skillyard.document import Metadata

__all__ = [
    "bundle_of",
    "display_name",
    "files_in",
    "find_version",
    "folder_of",
    "matching",
    "metadata_of",
    "offered",
    "one_offered",
    "package_of",
    "serving",
    "usable_versions",
]

_MOST: Final = 1000


def offered(service: Service) -> Iterator[InstalledSkill]:
    """Every installed skill that may be read, by id."""
    for skill in service.registry.skills():
        with contextlib.suppress(PermissionDenied):
            service.admit_installed(skill)
            yield skill


def one_offered(service: Service, skill_id: str, *, installed: bool = True) -> InstalledSkill:
    """The skill with exactly this id; with `installed=False` also one that was uninstalled.

    Raises:
        SkillNotFound: there is none.
        PermissionDenied: a rule denies it.
    """
    skill = service.registry.skill(skill_id, installed=installed)
    if skill.skill_id != skill_id:
        raise SkillNotFound(f"there is no skill {skill_id!r}", hint=f"did you mean {skill.skill_id}?")
    service.admit_installed(skill)
    return skill


def usable_versions(service: Service, skill_id: str) -> tuple[Numbered, ...]:
    """The versions that can be had, the newest first."""
    return tuple(one for one in numbered(service.registry.versions(skill_id)) if one.usable)


def serving(service: Service, skill_id: str) -> Numbered:
    """The version that serves.

    Raises:
        SkillNotFound: none does any more.
    """
    for one in usable_versions(service, skill_id):
        if one.version.current:
            return one
    raise SkillNotFound(f"no version of {skill_id} serves", hint="it was uninstalled just now")


def find_version(service: Service, skill_id: str, fits: Callable[[Numbered], bool], name: str) -> Numbered:
    """The first usable version that `fits`; the newest is asked first.

    Raises:
        VersionNotFound: there is none; `name` is what it was called.
    """
    found = usable_versions(service, skill_id)
    for one in found:
        if fits(one):
            return one
    raise VersionNotFound(f"{skill_id} has no version {name}", hint="the list of versions shows which there are")


def matching(service: Service, text: str) -> Iterator[tuple[InstalledSkill, float]]:
    """The offered skills that fit a request with how well (0 to 1), the best first; then those whose name or text has it."""
    known = {skill.skill_id: skill for skill in offered(service)}
    for match in service.catalog.search(text, _MOST, source="installed") if text.strip() else ():
        if skill := known.pop(match.skill.id.removeprefix("installed:"), None):
            yield skill, match.confidence
    wanted = text.casefold().strip()
    for skill in known.values():
        if wanted in f"{skill.skill_id}\n{skill.name}\n{skill.description}".casefold():
            yield skill, 0.0


def metadata_of(service: Service, version: SkillVersion) -> Metadata:
    """What the SKILL.md of a version says."""
    from skillyard.document import DOCUMENT_LIMIT, parse_document
    from skillyard.paths import read_inside

    data = read_inside(folder_of(service, version), "SKILL.md", limit=DOCUMENT_LIMIT)
    return parse_document(data, directory_name=version.skill_id).metadata


def display_name(skill: InstalledSkill) -> str:
    """What people see of a skill that serves: the `displayName` of its SKILL.md, else its name (row 000-8)."""
    from skillyard.document import parse_document

    text = (skill.skill_md_content or "").encode("utf-8", "surrogatepass")
    return parse_document(text, directory_name=skill.skill_id).metadata.display_name or skill.name


def folder_of(service: Service, version: SkillVersion) -> Path:
    """The folder of a version.

    Raises:
        VersionUnusable: its files are gone.
    """
    folder = service.registry.versions_folder.path(version.skill_id, version.version)
    if not folder.is_dir():
        raise VersionUnusable(f"the files of {version.skill_id} {version.version} are gone", hint="take another version")
    return folder


def files_in(service: Service, version: SkillVersion) -> list[tuple[str, int, str]]:
    """Path, size in bytes and SHA-256 of each file of a version, by path; the same as in its package."""
    with zipfile.ZipFile(io.BytesIO(package_of(service, version))) as package:
        return [
            (entry.filename, entry.file_size, hashlib.sha256(package.read(entry)).hexdigest())
            for entry in package.infolist()
            if not entry.is_dir()
        ]


def package_of(service: Service, version: SkillVersion) -> bytes:
    """The package of a version with its SKILL.md in the root, made once: a version never changes."""
    kept = Path(service.catalog.data_directory, "cache/packages", f"{version.digest.removeprefix('sha256:')}.zip")
    with contextlib.suppress(FileNotFoundError):
        return kept.read_bytes()
    kept.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    pack(folder_of(service, version), kept, whole=True)
    return kept.read_bytes()


def bundle_of(service: Service, version: SkillVersion) -> bytes:
    """The same with everything in one folder, named as the skill's id: what can be uploaded again as it is."""
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(package_of(service, version))) as flat, zipfile.ZipFile(made, "w") as bundle:
        for entry in flat.infolist():
            data = flat.read(entry)
            entry.filename = f"{version.skill_id}/{entry.filename}"
            bundle.writestr(entry, data)
    return made.getvalue()
