"""The approvals of workspaces in the table of a database; each method is one transaction, and blocks."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from sqlalchemy import delete, select

from skillyard.database import approvals, insert_or_update
from skillyard.permissions.store import Approved

if TYPE_CHECKING:
    from skillyard.database import Database

__all__ = ["ApprovalTable"]


class ApprovalTable:
    """What is approved in any workspace."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def find(self, workspace: str | None = None, skill_id: str | None = None) -> tuple[Approved, ...]:
        """The approvals of a workspace or of all, for a skill or for all, by workspace and skill."""
        table = approvals.c
        query = select(table.workspace, table.skill_id, table.digest, table.approved_at)
        if workspace is not None:
            query = query.where(table.workspace == workspace)
        if skill_id is not None:
            query = query.where(table.skill_id == skill_id)
        with self._database.read() as connection:
            rows = connection.execute(query.order_by(table.workspace, table.skill_id)).all()
        return tuple(Approved(**row._mapping) for row in rows)

    def put(self, approved: Approved) -> None:
        """Keep an approval, in place of that of any other content of the skill."""
        with self._database.write() as connection:
            connection.execute(insert_or_update(connection, approvals, asdict(approved)))

    def remove(self, workspace: str, skill_id: str) -> bool:
        """Take an approval back; False when there was none."""
        here = (approvals.c.workspace == workspace, approvals.c.skill_id == skill_id)
        with self._database.write() as connection:
            return connection.execute(delete(approvals).where(*here)).rowcount > 0
