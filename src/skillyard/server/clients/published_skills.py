"""What this server offers to the clients of other protocols: readable skills with their packages and numbered versions.

Other protocols call a version a number that counts up, microseconds since 1970, or a semantic version. Each follows from the
records alone and never changes: no version is ever deleted from them, and what is recorded later comes after the others.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import hashlib
import io
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

from fastapi import Depends, Query
from fastapi import Path as InPath

from skillyard.errors import ArchiveRefused, InvalidInput, PermissionDenied, SkillNotFound, VersionNotFound, VersionUnusable
from skillyard.packages import digest_of, pack
from skillyard.registry import InstalledSkill, SkillVersion
from skillyard.server.organisation_services import CurrentServices, OrganisationServices

if TYPE_CHECKING:
    from skillyard.document import Metadata


_TIMED: Final = re.compile(r"(\d{8}-\d{6})(?:-(\d{1,5}))?", re.ASCII)
_PART: Final = r"(?:0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*)"
_SEMANTIC: Final = re.compile(
    rf"(0|[1-9]\d{{0,14}})\.(0|[1-9]\d{{0,14}})\.(0|[1-9]\d{{0,14}})(?:-{_PART}(?:\.{_PART})*)?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?",
    re.ASCII,
)
_LONGEST: Final = 100
_LONG_AGO: Final = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, slots=True)
class NumberedVersion:
    """A version with its other names: `number` counts from 1, `epoch` is in microseconds, `label` a semantic version."""

    version: SkillVersion
    number: int
    epoch: int
    label: str

    @property
    def usable(self) -> bool:
        """Whether it can be downloaded: it is current, or its files exist and nothing is said against it."""
        return self.version.current or not (self.version.removed or self.version.refusal)


def number_versions(versions: Sequence[SkillVersion]) -> tuple[NumberedVersion, ...]:
    """The versions of one skill with their other names, in the order they come in: the newest first.

    A label is that of the publisher or the SKILL.md, when that is a semantic version no earlier one has; else the number after
    the highest label before it.
    """
    oldest_first = sorted(versions, key=lambda one: (one.created_at or _LONG_AGO, one.version))
    labels = _labels(oldest_first)
    names = {one.version: (number, label) for number, (one, label) in enumerate(zip(oldest_first, labels, strict=True), 1)}
    return tuple(NumberedVersion(one, names[one.version][0], _epoch(one), names[one.version][1]) for one in versions)


def is_semantic(text: str) -> bool:
    """Whether a text is a semantic version (Semantic Versioning 2.0.0, item 2)."""
    return len(text) <= _LONGEST and _SEMANTIC.fullmatch(text) is not None


def _labels(versions: Sequence[SkillVersion]) -> Iterator[str]:
    taken: set[str] = set()
    highest = (0, 0, 0)
    for version in versions:
        declared = (str(version.origin.get("version") or ""), version.declared_version or "")
        label = next((text for text in declared if is_semantic(text) and text not in taken), None)
        if label is None:
            label = ".".join(map(str, (*highest[:2], highest[2] + 1)))
        taken.add(label)
        highest = max(highest, _core(label))
        yield label


def _core(label: str) -> tuple[int, int, int]:
    match = _SEMANTIC.fullmatch(label)
    return (int(match[1]), int(match[2]), int(match[3])) if match else (0, 0, 0)


def _epoch(version: SkillVersion) -> int:
    """When the version was made, by its name, with the number behind the name as microseconds; else by the records."""
    if match := _TIMED.fullmatch(version.version):
        try:
            made = datetime.strptime(match[1], "%Y%m%d-%H%M%S").replace(tzinfo=UTC)
            return int(made.timestamp()) * 1_000_000 + int(match[2] or 0)
        except ValueError:
            pass  # digits that are no time
    return round((version.installed_at or _LONG_AGO).timestamp() * 1_000_000)


def version_folder(service: OrganisationServices, version: SkillVersion, *, hint: str = "take another version") -> Path:
    """The folder of a version.

    Raises:
        VersionUnusable: its files were deleted.
    """
    folder = service.registry.storage.versions.path(version.skill_id, version.version)
    if not folder.is_dir():
        raise VersionUnusable(f"the files of {version.skill_id} {version.version} are gone", hint=hint)
    return folder


def package_bytes(service: OrganisationServices, version: SkillVersion) -> bytes:
    """The package of a version with its SKILL.md in the root."""
    return _package(service, version).read_bytes()


def package_digest(service: OrganisationServices, version: SkillVersion) -> str:
    """`sha256:…` of the package of a version."""
    return _digest_in(_package(service, version))


def package_files(service: OrganisationServices, version: SkillVersion) -> tuple[tuple[str, int, str], ...]:
    """Path, size in bytes and SHA-256 of each file of a version, by path."""
    return _files_in(_package(service, version))


def package_names(service: OrganisationServices, version: SkillVersion) -> list[str]:
    """The paths of the files of a version, sorted."""
    with zipfile.ZipFile(_package(service, version)) as package:
        return [entry.filename for entry in package.infolist() if not entry.is_dir()]


def _package(service: OrganisationServices, version: SkillVersion) -> Path:
    """The file of a package, made once: a version never changes, and its digest is in the name."""
    kept = Path(service.catalog.data_directory, "cache/packages", f"{version.digest.removeprefix('sha256:')}.zip")
    if not kept.exists():
        kept.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        pack(version_folder(service, version), kept, whole=True)
    return kept


@lru_cache(maxsize=16_384)
def _digest_in(package: Path) -> str:
    return digest_of(package.read_bytes())


@lru_cache(maxsize=256)
def _files_in(package: Path) -> tuple[tuple[str, int, str], ...]:
    with zipfile.ZipFile(package) as opened:
        return tuple(
            (entry.filename, entry.file_size, hashlib.sha256(opened.read(entry)).hexdigest())
            for entry in opened.infolist()
            if not entry.is_dir()
        )


def bundle_bytes(service: OrganisationServices, version: SkillVersion) -> bytes:
    """The same with everything in one folder, named as the skill's id: what can be uploaded again as it is."""
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(package_bytes(service, version))) as flat, zipfile.ZipFile(made, "w") as bundle:
        for entry in flat.infolist():
            data = flat.read(entry)
            entry.filename = f"{version.skill_id}/{entry.filename}"
            bundle.writestr(entry, data)
    return made.getvalue()


