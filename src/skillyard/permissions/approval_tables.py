"""The tables of approvals: those of workspaces, and those of sessions shared by several processes."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from sqlalchemy import ColumnElement, delete, select

from skillyard.database import approvals, insert_or_update, session_approvals
from skillyard.permissions.approval_store import ApprovalRecord
from skillyard.times import utc_now

if TYPE_CHECKING:
    from collections.abc import Callable

    from skillyard.database import Database


class ApprovalTable:
    """What is approved in any workspace."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def find(self, workspace: str | None = None, skill_id: str | None = None) -> tuple[ApprovalRecord, ...]:
        """The approvals of a workspace or of all, for a skill or for all, by workspace and skill."""
        table = approvals.c
        query = select(table.workspace, table.skill_id, table.digest, table.approved_at)
        if workspace is not None:
            query = query.where(table.workspace == workspace)
        if skill_id is not None:
            query = query.where(table.skill_id == skill_id)
        with self._database.read() as connection:
            rows = connection.execute(query.order_by(table.workspace, table.skill_id)).all()
        return tuple(ApprovalRecord(**row._mapping) for row in rows)

    def put(self, approved: ApprovalRecord) -> None:
        """Keep an approval, instead of that of any other content of the skill."""
        with self._database.write() as connection:
            connection.execute(insert_or_update(connection, approvals, asdict(approved)))

    def remove(self, workspace: str, skill_id: str) -> bool:
        """Take an approval back; False when there was none."""
        here = (approvals.c.workspace == workspace, approvals.c.skill_id == skill_id)
        with self._database.write() as connection:
            return connection.execute(delete(approvals).where(*here)).rowcount > 0


_LASTS: Final = timedelta(hours=12)  # the end of a session over HTTP is never reported
_KEPT: Final = timedelta(days=1)  # the clock of the server that forgets may be ahead of the one that was agreed through


@dataclass(frozen=True, slots=True)
class SqlSessionApprovals:
    """Approvals in the table `session_approvals`, each for twelve hours; `database` gives it, opened. The methods block.

    Raises, from every method:
        DatabaseUnavailable: the database cannot be used; nothing is approved by that.
    """

    database: Callable[[], Database]

    def has(self, session: str, skill_id: str, digest: str) -> bool:
        """Whether the skill with exactly this content is approved for the session."""
        table = session_approvals.c
        mine = select(table.digest).where(table.session == session, table.skill_id == skill_id, table.expires_at > utc_now())
        with self.database().read() as connection:
            return bool(connection.execute(mine).scalar() == digest)

    def add(self, session: str, skill_id: str, digest: str) -> None:
        """Approve the skill with this content for the session; what ended a day ago is forgotten."""
        row = {"session": session, "skill_id": skill_id, "digest": digest, "expires_at": utc_now() + _LASTS}
        with self.database().write() as connection:
            connection.execute(delete(session_approvals).where(session_approvals.c.expires_at < utc_now() - _KEPT))
            connection.execute(insert_or_update(connection, session_approvals, row))

    def skills(self) -> tuple[str, ...]:
        """The ids of skills that are approved for some session, sorted."""
        table = session_approvals.c
        mine = select(table.skill_id).where(table.expires_at > utc_now()).distinct().order_by(table.skill_id)
        with self.database().read() as connection:
            return tuple(connection.execute(mine).scalars())

    def end(self, session: str) -> None:
        """Forget what was approved for the session."""
        self._delete(session_approvals.c.session == session)

    def remove(self, skill_id: str) -> bool:
        """Take the approvals of a skill back in every session; False when there was none."""
        return self._delete(session_approvals.c.skill_id == skill_id)

    def _delete(self, which: ColumnElement[bool]) -> bool:
        with self.database().write() as connection:
            return connection.execute(delete(session_approvals).where(which)).rowcount > 0
