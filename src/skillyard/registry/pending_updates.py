"""What an update would bring, and pins: a pinned version stays current until the pin is taken away.

A pin is the tag `pinned` of the current version. Content that a rollback left, or that was deprecated, is no update either.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from skillyard.wire import WireForm

if TYPE_CHECKING:
    from collections.abc import Iterable

    from skillyard.packages import FolderDifference
    from skillyard.registry.model import SkillVersion

PINNED: Final = "pinned"
"""The tag of a pinned version."""

PendingState = Literal["current", "update", "deprecated", "pinned", "unknown"]


@dataclass(frozen=True, slots=True)
class PendingUpdate(WireForm):
    """Whether there is something else where an installed skill came from, and what an update would change.

    `current`: the same content; `update`: other content, with its `available` declared version and the `difference`;
    `deprecated`: content that was rolled back from or deprecated, which no update brings back; `pinned`: no update is
    wanted; `unknown`: nobody can tell, for the `reason`.
    """

    skill_id: str
    state: PendingState
    version: str
    declared_version: str | None = None
    available: str | None = None
    reason: str | None = None
    difference: FolderDifference | None = None


def deprecated_version(recorded: Iterable[SkillVersion], digest: str) -> SkillVersion | None:
    """The version with this content that was rolled back from or deprecated; None when there is none."""
    return next((version for version in recorded if version.digest == digest and version.status == "deprecated"), None)
