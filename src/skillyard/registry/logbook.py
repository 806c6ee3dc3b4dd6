"""The logs of operations: opened, written while one goes on, ended; with each end goes an entry of the audit trail.

Each method is one transaction.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import Connection, insert, select, update

from skillyard.access import Outcome, actor_name, record
from skillyard.database import install_logs
from skillyard.errors import SkillyardError
from skillyard.registry.entries import Entries
from skillyard.registry.hearing import tell
from skillyard.registry.model import Operation, Progress
from skillyard.registry.open_log import OpenLog

if TYPE_CHECKING:
    from skillyard.database import Database

__all__ = ["Logbook"]

_OPEN: Final = ("pending", "in_progress")


class Logbook(Entries):
    """The logs in one database; `actor` is who is written down, where nobody else is known to act."""

    def __init__(self, database: Database, actor: str | None = None) -> None:
        super().__init__(database)
        self._actor = actor

    @property
    def actor(self) -> str:
        """Who changes something now."""
        return actor_name(self._actor)

    def begin(
        self,
        operation_id: str,
        operation: Operation,
        *,
        source: str | None = None,
        skill_id: str | None = None,
        version: str | None = None,
        progress: Progress | None = None,
        like: OpenLog | None = None,
    ) -> OpenLog:
        """Open a log; `like` gives it the steps that were made for several skills together."""
        log_id = f"log_{operation_id[3:17]}{os.urandom(7).hex()}"
        steps = [dict(step) for step in like.steps] if like else []
        values = {
            "id": log_id, "operation_id": operation_id, "operation": operation, "status": "pending", "progress": 0,
            "source": source, "skill_id": skill_id, "version": version, "steps": steps, "started_at": datetime.now(UTC),
        }  # fmt: skip
        with self.database.write() as connection:
            connection.execute(insert(install_logs).values(values))
        return OpenLog(self.write_log, log_id, operation_id, operation, source, progress, skill_id, steps)

    def write_log(self, log_id: str, **values: object) -> None:
        """Change a log that is still open."""
        with self.database.write() as connection:
            connection.execute(_open_log(log_id).values(values))

    def fail_operation(self, operation_id: str, error: BaseException | None) -> None:
        """End every open log of an operation as failed; `error` is None when its process was killed."""
        code, message = _why(error)
        now = datetime.now(UTC)
        details = json.loads(json.dumps(error.details, default=str)) if isinstance(error, SkillyardError) else None
        values = {"status": "failed", "error_code": code, "error_message": message, "details": details, "completed_at": now}
        with self.database.write() as connection:
            query = select(install_logs).where(install_logs.c.operation_id == operation_id, install_logs.c.status.in_(_OPEN))
            for row in connection.execute(query).mappings().all():
                spent = round((now - row["started_at"]).total_seconds() * 1000)
                connection.execute(_open_log(row["id"]).values(**values, duration_ms=spent))
                subject = row["skill_id"] or row["source"] or "?"
                self._audit(connection, row["operation"], subject, "failed", {"code": code})

    def end(self, log: OpenLog, skill_id: str, version: str | None, message: str) -> None:
        """End a log as a success that changed nothing."""
        with self.database.write() as connection:
            self._end(connection, log, skill_id, version, log.operation, message)

    def end_interrupted(self, operation_id: str, skill_id: str) -> None:
        """End the open logs of a skill whose operation was cut off after its last decisive step."""
        with self.database.write() as connection:
            query = update(install_logs).where(
                install_logs.c.operation_id == operation_id,
                install_logs.c.skill_id == skill_id,
                install_logs.c.status.in_(_OPEN),
            )
            message = "it was cut off when all was done but the writing down"
            connection.execute(
                query.values(status="success", step="done", progress=100, message=message, completed_at=datetime.now(UTC))
            )

    def _end(
        self, connection: Connection, log: OpenLog | None, skill_id: str, version: str | None, action: str, message: str = ""
    ) -> None:
        if log is not None:
            values = {"status": "success", "step": "done", "progress": 100, "skill_id": skill_id, "version": version}
            connection.execute(_open_log(log.id).values(**values, message=message or None, **log.ending()))
        subject = f"{skill_id}@{version}" if version else skill_id
        self._audit(connection, action, subject, "success", {"message": message} if message else None)

    def _audit(
        self, connection: Connection, action: str, subject: str, outcome: Outcome, details: Mapping[str, object] | None
    ) -> None:
        tell(action, outcome)
        record(connection, action, subject, outcome, details, fallback=self._actor)


def _open_log(log_id: str) -> Any:
    return update(install_logs).where(install_logs.c.id == log_id, install_logs.c.status.in_(_OPEN))


def _why(error: BaseException | None) -> tuple[str, str]:
    if error is None:
        return "interrupted", "its process ended before it was done; nothing was changed"
    if isinstance(error, SkillyardError):
        return error.code, error.message
    return ("interrupted", "it was stopped") if isinstance(error, KeyboardInterrupt) else ("internal_error", str(error))
