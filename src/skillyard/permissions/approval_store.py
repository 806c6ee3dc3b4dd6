"""Approvals that outlive a session: the port, and the store in memory.

An approval belongs to a workspace, the folder somebody works in, and holds for one content of one skill: a newer one takes the
place of the older.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from skillyard.times import utc_now
from skillyard.wire import WireForm


@dataclass(frozen=True, slots=True)
class ApprovalRecord(WireForm, times="seconds"):
    """That a skill may be used in `workspace` (a real path) for as long as its content has the `digest`."""

    workspace: str
    skill_id: str
    digest: str
    approved_at: datetime


class ApprovalStore(Protocol):
    """The approvals of one workspace; its methods may block, and may be called from several threads at once."""

    def has(self, skill_id: str, digest: str) -> bool:
        """Whether the skill with exactly this content is approved here."""

    def approved(self) -> tuple[ApprovalRecord, ...]:
        """What is approved here, by the skills' ids."""

    def add(self, skill_id: str, digest: str) -> None:
        """Approve the skill with this content, instead of any earlier content of it."""

    def remove(self, skill_id: str) -> bool:
        """Revoke the skill's approval; False when there was none."""


@dataclass(frozen=True, slots=True)
class MemoryApprovalStore:
    """Approvals that end with the program."""

    workspace: str = ""
    _kept: dict[str, ApprovalRecord] = field(default_factory=dict, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def has(self, skill_id: str, digest: str) -> bool:
        """Whether the skill with exactly this content is approved here."""
        kept = self._kept.get(skill_id)
        return kept is not None and kept.digest == digest

    def approved(self) -> tuple[ApprovalRecord, ...]:
        """What is approved here, by the skills' ids."""
        with self._lock:
            return tuple(self._kept[skill_id] for skill_id in sorted(self._kept))

    def add(self, skill_id: str, digest: str) -> None:
        """Approve the skill with this content, instead of any earlier content of it."""
        with self._lock:
            self._kept[skill_id] = ApprovalRecord(self.workspace, skill_id, digest, utc_now())

    def remove(self, skill_id: str) -> bool:
        """Revoke the skill's approval; False when there was none."""
        with self._lock:
            return self._kept.pop(skill_id, None) is not None
