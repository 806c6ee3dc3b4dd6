"""The written side of the registry: definitions and versions, beside their logs, in the tables of the records.

What is on the disk decides which version serves; the ledger is brought to say the same. Each method is one transaction.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import Connection, RowMapping, func, insert, select, update

from skillyard.database import skill_definitions, skill_versions
from skillyard.registry.logbook import Logbook
from skillyard.registry.rows import content_of, told_by, told_by_text

if TYPE_CHECKING:
    from pathlib import Path

    from skillyard.registry.candidate import Candidate
    from skillyard.registry.open_log import OpenLog

__all__ = ["Ledger"]

_BECOMES: Final[Mapping[str, tuple[str, ...]]] = {
    "active": ("installing", "active", "deprecated"),
    "deprecated": ("active",),
    "failed": ("pending", "downloading", "validating", "installing"),
}
"""From which states a version may come into a state."""


class Ledger(Logbook):
    """The records of one database."""

    def save(self, candidate: Candidate, version: str, path: Path, operation_id: str) -> None:
        """Write down a version that is about to be put in its place; a new skill gets its definition, not yet active."""
        now = datetime.now(UTC)
        with self.database.write() as connection:
            self._define(connection, candidate, now)
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
            self._define(connection, candidate, now)
            key = skill_versions.c.skill_id == candidate.skill_id, skill_versions.c.version == version
            if connection.execute(select(skill_versions.c.version).where(*key)).first() is None:
                connection.execute(
                    insert(skill_versions).values(
                        skill_id=candidate.skill_id, version=version, status="active", package_path=str(path),
                        installed_by=self.actor, installed_at=now, created_at=now, **content_of(candidate),
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

    def _define(self, connection: Connection, candidate: Candidate, now: datetime) -> None:
        """Give a skill that is new its definition, which is not active yet."""
        mine = skill_definitions.c.skill_id == candidate.skill_id
        if connection.execute(select(skill_definitions.c.skill_id).where(mine)).first() is None:
            connection.execute(
                insert(skill_definitions).values(
                    skill_id=candidate.skill_id, is_active=False, created_at=now, updated_at=now,
                    created_by=self.actor, **told_by(candidate.document),
                )
            )  # fmt: skip

    def _set_current(
        self, connection: Connection, skill_id: str, version: str | None, row: RowMapping | None, now: datetime
    ) -> None:
        values: dict[str, object] = {"current_version": version, "is_active": version is not None, "updated_at": now}
        if row is not None:
            values |= {name: row[name] for name in ("skill_md_content", "skill_md_hash", "file_inventory")}
            values |= told_by_text(row["skill_md_content"] or "", skill_id)
        connection.execute(update(skill_definitions).where(skill_definitions.c.skill_id == skill_id).values(values))


def _advance(skill_id: str, version: str, state: str) -> Any:
    return update(skill_versions).where(
        skill_versions.c.skill_id == skill_id,
        skill_versions.c.version == version,
        skill_versions.c.status.in_(_BECOMES[state]),
    )
