"""Which version of a skill may serve again, and why another one may not."""

from __future__ import annotations

from collections.abc import Sequence

from skillyard.errors import VersionNotFound, VersionUnusable
from skillyard.registry.archive import NO_STORE
from skillyard.registry.model import SkillVersion

__all__ = ["named_version", "returning"]


def returning(
    known: Sequence[SkillVersion], version: str | None, current: str | None, *, stored: bool, force: bool
) -> SkillVersion:
    """The version to go back to, of those `known` (the newest first): the one named, else the newest usable before `current`.

    With `stored` a version whose files are gone can be brought back from the store; `force` allows a deprecated one.

    Raises:
        VersionNotFound: there is none.
        VersionUnusable: it was yanked, is deprecated, or its files are gone.
    """
    if version is None:
        return _previous(known, current, stored=stored)
    target = named_version(known, version)
    if problem := _problem(target, stored=stored, force=force):
        raise VersionUnusable(f"{target.skill_id} {target.version} {problem[0]}", hint=problem[1])
    return target


def named_version(known: Sequence[SkillVersion], version: str) -> SkillVersion:
    """The version with that install version, or the newest that declares it.

    Raises:
        VersionNotFound: there is none; `candidates` are those there are.
    """
    found = next((one for one in known if version in (one.version, one.declared_version)), None)
    if found is None:
        skill_id = known[0].skill_id if known else "it"
        raise VersionNotFound(
            f"{skill_id} has no version {version}",
            hint=f"`skillyard versions {skill_id}` lists them",
            candidates=[one.version for one in known],
        )
    return found


def _previous(known: Sequence[SkillVersion], current: str | None, *, stored: bool) -> SkillVersion:
    names = [one.version for one in known]
    older = known[names.index(current) + 1 :] if current in names else known
    usable = [one for one in older if not _problem(one, stored=stored, force=False)]
    if not usable:
        skill_id = known[0].skill_id if known else "NAME"
        others = [one.version for one in known if one.version != current and one.status == "deprecated" and not one.removed]
        hint = f"`skillyard versions {skill_id}` lists what there is"
        if others:
            hint = f"{others[0]} is deprecated: `skillyard rollback {skill_id} {others[0]} --force` lets it serve all the same"
        raise VersionNotFound("there is no earlier version to go back to", hint=hint)
    return usable[0]


def _problem(version: SkillVersion, *, stored: bool, force: bool) -> tuple[str, str] | None:
    """Why a version may not serve again, and the way out."""
    if version.removed and not (stored and version.package_digest):
        if version.package_digest:
            return "is no longer on the disk, and no store is configured to bring it back from", NO_STORE
        return "is no longer on the disk", "install it again from its source"
    if version.yanked:
        why = f": {version.yanked_reason}" if version.yanked_reason else ""
        return f"was yanked{why}", "choose another one, or take the yank back"
    if version.status == "deprecated" and not force:
        why = f": {version.deprecated_reason}" if version.deprecated_reason else ""
        return f"is deprecated{why}", "choose another one, or use --force"
    return None
