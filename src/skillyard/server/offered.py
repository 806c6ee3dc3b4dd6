"""What this server offers to the clients of other protocols: the installed skills that the rules let anybody read."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final, TypeVar

from skillyard.errors import ArchiveRefused, PermissionDenied, SkillNotFound, VersionNotFound, VersionUnusable
from skillyard.registry import InstalledSkill, SkillVersion
from skillyard.server.numbering import Numbered, numbered
from skillyard.server.packaged import folder_of
from skillyard.server.service import Service

if TYPE_CHECKING:
    from skillyard.document import Metadata

__all__ = [
    "display_name",
    "find_version",
    "installed_version",
    "listed",
    "matching",
    "metadata_of",
    "offered",
    "one_offered",
    "serving",
    "usable_versions",
]

_MOST: Final = 1000
_Shape = TypeVar("_Shape")


def offered(service: Service) -> Iterator[InstalledSkill]:
    """Every installed skill that may be read, by id."""
    for skill in service.registry.skills():
        with contextlib.suppress(PermissionDenied):
            service.admit_installed(skill)
            yield skill


def listed(skills: Iterable[InstalledSkill], shape: Callable[[InstalledSkill], _Shape]) -> list[_Shape]:
    """The shapes of skills; without one that is taken away while the list is made, or is larger than what may be sent."""
    shapes = []
    for skill in skills:
        with contextlib.suppress(SkillNotFound, VersionUnusable, ArchiveRefused):
            shapes.append(shape(skill))
    return shapes


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


def installed_version(service: Service, skill_id: str, version: str) -> Numbered:
    """The usable version with that install version.

    Raises:
        VersionNotFound: there is none.
    """
    return find_version(service, skill_id, lambda one: one.version.version == version, version)


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
