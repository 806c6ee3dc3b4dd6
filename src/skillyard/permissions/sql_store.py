"""Approvals that outlive the program: in the database of the records."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from skillyard.permissions.store import ApprovalRecord
from skillyard.times import utc_now

if TYPE_CHECKING:
    from collections.abc import Callable

    from skillyard.database import Database
    from skillyard.permissions.sql_tables import ApprovalTable


@dataclass(frozen=True, slots=True)
class SqlApprovalStore:
    """Approvals in the table `approvals`; `database` gives it, opened, when the first question needs it.

    Raises, from every method:
        DatabaseUnavailable: the database cannot be used; nothing is approved by that.
    """

    database: Callable[[], Database]
    workspace: str

    def has(self, skill_id: str, digest: str) -> bool:
        """Whether the skill with exactly this content is approved here."""
        return any(kept.digest == digest for kept in self._table().find(self.workspace, skill_id))

    def approved(self) -> tuple[ApprovalRecord, ...]:
        """What is approved here, by the skills' ids."""
        return self._table().find(self.workspace)

    def everywhere(self) -> tuple[ApprovalRecord, ...]:
        """What is approved in any workspace, by workspace and skill."""
        return self._table().find()

    def add(self, skill_id: str, digest: str) -> None:
        """Approve the skill with this content, in place of any earlier content of it."""
        self._table().put(ApprovalRecord(self.workspace, skill_id, digest, utc_now()))

    def remove(self, skill_id: str) -> bool:
        """Take the skill's approval back; False when there was none."""
        return self._table().remove(self.workspace, skill_id)

    def _table(self) -> ApprovalTable:
        from skillyard.permissions.sql_tables import ApprovalTable  # SQLAlchemy with it: only when something is asked

        return ApprovalTable(self.database())
