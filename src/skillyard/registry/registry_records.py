"""Writing the registry's tables: skills, versions, logs of operations with audit entries; owners, tags, stars and counts.

The disk decides which version is current; the records follow it. Each method is one transaction.

Who publishes a skill first, with a key, owns its name: other members of the organisation change nothing of it. What was
installed otherwise is nobody's, and everybody with the scope changes it.

What people add is there too: names for versions (tags), stars, and counts of fetches and installs. The tag `latest` is always
the current version.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal

from sqlalchemy import ColumnElement, Connection, delete, func, insert, select, update

from skillyard.access import STARS, AuditOutcome, SkillCollections, actor_name, claimant, may_change, record_audit
from skillyard.database import (
    collected_skills,
    insert_if_new,
    insert_or_update,
    install_logs,
    skill_callers,
    skill_counts,
    skill_definitions,
    skill_owners,
    skill_tags,
    skill_versions,
    version_approvals,
)
from skillyard.errors import InvalidInput, NotYours, SkillyardError
from skillyard.registry.record_queries import RecordReader, definition_columns, definition_columns_from_text, version_columns
from skillyard.registry.registry_values import Operation, Progress
from skillyard.registry.version_store import OpenLog, publish_operation

if TYPE_CHECKING:
    from pathlib import Path

    from skillyard.database import Database
    from skillyard.registry.candidate import Candidate
    from skillyard.registry.registry_values import ApprovalState, SkillVersion


_OPEN: Final = ("pending", "in_progress")


class OperationLogs:
    """The logs of operations in one database, and the audit entries of changes.

    `actor` is recorded where no other actor is known.
    """

    def __init__(self, database: Database, actor: str | None = None) -> None:
        self.database = database
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
        return OpenLog(self.write, log_id, operation_id, operation, source, progress, skill_id, steps)

    def write(self, log_id: str, **values: object) -> None:
        """Change a log that is still open."""
        with self.database.write() as connection:
            connection.execute(_open_log(log_id).values(values))

    def fail(self, operation_id: str, error: BaseException | None) -> None:
        """End every open log of an operation as failed; `error` is None when its process was killed."""
        code, message = _error_code_and_message(error)
        now = datetime.now(UTC)
        details = json.loads(json.dumps(error.details, default=str)) if isinstance(error, SkillyardError) else None
        values = {"status": "failed", "error_code": code, "error_message": message, "details": details, "completed_at": now}
        with self.database.write() as connection:
            query = select(install_logs).where(install_logs.c.operation_id == operation_id, install_logs.c.status.in_(_OPEN))
            for row in connection.execute(query).mappings().all():
                spent = round((now - row["started_at"]).total_seconds() * 1000)
                connection.execute(_open_log(row["id"]).values(**values, duration_ms=spent))
                subject = row["skill_id"] or row["source"] or "?"
                self.audit(connection, row["operation"], subject, "failed", {"code": code})

    def end(self, log: OpenLog, skill_id: str, version: str | None, message: str) -> None:
        """End a log as a success that changed nothing; the audit log is of changes."""
        with self.database.write() as connection:
            _end(connection, log, skill_id, version, message)

    def end_interrupted(self, operation_id: str, skill_id: str) -> None:
        """End the open logs of a skill whose operation was cut off after its last decisive step."""
        with self.database.write() as connection:
            query = update(install_logs).where(
                install_logs.c.operation_id == operation_id,
                install_logs.c.skill_id == skill_id,
                install_logs.c.status.in_(_OPEN),
            )
            message = "it was interrupted before its end was recorded"
            connection.execute(
                query.values(status="success", step="done", progress=100, message=message, completed_at=datetime.now(UTC))
            )

    def end_within(
        self, connection: Connection, log: OpenLog | None, skill_id: str, version: str | None, action: str, message: str = ""
    ) -> None:
        """End a log, if there is one, as a success in the transaction of the change itself, and record who made the change."""
        if log is not None:
            _end(connection, log, skill_id, version, message)
        subject = f"{skill_id}@{version}" if version else skill_id
        self.audit(connection, action, subject, "success", {"message": message} if message else None)

    def audit(
        self, connection: Connection, action: str, subject: str, outcome: AuditOutcome, details: Mapping[str, object] | None
    ) -> None:
        """Record who made a change, in its transaction."""
        publish_operation(action, outcome)
        record_audit(connection, action, subject, outcome, details, fallback=self._actor)


def _end(connection: Connection, log: OpenLog, skill_id: str, version: str | None, message: str) -> None:
    values = {"status": "success", "step": "done", "progress": 100, "skill_id": skill_id, "version": version}
    connection.execute(_open_log(log.id).values(**values, message=message or None, **log.ending()))


def _open_log(log_id: str) -> Any:
    return update(install_logs).where(install_logs.c.id == log_id, install_logs.c.status.in_(_OPEN))


def _error_code_and_message(error: BaseException | None) -> tuple[str, str]:
    if error is None:
        return "interrupted", "its process ended before it was done; nothing was changed"
    if isinstance(error, SkillyardError):
        return error.code, error.message
    return ("interrupted", "it was stopped") if isinstance(error, KeyboardInterrupt) else ("internal_error", str(error))


_ALLOWED_TRANSITIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "active": ("installing", "active", "deprecated"),
    "deprecated": ("active",),
    "failed": ("pending", "downloading", "validating", "installing"),
}
"""From which states a version may come into a state."""


_MOST_ACCEPTED: Final = 20
"""How many accepted findings the audit log names."""


class RegistryRecords:
    """The records of one database: definitions and versions are written here; `read` reads them, `logs` are of operations."""

    def __init__(self, database: Database, actor: str | None = None) -> None:
        self.database = database
        self.read = RecordReader(database)
        self.logs = OperationLogs(database, actor)

    def require_owner(self, skill_id: str) -> None:
        """Return when the current actor may change a skill. Raises NotYours: it belongs to others."""
        if not may_change(("",)):  # the machine's user and admins need no query
            with self.database.read() as connection:
                _require_owner(connection, skill_id)

    def save(self, candidate: Candidate, version: str, path: Path, operation_id: str, *, waits: Collection[str] = ()) -> None:
        """Record a version that is about to be installed; a new skill gets its definition, not yet active.

        `waits` are the reasons why its content waits for approval.
        """
        now = datetime.now(UTC)
        with self.database.write() as connection:
            new = self._define(connection, candidate, now)
            if new and candidate.origin.kind == "upload" and (owner := claimant()) is not None:
                connection.execute(insert(skill_owners).values(skill_id=candidate.skill_id, owner=owner, since=now))
            _require_owner(connection, candidate.skill_id)
            connection.execute(
                insert(skill_versions).values(
                    skill_id=candidate.skill_id, version=version, status="installing", operation_id=operation_id,
                    package_path=str(path), installed_by=self.logs.actor, created_at=now, **version_columns(candidate),
                )
            )  # fmt: skip
            if waits:
                self._ask_approval(connection, candidate.skill_id, candidate.digest, waits, self.logs.actor)
            if candidate.accepted:
                found = [f"{one['rule']} {one['file']}:{one['line']}" for one in candidate.accepted[:_MOST_ACCEPTED]]
                details = {"findings": found, "digest": candidate.digest}
                self.logs.audit(connection, "accept", f"{candidate.skill_id}@{version}", "success", details)

    def ask_approval(self, skill_id: str, digest: str, reasons: Collection[str]) -> None:
        """Let a content wait for approval, in the name of the current actor; one that was asked about stays as it is."""
        with self.database.write() as connection:
            self._ask_approval(connection, skill_id, digest, reasons, self.logs.actor)

    def _ask_approval(
        self, connection: Connection, skill_id: str, digest: str, reasons: Collection[str], asked_by: str
    ) -> None:
        row = {
            "skill_id": skill_id, "digest": digest, "state": "waiting", "reasons": list(reasons), "asked_by": asked_by,
            "asked_by_member": claimant() is not None, "asked_at": datetime.now(UTC),
        }  # fmt: skip
        insert_if_new(connection, version_approvals, [row])

    def decide(self, chosen: SkillVersion, state: ApprovalState, reason: str) -> None:
        """Approve the content of a version, or withdraw its approval, and record who did."""
        table, now = version_approvals.c, datetime.now(UTC)
        key = (table.skill_id == chosen.skill_id, table.digest == chosen.digest)
        with self.database.write() as connection:
            self._ask_approval(connection, chosen.skill_id, chosen.digest, (), chosen.installed_by or self.logs.actor)
            values = {"state": state, "decided_by": self.logs.actor, "decided_at": now, "reason": reason or None}
            connection.execute(update(version_approvals).where(*key).values(values))
            action, details = ("approve" if state == "approved" else "withdraw"), {"digest": chosen.digest}
            details |= {"reason": reason} if reason else {}
            self.logs.audit(connection, action, f"{chosen.skill_id}@{chosen.version}", "success", details)

    def activate(
        self, skill_id: str, version: str, log: OpenLog | None = None, *, action: str = "install", left: str | None = None
    ) -> None:
        """Make `version` the current one in the records, with the metadata of its SKILL.md, and end the log as a success.

        `left` is a version that was given up for it, which becomes deprecated.
        """
        now = datetime.now(UTC)
        first = func.coalesce(skill_versions.c.installed_at, now)
        with self.database.write() as connection:
            row = _advance(skill_id, version, "active")
            connection.execute(row.values(status="active", installed_at=first, deprecated_at=None, deprecated_reason=None))
            if left is not None:
                reason = f"rolled back to {version}"
                values = {"status": "deprecated", "deprecated_at": now, "deprecated_reason": reason}
                connection.execute(_advance(skill_id, left, "deprecated").values(values))
            self._set_current(connection, skill_id, version, now)
            self.logs.end_within(connection, log, skill_id, version, action)

    def record_inactive_version(
        self, skill_id: str, version: str, log: OpenLog, moment: datetime | None = None, *, why: str
    ) -> None:
        """Record a version that is complete and not current, installed now or at `moment`; end the log as a success."""
        with self.database.write() as connection:
            values = {"status": "active", "installed_at": moment or datetime.now(UTC)}
            connection.execute(_advance(skill_id, version, "active").values(values))
            self.logs.end_within(connection, log, skill_id, version, log.operation, why)

    def deactivate(self, skill_id: str, log: OpenLog | None = None) -> None:
        """Record that no version is current."""
        with self.database.write() as connection:
            self._set_current(connection, skill_id, None, datetime.now(UTC))
            self.logs.end_within(connection, log, skill_id, None, "uninstall")

    def fail_version(self, skill_id: str, version: str) -> None:
        """Record that a version never became complete."""
        with self.database.write() as connection:
            now = datetime.now(UTC)
            connection.execute(_advance(skill_id, version, "failed").values(status="failed", removed_at=now))

    def mark(self, skill_id: str, version: str, action: str, **values: object) -> None:
        """Change the marks of a version (deprecated, yanked, removed), and record who did."""
        with self.database.write() as connection:
            _require_owner(connection, skill_id)
            connection.execute(update(skill_versions).where(*_is_version(skill_id, version)).values(values))
            reason = next((value for name, value in values.items() if name.endswith("_reason")), None)
            self.logs.audit(connection, action, f"{skill_id}@{version}", "success", {"reason": reason} if reason else None)

    def edit(self, skill_id: str, edits: Mapping[str, str | list[str] | None]) -> None:
        """Edit fields of a definition; None restores the value of the SKILL.md."""
        key = skill_definitions.c.skill_id == skill_id
        with self.database.write() as connection:
            _require_owner(connection, skill_id)
            before = connection.execute(select(skill_definitions.c.edits).where(key)).scalar() or {}
            after = {name: value for name, value in {**before, **edits}.items() if value is not None}
            if after == before:
                return
            values = {"edits": after or None, "updated_at": datetime.now(UTC)}
            connection.execute(update(skill_definitions).where(key).values(values))
            self.logs.audit(connection, "edit", skill_id, "success", {"fields": sorted(edits)})

    def adopt(self, candidate: Candidate, version: str, path: Path, *, current: bool) -> None:
        """Record a version that is on the disk already, or fill in what its row lacks."""
        now = datetime.now(UTC)
        with self.database.write() as connection:
            self._define(connection, candidate, now)
            key = _is_version(candidate.skill_id, version)
            columns = version_columns(candidate)
            if connection.execute(select(skill_versions.c.version).where(*key)).first() is None:
                connection.execute(
                    insert(skill_versions).values(
                        skill_id=candidate.skill_id, version=version, status="active", package_path=str(path),
                        installed_by=self.logs.actor, installed_at=now, created_at=now, **columns,
                    )
                )  # fmt: skip
            else:
                content = ("skill_md_content", "skill_md_hash", "file_inventory", "powers")
                connection.execute(update(skill_versions).where(*key).values({name: columns[name] for name in content}))
            if current:
                self._set_current(connection, candidate.skill_id, version, now)

    def _define(self, connection: Connection, candidate: Candidate, now: datetime) -> bool:
        """Give a skill that is new its definition, which is not active yet; whether it is new."""
        mine = skill_definitions.c.skill_id == candidate.skill_id
        if connection.execute(select(skill_definitions.c.skill_id).where(mine)).first() is not None:
            return False
        connection.execute(
            insert(skill_definitions).values(
                skill_id=candidate.skill_id, is_active=False, created_at=now, updated_at=now,
                created_by=self.logs.actor, **definition_columns(candidate.document),
            )
        )  # fmt: skip
        return True

    def _set_current(self, connection: Connection, skill_id: str, version: str | None, now: datetime) -> None:
        values: dict[str, object] = {"current_version": version, "is_active": version is not None, "updated_at": now}
        if version is not None:
            row = connection.execute(select(skill_versions).where(*_is_version(skill_id, version))).mappings().one()
            values |= {name: row[name] for name in ("skill_md_content", "skill_md_hash", "file_inventory")}
            values |= definition_columns_from_text(row["skill_md_content"] or "", skill_id)
        connection.execute(update(skill_definitions).where(skill_definitions.c.skill_id == skill_id).values(values))


def _is_version(skill_id: str, version: str) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    return skill_versions.c.skill_id == skill_id, skill_versions.c.version == version


def _advance(skill_id: str, version: str, state: str) -> Any:
    may_become = skill_versions.c.status.in_(_ALLOWED_TRANSITIONS[state])
    return update(skill_versions).where(*_is_version(skill_id, version), may_become)


def _owners(connection: Connection, skill_id: str) -> tuple[str, ...]:
    query = select(skill_owners.c.owner).where(skill_owners.c.skill_id == skill_id)
    return tuple(connection.execute(query.order_by(skill_owners.c.since, skill_owners.c.owner)).scalars())


def _require_owner(connection: Connection, skill_id: str) -> None:
    if may_change(("",)):
        return
    owners = _owners(connection, skill_id)
    if not may_change(owners):
        raise NotYours(
            f"the name {skill_id} belongs to {', '.join(owners)}",
            hint="publish it under another name, ask them to add you, or use a key with the scope admin",
            owners=list(owners),
        )


class SkillOwners:
    """Who owns the names of skills in a database; an owner is the name of a key, or `*`. Its methods block."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def of(self, skill_id: str) -> tuple[str, ...]:
        """The owners of a skill, the first one first; none of a skill that is nobody's."""
        with self._database.read() as connection:
            return _owners(connection, skill_id)

    def change(self, skill_id: str, *, add: Collection[str] = (), remove: Collection[str] = ()) -> tuple[str, ...]:
        """Add owners and take others away in one step, and record who did; gives those there are then.

        Raises:
            NotYours: it is somebody else's; or nobody's, which only an admin gives away.
            InvalidInput: nobody would own it any more, or one that is taken away does not own it.
        """
        now = datetime.now(UTC)
        with self._database.write() as connection:
            _require_owner(connection, skill_id)
            before = _owners(connection, skill_id)
            if not before and not may_change(("",)):
                raise NotYours(f"{skill_id} belongs to nobody", hint="a key with the scope admin gives it an owner")
            if strangers := [owner for owner in remove if owner not in before]:
                raise InvalidInput(
                    f"{strangers[0]!r} does not own {skill_id}", hint=f"its owners are {', '.join(before) or 'nobody'}"
                )
            after = tuple(owner for owner in dict.fromkeys((*before, *add)) if owner not in remove)
            if before and not after:
                raise InvalidInput(f"{skill_id} would belong to nobody", hint="add another owner in the same step")
            connection.execute(
                delete(skill_owners).where(skill_owners.c.skill_id == skill_id, skill_owners.c.owner.in_(remove))
            )
            rows = [{"skill_id": skill_id, "owner": owner, "since": now} for owner in after if owner not in before]
            if rows:
                insert_if_new(connection, skill_owners, rows)
            if after != before:
                record_audit(connection, "owners", skill_id, details={"before": list(before), "after": list(after)})
        return after


