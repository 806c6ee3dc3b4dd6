"""The manifest of a conversation's workspace, in the records: one row, for every machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sqlalchemy import delete, insert, select

from skillyard.database import conversations, run_files, turns
from skillyard.engine import ProcessIdentity, workspace_subject
from skillyard.errors import ConversationBusy, RecordNotFound
from skillyard.packages import digest_of, open_store
from skillyard.times import utc_now
from skillyard.workspace import FolderSnapshots, SnapshotLimits

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Connection

    from skillyard.database import Database

_ORIGIN: Final = "manifest"


@dataclass(frozen=True, slots=True)
class SqlSnapshotRecord:
    """The record of one conversation's snapshots; with `turn_id` only for as long as this process executes that turn."""

    database: Callable[[], Database]
    conversation_id: str
    turn_id: str | None = None

    def current(self) -> str | None:
        """As `SnapshotRecord.current`."""
        with self.database().read() as connection:
            return self._current(connection)

    def read(self) -> bytes | None:
        """As `SnapshotRecord.read`."""
        query = select(run_files.c.content).where(self._own)
        with self.database().read() as connection:
            content: bytes | None = connection.execute(query).scalar()
        return content

    def replace(self, expected: str | None, manifest: bytes) -> bool:
        """As `SnapshotRecord.replace`.

        Raises:
            ConversationBusy: this process does not execute the turn any more.
            RecordNotFound: there is no such conversation any more.
        """
        same = conversations.c.id == self.conversation_id
        with self.database().write() as connection:
            if connection.execute(select(conversations.c.id).where(same).with_for_update()).scalar() is None:
                raise RecordNotFound(f"there is no conversation {self.conversation_id!r}", hint="it was deleted")
            self._check_turn(connection)
            if self._current(connection) != expected:
                return False
            connection.execute(delete(run_files).where(self._own))
            row = {"subject": workspace_subject(self.conversation_id), "origin": _ORIGIN, "name": digest_of(manifest)}
            connection.execute(insert(run_files).values(row | {"size": len(manifest), "content": manifest, "at": utc_now()}))
        return True

    def _check_turn(self, connection: Connection) -> None:
        if self.turn_id is None:
            return
        found = connection.execute(select(turns.c.state, turns.c.process).where(turns.c.id == self.turn_id)).one_or_none()
        if found is None or tuple(found) != ("running", str(ProcessIdentity.current())):
            raise ConversationBusy("another process has gone on with the conversation", hint="what was saved before is there")

    def _current(self, connection: Connection) -> str | None:
        found: str | None = connection.execute(select(run_files.c.name).where(self._own)).scalar()
        return found

    @property
    def _own(self) -> ColumnElement[bool]:
        return (run_files.c.subject == workspace_subject(self.conversation_id)) & (run_files.c.origin == _ORIGIN)


def conversation_snapshots(
    folder: str,
    store: str,
    database: Callable[[], Database],
    conversation_id: str,
    *,
    turn_id: str | None = None,
    limits: SnapshotLimits | None = None,
) -> FolderSnapshots:
    """The snapshots of a conversation's folder, below the `store` of packages.

    Raises:
        InvalidConfiguration: the store cannot be used.
    """
    own = open_store(f"{store.rstrip('/')}/workspaces/{conversation_id}")
    return FolderSnapshots(folder, own, SqlSnapshotRecord(database, conversation_id, turn_id), limits)
