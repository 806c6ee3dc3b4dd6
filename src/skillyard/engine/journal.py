"""The journal of runs: each is recorded before it starts, once more when it starts, and when it has ended; and read again.

A run that has ended is never changed again: whoever comes second finds it final. The methods block; call them in a
thread.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import delete, func, insert, select, update

from skillyard.database import (
    RUN_ENDED_CHANNEL,
    UPDATES_CHANNEL,
    LiveEvent,
    delete_live_events,
    delete_old_live_events,
    live_events_of,
    notify,
    questions,
    queued_runs,
    runs,
    steps,
    workers,
)
from skillyard.engine.attempts import attempts_of, lock_queue_row, requeue, step_rows
from skillyard.engine.live_output import collect_output, log_tail, recorded_output, reported_steps
from skillyard.engine.liveness import ProcessIdentity, is_gone
from skillyard.engine.run_record import ALL_RUNS, QUEUE_OWNER, RunFilter, RunRecord, RunState
from skillyard.errors import ExecutionProblem, RecordExists, RecordNotFound
from skillyard.execution import RunError, StepTrace
from skillyard.plain_json import to_plain_json, to_redacted_json
from skillyard.times import utc_now

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Connection, Row

    from skillyard.database import Database
    from skillyard.execution import Run


_LONG: Final = ("stdout", "stderr", "printed", "output", "parameters", "limits", "contacts")  # too long for a list
_OPEN: Final = ("queued", "running")
_ABANDONED: Final = timedelta(days=1)  # no run may last longer than ten minutes
INTERRUPTED: Final = RunError("INTERRUPTED", "the process that executed the run is gone")


class Journal:
    """The runs in one database; with an `owner` only the runs that this owner executes are ended here."""

    def __init__(self, database: Database, *, owner: str | None = None) -> None:
        self._database = database
        self._owner = owner

    @property
    def database(self) -> Database:
        """Where the runs are."""
        return self._database

    def get(self, run_id: str) -> RunRecord:
        """The run with that id, or the only the runs that this owner executes id begins or ends so (8 characters at least).

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

    def list(self, only: RunFilter = ALL_RUNS, *, limit: int = 20, offset: int = 0) -> tuple[RunRecord, ...]:
        """The newest runs, newest first, without steps, logs and output."""
        columns = [column for column in runs.c if column.name not in _LONG]
        query = select(*columns).where(*_conditions(only))
        query = query.order_by(runs.c.created_at.desc(), runs.c.id.desc()).limit(limit).offset(offset)
        with self._database.read() as connection:
            return tuple(_record(row) for row in connection.execute(query))

    def count(self, only: RunFilter = ALL_RUNS) -> int:
        """How many runs there are."""
        query = select(func.count()).select_from(runs).where(*_conditions(only))
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

    def events_since(self, run_id: str, after: int = 0) -> tuple[RunState | None, tuple[LiveEvent, ...]]:
        """Where the run is, and what it printed and did since its happening of that number; nothing when it has ended."""
        with self._database.read() as connection:
            found = live_events_of(connection, run_id, after=after)
            return connection.execute(select(runs.c.state).where(runs.c.id == run_id)).scalar(), found

    def cancelled(self, run_ids: Sequence[str]) -> tuple[str, ...]:
        """Those of the runs that have been cancelled."""
        query = select(runs.c.id).where(runs.c.id.in_(run_ids), runs.c.state == "cancelled")
        with self._database.read() as connection:
            return tuple(connection.execute(query).scalars())

    def queue(self, record: RunRecord, *, cache_key: str | None = None, known: bool = False) -> None:
        """Write down a run that is about to happen; one that is `known` has its row and only says more now.

        Raises:
            RecordExists: there is a run with its id.
            ExecutionProblem: it is known, and has been ended meanwhile.
            DatabaseUnavailable: it cannot be written down.
        """
        self._write(queued_row(record) | {"cache_key": cache_key}, known=known)

    def repeat(self, record: RunRecord, run: Run, *, known: bool = False) -> None:
        """Write down a run that gave a kept result: it starts and ends at once.

        Raises:
            ExecutionProblem, DatabaseUnavailable: as `queue`.
        """
        now = utc_now()
        ended = {"state": "succeeded", "started_at": now, "finished_at": now}
        self._write(queued_row(record) | _ending(run) | ended, known=known)

    def start(self, run_id: str) -> bool:
        """Note that a queued run starts; False when it has ended meanwhile and must not."""
        changed = update(runs).where(runs.c.id == run_id, runs.c.state == "queued")
        with self._database.write() as connection:
            return connection.execute(changed.values(state="running", started_at=utc_now())).rowcount == 1

    def finish(self, run: Run, *, keep_s: int = 0, attempt: int | None = None) -> bool:
        """Note how a run ended, with its steps; False when it had ended already. Its result is kept `keep_s` seconds.

        With the number of its `attempt` also False when there has been another one since: the result came too late.
        """
        now = utc_now()
        values = _ending(run) | {
            "state": "succeeded" if run.ok else "failed",
            "finished_at": now,
            "expires_at": now + timedelta(seconds=keep_s) if keep_s and run.ok else None,
        }
        done = self._owner is None or not run.memory_writes  # else a worker lets go itself, when they are saved
        return self._end(run.run_id, values, run.steps, attempt, done=done, printed=(run.stdout, run.stderr))

    def stop(self, run_id: str, state: RunState, error: RunError, *, attempt: int | None = None) -> bool:
        """Note that a run ended without a result; False when it had ended already (see `finish`)."""
        values = {"state": state, "error_code": error.code, "error_message": error.message, "finished_at": utc_now()}
        return self._end(run_id, values, (), attempt, done=True)

    def requeue(
        self, run_id: str, attempt: int, error: RunError, *, finished: tuple[StepTrace, ...] = (), wait_s: float = 0
    ) -> bool:
        """Note that an attempt failed and another one follows; False when it is not the one that goes on.

        Those of its steps that are `finished` stay in the record.
        """
        with self._database.write() as connection:
            return requeue(connection, run_id, attempt, error, finished=finished, wait_s=wait_s)

    def note_memories(self, run_id: str, writes: Collection[Mapping[str, object]], warnings: Collection[str]) -> None:
        """Note what became of the memories a run suggested."""
        values = {"memory_writes": to_plain_json(list(writes)), "warnings": list(warnings)}
        with self._database.write() as connection:
            connection.execute(update(runs).where(runs.c.id == run_id).values(values))

    def recover(self) -> tuple[str, ...]:
        """End the runs whose process is gone, as `interrupted`; gives their ids.

        One that waits for a worker goes on waiting, and one that may be tried again waits for another worker.
        What another host or container executes cannot be seen from here: it counts as gone after a day without a sign of life.
        Of workers the others hear sooner that they are silent (`abandoned`); one look cannot tell it from a clock that was set.
        """
        now = func.current_timestamp(type_=workers.c.seen_at.type).label("now")  # the clock that workers sign with
        known = (runs.c.id, runs.c.owner, runs.c.created_at, runs.c.state, runs.c.attempt, queued_runs.c.attempts)
        found = select(*known, workers.c.seen_at, now).where(runs.c.state.in_(_OPEN))
        found = found.outerjoin_from(runs, workers, workers.c.owner == runs.c.owner)
        found = found.outerjoin(queued_runs, queued_runs.c.run_id == runs.c.id)
        with self._database.write() as connection:
            delete_old_live_events(connection)
        with self._database.read() as connection:
            gone = [row for row in connection.execute(found) if _is_left(row)]
        return tuple(row.id for row in gone if not self._again(row) and self.stop(row.id, "interrupted", INTERRUPTED))

    def _again(self, row: Row[Any]) -> bool:
        """Whether the run waits for another worker, because it may be tried again."""
        if row.state != "running" or row.attempts is None or row.attempt >= row.attempts:
            return False
        return self.requeue(row.id, row.attempt, INTERRUPTED)

    def _write(self, row: Mapping[str, Any], *, known: bool) -> None:
        with duplicate_run_explained(row["id"]), self._database.write() as connection:
            insert_queued_run(connection, row, known=known)

    def _end(
        self,
        run_id: str,
        values: Mapping[str, Any],
        traced: tuple[StepTrace, ...],
        attempt: int | None,
        *,
        done: bool,
        printed: tuple[str, str] | None = None,
    ) -> bool:
        """End an open run that `printed` its two logs; of one that says nothing by itself, what was reported of it is kept."""
        ending = update(runs).where(runs.c.id == run_id, runs.c.state.in_(_OPEN))
        if attempt is not None:
            ending = ending.where(runs.c.attempt == attempt)
        if self._owner is not None:
            ending = ending.where(runs.c.owner == self._owner)
        with self._database.write() as connection:
            if done:
                lock_queue_row(connection, run_id)
            output = collect_output((item.body for item in live_events_of(connection, run_id)), attempt or 1)
            traced = traced or reported_steps(output)
            if connection.execute(ending.values({**values, **recorded_output(output, traced, printed)})).rowcount != 1:
                return False
            delete_live_events(connection, run_id)
            if traced:
                if attempt != 1:  # those of the attempt before
                    connection.execute(delete(steps).where(steps.c.run_id == run_id))
                connection.execute(insert(steps), step_rows(run_id, traced))
            if printed is None:  # one that was asked about need not have started
                close_questions(connection, run_id)
            if done:
                connection.execute(delete(queued_runs).where(queued_runs.c.run_id == run_id))
            notify(connection, RUN_ENDED_CHANNEL, run_id)
        return True