LATEST: Final = "latest"
_TAG: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_MOST: Final = 100


def check_tag(tag: str) -> None:
    """Refuse what cannot be a tag.

    Raises:
        InvalidInput: it cannot.
    """
    if tag == LATEST or not _TAG.fullmatch(tag):
        hint = f"letters, digits and . _ - without blanks, and not {LATEST}: that is the current version"
        raise InvalidInput(f"{tag[:40]!r} is not a tag of a version", hint=hint)


class VersionTags:
    """The tags in a database. Its methods block."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def of(self, skill_id: str) -> Mapping[str, str]:
        """The version of each tag of a skill."""
        return self.all().get(skill_id, {})

    def all(self) -> Mapping[str, Mapping[str, str]]:
        """The tags of every skill that has any, by id."""
        tags: dict[str, dict[str, str]] = {}
        with self._database.read() as connection:
            for row in connection.execute(select(skill_tags).order_by(skill_tags.c.tag)):
                tags.setdefault(row.skill_id, {})[row.tag] = row.version
        return tags

    def put(self, skill_id: str, tag: str, version: str) -> None:
        """Set a tag to a version, replacing its previous one.

        Raises:
            InvalidInput: that is no tag, or there are too many.
        """
        check_tag(tag)
        self._require_owner(skill_id)
        tags = self.of(skill_id)
        if len(tags) >= _MOST and tag not in tags:
            raise InvalidInput(f"{skill_id} has {_MOST} tags", hint="use one of them")
        with self._database.write() as connection:
            row = {"skill_id": skill_id, "tag": tag, "version": version}
            connection.execute(insert_or_update(connection, skill_tags, row))

    def remove(self, skill_id: str, tag: str) -> None:
        """Remove a tag; an unknown one is no error."""
        self._require_owner(skill_id)
        with self._database.write() as connection:
            connection.execute(delete(skill_tags).where(skill_tags.c.skill_id == skill_id, skill_tags.c.tag == tag))

    def _require_owner(self, skill_id: str) -> None:
        with self._database.read() as connection:
            _require_owner(connection, skill_id)


CountedEvent = Literal["downloads", "installs"]
_DAY_S: Final = 86_400
_INSTALLED: Final = "installed:"  # before the id of a skill here, where it is one of a catalog


@dataclass(frozen=True, slots=True)
class PopularityCounts:
    """The stars of a skill, how often its package was fetched, and how often clients reported that they installed it."""

    stars: int = 0
    downloads: int = 0
    installs: int = 0


class Popularity:
    """Stars and counts in a database. Its methods block."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._collections = SkillCollections(lambda: database)

    def counts(self) -> Mapping[str, PopularityCounts]:
        """The counts of every skill that has any, by id."""
        with self._database.read() as connection:
            table = collected_skills.c
            installed = table.collection == STARS, table.skill_id.startswith(_INSTALLED)
            stars = connection.execute(select(table.skill_id, func.count()).where(*installed).group_by(table.skill_id)).all()
            counted = connection.execute(select(skill_counts)).all()
        starred: dict[str, int] = {row[0].removeprefix(_INSTALLED): row[1] for row in stars}
        fetched = {row.skill_id: (row.downloads, row.installs) for row in counted}
        return {
            skill_id: PopularityCounts(starred.get(skill_id, 0), *fetched.get(skill_id, (0, 0)))
            for skill_id in starred.keys() | fetched.keys()
        }

    def star(self, skill_id: str, owner: str) -> bool:
        """Give a skill the star of `owner`; whether it did not have it yet."""
        return self._collections.add(owner, _INSTALLED + skill_id)

    def unstar(self, skill_id: str, owner: str) -> bool:
        """Take the star of `owner` back; whether the skill had it."""
        return self._collections.remove(owner, _INSTALLED + skill_id)

    def count(self, skill_id: str, what: CountedEvent, owner: str) -> None:
        """Count that `owner` has fetched or installed a skill; once a day, however often it is reported."""
        table, callers, today = skill_counts.c, skill_callers.c, int(time.time() // _DAY_S)
        row = {"skill_id": skill_id, "owner": owner, "what": what, "day": 0}
        mine = (callers.skill_id == skill_id, callers.owner == owner, callers.what == what)
        with self._database.write() as connection:
            insert_if_new(connection, skill_callers, [row])
            first = update(skill_callers).where(*mine, callers.day < today).values(day=today)
            if connection.execute(first).rowcount:
                insert_if_new(connection, skill_counts, [{"skill_id": skill_id, "downloads": 0, "installs": 0}])
                one_more = update(skill_counts).where(table.skill_id == skill_id).values({what: table[what] + 1})
                connection.execute(one_more)