_MOST: Final = 1000
ConsentQuery = Annotated[str | None, Query(max_length=100, description="agrees to the power that a refusal named")]
SkillIdPath = Annotated[str, InPath(max_length=300)]
VersionPath = Annotated[str, InPath(max_length=400)]
_Shape = TypeVar("_Shape")


def offered_skills(service: OrganisationServices) -> Iterator[InstalledSkill]:
    """Every installed skill that may be read, by id."""
    for skill in service.registry.installed.skills():
        with contextlib.suppress(PermissionDenied):
            service.require_installed_readable(skill)
            yield skill


def collect_shapes(skills: Iterable[InstalledSkill], shape: Callable[[InstalledSkill], _Shape]) -> list[_Shape]:
    """The shapes of skills; without one that is taken away while the list is made, or is larger than what may be sent."""
    shapes = []
    for skill in skills:
        with contextlib.suppress(SkillNotFound, VersionUnusable, ArchiveRefused):
            shapes.append(shape(skill))
    return shapes


def offered_skill(service: OrganisationServices, skill_id: str, *, installed: bool = True) -> InstalledSkill:
    """The skill with exactly this id; with `installed=False` also one that was uninstalled.

    Raises:
        SkillNotFound: there is none.
        PermissionDenied: a rule denies it.
    """
    skill = service.registry.installed.skill(skill_id, installed=installed)
    if skill.skill_id != skill_id:
        raise SkillNotFound(f"there is no skill {skill_id!r}", hint=f"did you mean {skill.skill_id}?")
    service.require_installed_readable(skill)
    return skill


def usable_versions(service: OrganisationServices, skill_id: str) -> tuple[NumberedVersion, ...]:
    """The versions that can be had, the newest first."""
    return tuple(one for one in number_versions(service.registry.installed.versions(skill_id)) if one.usable)


def offered_versions(service: OrganisationServices) -> dict[str, tuple[NumberedVersion, ...]]:
    """The versions of every skill that can be had, by id, the newest first; whether a skill may be read is not asked."""
    every: dict[str, list[SkillVersion]] = {}
    for version in service.registry.records.read.versions():
        every.setdefault(version.skill_id, []).append(version)
    return {name: tuple(one for one in number_versions(versions) if one.usable) for name, versions in every.items()}


def current_version(service: OrganisationServices, skill_id: str) -> NumberedVersion:
    """The current version.

    Raises:
        SkillNotFound: none does any more.
    """
    for one in usable_versions(service, skill_id):
        if one.version.current:
            return one
    raise SkillNotFound(f"no version of {skill_id} is active", hint="it was uninstalled just now")


def find_version(
    service: OrganisationServices, skill_id: str, fits: Callable[[NumberedVersion], bool], name: str
) -> NumberedVersion:
    """The first usable version that `fits`, from the newest on.

    Raises:
        VersionNotFound: there is none; `name` is what it was called.
    """
    versions = usable_versions(service, skill_id)
    for one in versions:
        if fits(one):
            return one
    raise VersionNotFound(f"{skill_id} has no version {name}", hint="the list of versions shows which there are")


def installed_version(service: OrganisationServices, skill_id: str, version: str) -> NumberedVersion:
    """The usable version with that install version.

    Raises:
        VersionNotFound: there is none.
    """
    return find_version(service, skill_id, lambda one: one.version.version == version, version)