def _conditions(only: RunFilter) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = []
    if only.skill is not None:
        conditions.append((runs.c.skill_id == only.skill) | (runs.c.skill_name == only.skill))
    if only.states:
        conditions.append(runs.c.state.in_(only.states))
    if only.statuses:
        conditions.append(runs.c.status.in_(only.statuses))
    if only.schedule is not None:
        conditions.append(runs.c.schedule == only.schedule)
    if only.since is not None:
        conditions.append(runs.c.created_at >= only.since)
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


def close_questions(connection: Connection, run_id: str) -> None:
    """Close what is asked about a run: it has ended, and whoever waits for the answer hears it."""
    closed = delete(questions).where(questions.c.run_id == run_id).returning(questions.c.id)
    for question_id in connection.execute(closed).scalars().all():
        notify(connection, UPDATES_CHANNEL, question_id)


@contextmanager
def duplicate_run_explained(run_id: str) -> Iterator[None]:
    """Say in its own words that a run cannot be written down because there is one with its id.

    Raises:
        RecordExists: there is.
    """
    try:
        yield
    except RecordExists as error:
        raise RecordExists(f"there is a run {run_id} already", hint="look at it, or use another id") from error


def insert_queued_run(connection: Connection, row: Mapping[str, Any], *, known: bool) -> None:
    """Write the row of a run that is about to happen; a `known` one keeps when it was asked for.

    Raises:
        ExecutionProblem: it is known, and has been ended meanwhile.
    """
    if not known:
        connection.execute(insert(runs).values(row))
        return
    values = {name: value for name, value in row.items() if name not in ("id", "created_at")}
    waiting = update(runs).where(runs.c.id == row["id"], runs.c.state == "queued").values(values)
    if connection.execute(waiting).rowcount != 1:
        raise ExecutionProblem("the run was ended before it started", hint="look at its record, then run again")


