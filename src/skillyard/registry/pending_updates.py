"""What an update would bring, and pins: a pinned version stays current until the pin is taken away.

A pin is the tag `pinned` of the current version. Content that a rollback left, or that was deprecated, is no update either.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from skillyard.errors import SkillyardError, VersionPinned
from skillyard.wire import WireForm

if TYPE_CHECKING:
    from collections.abc import Iterable

    from skillyard.packages import FolderDifference
    from skillyard.registry.install_pipeline import SkillInspection
    from skillyard.registry.model import SkillVersion
    from skillyard.registry.registry import Registry

PINNED: Final = "pinned"
"""The tag of a pinned version."""

PendingState = Literal["current", "update", "left", "pinned", "unknown"]


@dataclass(frozen=True, slots=True)
class PendingUpdate(WireForm):
    """Whether there is something else where an installed skill came from, and what an update would change.

    `current`: the same content; `update`: other content, with its `available` declared version and the `difference`; `left`:
    content that was rolled back from or deprecated, which no update brings back; `pinned`: no update is wanted; `unknown`:
    nobody can tell, for the `reason`.
    """

    skill_id: str
    state: PendingState
    version: str
    declared_version: str | None = None
    available: str | None = None
    reason: str | None = None
    difference: FolderDifference | None = None


def refuse_pinned(registry: Registry, skill_id: str) -> None:
    """Return when the skill is not pinned.

    Raises:
        VersionPinned: it is.
    """
    version = registry.tags.of(skill_id).get(PINNED)
    if version is not None and version == registry.storage.versions.current(skill_id):
        raise VersionPinned(
            f"{skill_id} is pinned at version {version}", hint=f"`skillyard pin {skill_id} --undo` lets updates go on"
        )


def left_version(recorded: Iterable[SkillVersion], digest: str) -> SkillVersion | None:
    """The version with this content that was rolled back from or deprecated; None when there is none."""
    return next((version for version in recorded if version.digest == digest and version.status == "deprecated"), None)


def pending_update(registry: Registry, name: str) -> PendingUpdate:
    """Look where the skill came from, without installing anything.

    Raises:
        SkillNotFound: it is not installed.
    """
    current = registry.installed.current(name)
    skill_id, version, declared = current.skill_id, current.version, current.declared_version
    try:
        refuse_pinned(registry, skill_id)
        inspected = registry.inspect(registry.source_of(current))
    except VersionPinned as error:
        return PendingUpdate(skill_id, "pinned", version, declared, reason=error.message)
    except SkillyardError as error:
        return PendingUpdate(skill_id, "unknown", version, declared, reason=error.message)
    found: SkillInspection | None = next((one for one in inspected if one.skill_id == skill_id), None)
    if found is None:
        return PendingUpdate(skill_id, "unknown", version, declared, reason="its source no longer has it")
    if found.digest == current.digest:
        return PendingUpdate(skill_id, "current", version, declared, found.declared_version)
    left = left_version(registry.installed.versions(skill_id), found.digest)
    state: PendingState = "update" if left is None else "left"
    reason = f"it is the content of version {left.version}, which was left" if left else None
    return PendingUpdate(skill_id, state, version, declared, found.declared_version, reason, found.difference)
