"""The written side of the registry: definitions, versions, install logs and the audit trail, in the tables of the records.

What is on the disk decides which version serves; the ledger is brought to say the same. Each method is one transaction.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import Connection, RowMapping, Select, func, insert, select, update

from skillyard.access import Outcome, actor_name, record
from skillyard.database import agent_skills, install_logs, skill_definitions, skill_versions
from skillyard.errors import SkillyardError
from skillyard.registry.hearing import tell
from skillyard.registry.model import InstalledSkill, InstallLog, Operation, Progress, SkillVersion
from skillyard.registry.open_log import OpenLog
from skillyard.registry.rows import content_of, log_of, skill_of, told_by, told_by_text, version_of

if TYPE_CHECKING:
    from pathlib import Path

    from skillyard.database import Database
    from skillyard.registry.candidate import Candidate

__all__ = ["Ledger"]

_OPEN: Final = ("pending", "in_progress")
_BECOMES: Final[Mapping[str, tuple[str, ...]]] = {
    "active": ("installing", "active", "deprecated"),
    "deprecated": ("active",),
    "failed": ("pending", "downloading", "validating", "installing"),
}
"""From which states a version may come into a state (section 2.3)."""


class Ledger:
    """The records of one database."""

    def __init__(self, database: Database, actor: str | None = None) -> None:
        self.database = database
        self._actor = actor

    @property
    def actor(self) -> str:
        """Who changes something now."""
        return actor_name(self._actor)

    # -- reading ---------------------------------------------------------------------------------------------------------

    def skills(self, *, all_: bool = False) -> tuple[InstalledSkill, ...]:
        """The installed skills by id; with `all_` also those that were uninstalled."""
        query = select(skill_definitions).order_by(skill_definitions.c.skill_id)
        if not all_:
            query = query.where(skill_definitions.c.is_active)
        return tuple(map(skill_of, self._rows(query)))

    def skill(self, skill_id: str) -> InstalledSkill | None:
        """One skill, uninstalled ones too."""
        rows = self._rows(select(skill_definitions).where(skill_definitions.c.skill_id == skill_id))
        return skill_of(rows[0]) if rows else None

    def versions(self, skill_id: str) -> tuple[SkillVersion, ...]:
        """The versions of a skill, the newest first; those that never were whole are not among them."""
        query = (
            select(skill_versions, skill_definitions.c.current_version)
            .join(skill_definitions, skill_definitions.c.skill_id == skill_versions.c.skill_id)
            .where(skill_versions.c.skill_id == skill_id, skill_versions.c.status.in_(("active", "deprecated")))
            .order_by(skill_versions.c.installed_at.desc(), skill_versions.c.version.desc())
        )
        return tuple(map(version_of, self._rows(query)))

    def serving(self) -> tuple[SkillVersion, ...]:
        """The version that serves of each skill that is installed."""
        definitions = skill_definitions.c
        query = (
            select(skill_versions, definitions.current_version)
            .join(skill_definitions, definitions.skill_id == skill_versions.c.skill_id)
            .where(definitions.is_active, definitions.current_version == skill_versions.c.version)
        )
        return tuple(map(version_of, self._rows(query)))

    def package_of(self, skill_id: str, digest: str) -> str | None:
        """The package in the store that has this content of a skill."""
        table = skill_versions.c
        query = select(table.package_digest).where(
            table.skill_id == skill_id, table.digest == digest, table.package_digest.is_not(None)
        )
        rows = self._rows(query)
        return rows[0]["package_digest"] if rows else None

    def version_names(self, skill_id: str) -> set[str]:
        """Every name of a version that was ever given."""
        query = select(skill_versions.c.version).where(skill_versions.c.skill_id == skill_id)
        return {row["version"] for row in self._rows(query)}

    def locks(self, skill_id: str) -> tuple[str, ...]:
        """The version locks that agents have on a skill."""
        query = select(agent_skills.c.version_lock).where(
            agent_skills.c.skill_id == skill_id, agent_skills.c.version_lock.is_not(None)
        )
        return tuple(sorted({row["version_lock"] for row in self._rows(query)}))

    def history(
        self, skill_id: str | None = None, *, limit: int = 50, operation_id: str | None = None
    ) -> tuple[InstallLog, ...]:
        """What was done, the newest first."""
        query = select(install_logs).order_by(install_logs.c.started_at.desc(), install_logs.c.id.desc()).limit(limit)
        if skill_id is not None:
            query = query.where(install_logs.c.skill_id == skill_id)
        if operation_id is not None:
            query = query.where(install_logs.c.operation_id == operation_id)
        return tuple(map(log_of, self._rows(query)))

    def touched(self, operation_id: str) -> tuple[str, ...]:
        """The skills an operation has begun to change."""
        query = select(install_logs.c.skill_id).where(install_logs.c.operation_id == operation_id)
        return tuple(sorted({row["skill_id"] for row in self._rows(query) if row["skill_id"]}))

    def installing(self, operation_id: str, skill_id: str) -> tuple[str, ...]:
        """The versions an operation was about to install."""
        query = select(skill_versions.c.version).where(
            skill_versions.c.operation_id == operation_id,
            skill_versions.c.skill_id == skill_id,
            skill_versions.c.status == "installing",
        )
        return tuple(row["version"] for row in self._rows(query))

    # -- logs ------------------------------------------------------------------------------------------------------------

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
        return OpenLog(self, log_id, operation_id, operation, source, progress, skill_id, steps)

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

    # -- versions --------------------------------------------------------------------------------------------------------

    def save(self, candidate: Candidate, version: str, path: Path, operation_id: str) -> None:
        """Write down a version that is about to be put in its place; a new skill gets its definition, not yet active."""
        now = datetime.now(UTC)
        with self.database.write() as connection:
            known = connection.execute(
                select(skill_definitions.c.skill_id).where(skill_definitions.c.skill_id == candidate.skill_id)
            ).first()
            if known is None:
                connection.execute(
                    insert(skill_definitions).values(
                        skill_id=candidate.skill_id, is_active=False, created_at=now, updated_at=now,
                        created_by=self.actor, **told_by(candidate.document),
                    )
                )  # fmt: skip
            connection.execute(
                insert(skill_versions).values(
                    skill_id=candidate.skill_id, version=version, status="installing", operation_id=operation_id,
                    package_path=str(path), installed_by=self.actor, created_at=now, **content_of(candidate),
                )
            )  # fmt: skip

    def activate(
        self, skill_id: str, version: str, log: OpenLog | None = None, *, action: str = "install", left: str | None = None
    ) -> None:
        """Make `version` the current one in the records, with what its SKILL.md says, and end the log as a success.

        `left` is a version that was given up for it, which becomes deprecated.
        """
        now = datetime.now(UTC)
        key = skill_versions.c.skill_id == skill_id, skill_versions.c.version == version
        with self.database.write() as connection:
            connection.execute(
                _advance(skill_id, version, "active").values(
                    status="active",
                    installed_at=func.coalesce(skill_versions.c.installed_at, now),
                    deprecated_at=None,
                    deprecated_reason=None,
                )
            )
            if left is not None:
                reason = f"rolled back to {version}"
                values = {"status": "deprecated", "deprecated_at": now, "deprecated_reason": reason}
                connection.execute(_advance(skill_id, left, "deprecated").values(values))
            row = connection.execute(select(skill_versions).where(*key)).mappings().one()
            self._set_current(connection, skill_id, version, row, now)
            self._end(connection, log, skill_id, version, action)

    def shelve(self, skill_id: str, version: str, log: OpenLog, moment: datetime | None = None) -> None:
        """Write down a version that is whole and does not serve, installed now or at `moment`; end the log as a success."""
        with self.database.write() as connection:
            values = {"status": "active", "installed_at": moment or datetime.now(UTC)}
            connection.execute(_advance(skill_id, version, "active").values(values))
            self._end(connection, log, skill_id, version, log.operation, "kept; another version serves")

    def deactivate(self, skill_id: str, log: OpenLog | None = None) -> None:
        """Write down that no version serves."""
        with self.database.write() as connection:
            self._set_current(connection, skill_id, None, None, datetime.now(UTC))
            self._end(connection, log, skill_id, None, "uninstall")

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

    def fail_version(self, skill_id: str, version: str) -> None:
        """Write down that a version never became whole."""
        with self.database.write() as connection:
            gone = datetime.now(UTC)
            connection.execute(_advance(skill_id, version, "failed").values(status="failed", removed_at=gone))

    def mark(self, skill_id: str, version: str, action: str, **values: object) -> None:
        """Change what is said of a version (deprecated, yanked, removed), and remember who did."""
        with self.database.write() as connection:
            key = skill_versions.c.skill_id == skill_id, skill_versions.c.version == version
            connection.execute(update(skill_versions).where(*key).values(values))
            reason = next((value for name, value in values.items() if name.endswith("_reason")), None)
            self._audit(connection, action, f"{skill_id}@{version}", "success", {"reason": reason} if reason else None)

    def edit(self, skill_id: str, edits: Mapping[str, str | list[str] | None]) -> None:
        """Let fields of a definition say something else than the SKILL.md; None takes that back."""
        key = skill_definitions.c.skill_id == skill_id
        with self.database.write() as connection:
            before = connection.execute(select(skill_definitions.c.edits).where(key)).scalar() or {}
            after = {name: value for name, value in {**before, **edits}.items() if value is not None}
            if after == before:
                return
            values = {"edits": after or None, "updated_at": datetime.now(UTC)}
            connection.execute(update(skill_definitions).where(key).values(values))
            self._audit(connection, "edit", skill_id, "success", {"fields": sorted(edits)})

    def adopt(self, candidate: Candidate, version: str, path: Path, *, current: bool) -> None:
        """Write down a version that is on the disk already, or fill in what its row lacks."""
        now = datetime.now(UTC)
        with self.database.write() as connection:
            names = {"skill_id": candidate.skill_id, "version": version}
            known = connection.execute(
                select(skill_definitions.c.skill_id).where(skill_definitions.c.skill_id == candidate.skill_id)
            ).first()
            if known is None:
                values = told_by(candidate.document) | {"skill_id": candidate.skill_id, "is_active": False}
                connection.execute(
                    insert(skill_definitions).values(**values, created_at=now, updated_at=now, created_by=self.actor)
                )
            key = skill_versions.c.skill_id == candidate.skill_id, skill_versions.c.version == version
            if connection.execute(select(skill_versions.c.version).where(*key)).first() is None:
                connection.execute(
                    insert(skill_versions).values(
                        **names, **content_of(candidate), status="active", package_path=str(path), installed_by=self.actor,
                        installed_at=now, created_at=now,
                    )
                )  # fmt: skip
            else:
                filled = {
                    name: content_of(candidate)[name]
                    for name in ("skill_md_content", "skill_md_hash", "file_inventory", "powers")
                }
                connection.execute(update(skill_versions).where(*key).values(filled))
            if current:
                row = connection.execute(select(skill_versions).where(*key)).mappings().one()
                self._set_current(connection, candidate.skill_id, version, row, now)

    # -- pieces ----------------------------------------------------------------------------------------------------------

    def _set_current(
        self, connection: Connection, skill_id: str, version: str | None, row: RowMapping | None, now: datetime
    ) -> None:
        values: dict[str, object] = {"current_version": version, "is_active": version is not None, "updated_at": now}
        if row is not None:
            values |= {name: row[name] for name in ("skill_md_content", "skill_md_hash", "file_inventory")}
            values |= told_by_text(row["skill_md_content"] or "", skill_id)
        connection.execute(update(skill_definitions).where(skill_definitions.c.skill_id == skill_id).values(values))

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

    def _rows(self, query: Select[Any]) -> Sequence[RowMapping]:
        with self.database.read() as connection:
            return connection.execute(query).mappings().all()


def _open_log(log_id: str) -> Any:
    return update(install_logs).where(install_logs.c.id == log_id, install_logs.c.status.in_(_OPEN))


def _advance(skill_id: str, version: str, state: str) -> Any:
    return update(skill_versions).where(
        skill_versions.c.skill_id == skill_id,
        skill_versions.c.version == version,
        skill_versions.c.status.in_(_BECOMES[state]),
    )


def _why(error: BaseException | None) -> tuple[str, str]:
    if error is None:
        return "interrupted", "its process ended before it was done; nothing was changed"
    if isinstance(error, SkillyardError):
        return error.code, error.message
    return ("interrupted", "it was stopped") if isinstance(error, KeyboardInterrupt) else ("internal_error", str(error))