def _is_left(row: Row[Any]) -> bool:
    """Whether no process executes the run any more."""
    if row.owner == QUEUE_OWNER:
        return row.attempts is None
    seen_at = row.seen_at or row.created_at
    return is_gone(row.owner) or (ProcessIdentity.is_process_alive(row.owner) is None and bool(seen_at < row.now - _ABANDONED))


def queued_row(record: RunRecord) -> dict[str, Any]:
    """The row of a run that is about to happen."""
    return {
        "id": record.id,
        "skill_id": record.skill_id,
        "skill_name": record.skill_name,
        "kind": record.kind,
        "entry": record.entry,
        "digest": record.digest,
        "state": "queued",
        "parameters": to_redacted_json(record.parameters),
        "context": to_redacted_json(record.context),
        "cache_hit": record.cache_hit,
        "cached_from": record.cached_from,
        "owner": str(ProcessIdentity.current()),
        "created_at": record.created_at,
        "priority": record.priority,
        "schedule": record.schedule,
    }


def _ending(run: Run) -> dict[str, Any]:
    return {
        "status": run.status,
        "output": to_plain_json(run.output),
        "format": run.format,
        "message": run.message,
        "error_code": run.error.code if run.error else None,
        "error_message": run.error.message if run.error else None,
        "warnings": list(run.warnings),
        "limits": [dict(limit.to_dict()) for limit in run.limits],
        "memory_writes": to_plain_json([write.to_dict() for write in run.memory_writes]),
        "token_usage": to_plain_json(run.token_usage),
        "contacts": [dict(contact.to_dict()) for contact in run.contacts],
        "ran_as": run.kind,
        "isolation": run.isolation,
        "interpreter": run.interpreter,
        "stdout": log_tail(run.stdout),
        "stderr": log_tail(run.stderr),
        "duration_ms": run.duration_ms,
    }
