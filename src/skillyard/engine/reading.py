"""What the journal of runs says: one run with its steps, the newest ones, how many there are, and what goes on in one."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import func, select

from skillyard.database import Happening, happenings_of, runs, steps
from skillyard.engine.attempts import attempts_of
from skillyard.engine.record import RunRecord, RunState
from skillyard.errors import RecordNotFound
from skillyard.execution import StepTrace
from skillyard.times import utc_now

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Connection, Row

    from skillyard.database import Database

__all__ = ["JournalReader"]

_LONG: Final = ("stdout", "stderr", "printed", "output", "parameters", "limits", "contacts")  # too long for a list


class JournalReader:
    """The runs in one database, to be looked at. The methods block; call them in a thread."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @property
    def database(self) -> Database:
        """Where the runs are."""
        return self._database

    def get(self, run_id: str) -> RunRecord:
        """The run with that id, or the only one whose id begins or ends so (8 characters at least).

        Raises:
            RecordNotFound: there is none, or more than one.
        """
        with self._database.read() as connection:
            row = _only(connection, runs.c.id == run_id)
            if row is None and len(run_id) >= 8:
                row = _only(connection, *_begins(run_id)) or _only(connection, runs.c.id.endswith(run_id, autoescape=True))
            if row is None:
                raise RecordNotFound(f"there is no run {run_id!r}", hint="`skillyard runs` lists the runs")
            return _with_steps(connection, row)

    def beginning_with(self, prefix: str) -> str | None:
        """The id of a run that begins so, or None."""
        with self._database.read() as connection:
            found: str | None = connection.execute(select(runs.c.id).where(*_begins(prefix)).limit(1)).scalar()
            return found

    def state(self, run_id: str) -> RunState | None:
        """Where the run with exactly that id is; None when there is none."""
        with self._database.read() as connection:
            found: RunState | None = connection.execute(select(runs.c.state).where(runs.c.id == run_id)).scalar()
            return found

    def states(self, run_ids: Collection[str]) -> dict[str, RunState]:
        """Where the runs with those ids are; without those that are not in the records."""
        query = select(runs.c.id, runs.c.state).where(runs.c.id.in_(run_ids))
        with self._database.read() as connection:
            return {row.id: row.state for row in connection.execute(query)}

    def list(
        self,
        *,
        skill: str | None = None,
        states: Collection[RunState] = (),
        statuses: Collection[str] = (),
        schedule: str | None = None,
        since: datetime | None = None,
        limit: int = 20,
        offset: int = 0,
    ) -> tuple[RunRecord, ...]:
        """The newest runs, newest first, without steps, logs and output; of the skill with that id or name, in those states.

        `statuses` are how their processes ended, `schedule` is the name of the one that asked for them, `since` is when they
        were asked for at the earliest.
        """
        columns = [column for column in runs.c if column.name not in _LONG]
        query = select(*columns).where(*_wanted(skill, states, statuses, schedule, since))
        query = query.order_by(runs.c.created_at.desc(), runs.c.id.desc()).limit(limit).offset(offset)
        with self._database.read() as connection:
            return tuple(_record(row) for row in connection.execute(query))

    def count(
        self,
        *,
        skill: str | None = None,
        states: Collection[RunState] = (),
        statuses: Collection[str] = (),
        schedule: str | None = None,
        since: datetime | None = None,
    ) -> int:
        """How many runs there are of that kind (see `list`)."""
        query = select(func.count()).select_from(runs).where(*_wanted(skill, states, statuses, schedule, since))
        with self._database.read() as connection:
            return int(connection.execute(query).scalar_one())

    def kept(self, cache_key: str) -> RunRecord | None:
        """The newest result that is kept under that key and still holds."""
        query = (
            select(runs)
            .where(runs.c.cache_key == cache_key, runs.c.expires_at > utc_now(), runs.c.state == "succeeded")
            .order_by(runs.c.finished_at.desc())
            .limit(1)
        )
        with self._database.read() as connection:
            row = connection.execute(query).first()
            return None if row is None else _with_steps(connection, row)

    def news(self, run_id: str, after: int = 0) -> tuple[RunState | None, tuple[Happening, ...]]:
        """Where the run is, and what it printed and did since its happening of that number; nothing when it has ended."""
        with self._database.read() as connection:
            found = happenings_of(connection, run_id, after=after)
            return connection.execute(select(runs.c.state).where(runs.c.id == run_id)).scalar(), found

    def cancelled(self, run_ids: Sequence[str]) -> tuple[str, ...]:
        """Those of the runs that have been cancelled."""
        query = select(runs.c.id).where(runs.c.id.in_(run_ids), runs.c.state == "cancelled")
        with self._database.read() as connection:
            return tuple(connection.execute(query).scalars())


def _wanted(
    skill: str | None,
    states: Collection[RunState],
    statuses: Collection[str],
    schedule: str | None,
    since: datetime | None,
) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = []
    if skill is not None:
        conditions.append((runs.c.skill_id == skill) | (runs.c.skill_name == skill))
    if states:
        conditions.append(runs.c.state.in_(states))
    if statuses:
        conditions.append(runs.c.status.in_(statuses))
    if schedule is not None:
        conditions.append(runs.c.schedule == schedule)
    if since is not None:
        conditions.append(runs.c.created_at >= since)
    return conditions


def _begins(prefix: str) -> tuple[ColumnElement[bool], ...]:
    """That the id of a run begins so; the range is what an index finds it by. What follows in an id is a hexadecimal digit."""
    return (runs.c.id >= prefix, runs.c.id < f"{prefix}g", runs.c.id.startswith(prefix, autoescape=True))


def _only(connection: Connection, *wanted: ColumnElement[bool]) -> Row[Any] | None:
    """The run that fits, when no other one does."""
    rows = connection.execute(select(runs).where(*wanted).limit(2)).all()
    return rows[0] if len(rows) == 1 else None


def _with_steps(connection: Connection, row: Row[Any]) -> RunRecord:
    found = connection.execute(select(steps).where(steps.c.run_id == row.id).order_by(steps.c.position))
    record = replace(_record(row), steps=tuple(_step(step) for step in found))
    return replace(record, attempts=attempts_of(connection, row.id)) if row.attempt > 1 else record


def _step(row: Row[Any]) -> StepTrace:
    values = dict(row._mapping)
    del values["run_id"], values["position"]
    return StepTrace(**values)


def _record(row: Row[Any]) -> RunRecord:
    values = dict(row._mapping)
    for name in ("owner", "cache_key"):
        values.pop(name)
    for name in ("warnings", "limits", "memory_writes", "contacts"):
        if name in values:
            values[name] = tuple(values[name] or ())
    for name in ("stdout", "stderr"):
        if name in values:
            values[name] = values[name] or ""
    return RunRecord(**values)