def search_offered(service: OrganisationServices, text: str) -> Iterator[tuple[InstalledSkill, float]]:
    """The offered skills that fit a request with how well (0 to 1), the best first; then those whose name or text has it."""
    offered = {skill.skill_id: skill for skill in offered_skills(service)}
    for match in service.catalog.search(text, _MOST, source="installed") if text.strip() else ():
        if skill := offered.pop(match.skill.id.removeprefix("installed:"), None):
            yield skill, match.confidence
    folded = text.casefold().strip()
    for skill in offered.values():
        if folded in f"{skill.skill_id}\n{skill.name}\n{skill.description}".casefold():
            yield skill, 0.0


def metadata_of(service: OrganisationServices, version: SkillVersion) -> Metadata:
    """The text of the SKILL.md of a version."""
    from skillyard.document import DOCUMENT_LIMIT, parse_document
    from skillyard.paths import read_inside

    data = read_inside(version_folder(service, version), "SKILL.md", limit=DOCUMENT_LIMIT)
    return parse_document(data, directory_name=version.skill_id).metadata


def display_name(skill: InstalledSkill) -> str:
    """What people see of an active skill: the name it was given, else the `displayName` of its SKILL.md, else its name."""
    if skill.display_name:
        return skill.display_name
    from skillyard.document import parse_document

    text = (skill.skill_md_content or "").encode("utf-8", "surrogatepass")
    return parse_document(text, directory_name=skill.skill_id).metadata.display_name or skill.name


def remove_skill(service: OrganisationServices, skill_id: str) -> None:
    """Uninstall a skill. One whose last version was deleted is gone already, and that is no error.

    Raises:
        SkillNotFound: there is none.
        PermissionDenied: a rule denies it.
    """
    skill = offered_skill(service, skill_id, installed=False)
    if skill.active or usable_versions(service, skill_id):
        service.registry.uninstall(skill_id, dependencies=False)
        service.refresh()


def remove_version(service: OrganisationServices, one: NumberedVersion) -> None:
    """Delete a version for good. When it is current, the newest other one becomes so first; the last one takes the skill along.

    Raises:
        VersionUnusable: an agent is locked to it, or somebody reads it now.
        LocalEdits: it was changed by hand.
    """
    skill_id = one.version.skill_id
    if one.version.current:
        others = [other for other in usable_versions(service, skill_id) if not other.version.current]
        if others:
            activate_version(service, others[0])
        else:
            service.registry.uninstall(skill_id, dependencies=False)
    service.registry.versions.discard(skill_id, one.version.version)
    service.refresh()


def activate_version(service: OrganisationServices, one: NumberedVersion) -> None:
    """Make this version current, also when it was replaced by another one before.

    Raises:
        VersionUnusable: somebody deprecated it for a reason, or its files were deleted.
    """
    skill_id, version = one.version.skill_id, one.version.version
    if (one.version.deprecated_reason or "").startswith("rolled back to "):
        service.registry.versions.deprecate(skill_id, version, undo=True)
    service.registry.rollback(skill_id, version, dependencies=False)
    service.refresh()


_Item = TypeVar("_Item")


def encode_cursor(key: str) -> str:
    """An opaque token for the place behind the item that is called `key`."""
    return base64.urlsafe_b64encode(key.encode()).decode().rstrip("=")


SKILL_KEY: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*", re.ASCII)
"""The key of a page of skills by id."""
MOMENT_KEY: Final = re.compile(r"[0-9]{20}", re.ASCII)
"""The key of a page of versions."""


def decode_cursor(token: str, shape: re.Pattern[str] | None = None) -> str:
    """The key in a token; with a `shape` only such a key, so that the token of another list is none.

    Raises:
        InvalidInput: it is none of ours.
    """
    try:
        key = base64.urlsafe_b64decode(token.encode("ascii") + b"=" * (-len(token) % 4)).decode()
    except (ValueError, binascii.Error):
        key = ""
    if encode_cursor(key) != token or (shape is not None and not shape.fullmatch(key)):
        raise InvalidInput(f"{token[:100]!r} is not a valid page", hint="take it from the answer before, or begin without one")
    return key


def paginate(items: Iterable[_Item], behind: Callable[[_Item], bool] | None, limit: int) -> tuple[list[_Item], bool]:
    """At most `limit` of the items that are `behind` a place, all of them without one; and whether there are more."""
    page = list(islice((item for item in items if behind is None or behind(item)), limit + 1))
    return page[:limit], len(page) > limit


_PREFIX: Final = "skill_"


def client_skill_id(skill: InstalledSkill) -> str:
    """The id that a client knows the skill by."""
    return f"{_PREFIX}{skill.skill_id}"


def own_skill_id(skill_id: str) -> str:
    """The id here, of the one that a client knows.

    Raises:
        SkillNotFound: that is no such id.
    """
    if not skill_id.startswith(_PREFIX):
        raise SkillNotFound(f"there is no skill {skill_id!r}", hint=f"ids begin with {_PREFIX}")
    return skill_id.removeprefix(_PREFIX)


def _client_skill(service: CurrentServices, skill_id: SkillIdPath) -> InstalledSkill:
    return offered_skill(service, own_skill_id(skill_id))


ClientSkill = Annotated[InstalledSkill, Depends(_client_skill)]
"""The skill that the path names as its client knows it."""
