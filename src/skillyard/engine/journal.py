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
    publish_live_events,
    questions,
    queued_runs,
    runs,
    steps,
    workers,
)
from skillyard.engine.live_output import collect_output, log_tail, recorded_output
from skillyard.engine.liveness import ProcessIdentity, is_gone
from skillyard.engine.run_files import delete_files, delete_old_files, write_files
from skillyard.engine.run_record import (
    ALL_RUNS,
    FAILED_STATES,
    QUEUE_OWNER,
    FoldedRun,
    RunFilter,
    RunRecord,
    RunState,
    attempts_of,
    lock_queue_row,
    requeue,
    step_rows,
    steps_of,
)
from skillyard.errors import ExecutionProblem, RecordExists, RecordNotFound
from skillyard.execution import RunError, StepTrace
from skillyard.execution.run import read_steps
from skillyard.execution.skill_call import TRIAL_INTERFACES
from skillyard.plain_json import redacted_arguments, to_plain_json, to_redacted_json
from skillyard.times import utc_now
from skillyard.wire import to_wire

if TYPE_CHECKING:
    from datetime import datetime

    from sqlalchemy import ColumnElement, Connection, FromClause, Row, Select

    from skillyard.database import Database
    from skillyard.execution import Run, WorkFile


_LONG: Final = ("stdout", "stderr", "printed", "output", "parameters", "limits", "contacts")  # too long for a list
_AT_START: Final = (
    "id", "skill_id", "skill_name", "kind", "entry", "digest", "cache_hit", "cached_from", "created_at", "priority", "schedule",
    "version", "interface", "caller", "agent",
)  # fmt: skip
_AT_END: Final = ("status", "format", "message", "isolation", "interpreter", "duration_ms", "exit_code", "memory_usage")
_OPEN: Final = ("queued", "running")
_ABANDONED: Final = timedelta(days=1)  # no run may last longer than ten minutes
INTERRUPTED: Final = RunError("INTERRUPTED", "the process that executed the run has ended")


class Journal:
    """The runs in one database; with an `owner` only the runs that this owner executes are ended here."""

    def __init__(self, database: Database, *, owner: str | None = None) -> None:
        self.database = database
        self._owner = owner

    def get(self, run_id: str) -> RunRecord:
        """The run with that id, or the only one whose id begins or ends so (8 characters at least).

        Raises:
            RecordNotFound: there is none, or more than one.
        """
        with self.database.read() as connection:
            row = _only(connection, runs.c.id == run_id)
            if row is None and len(run_id) >= 8:
                row = _only(connection, *_begins(run_id)) or _only(connection, runs.c.id.endswith(run_id, autoescape=True))
            if row is None:
                raise RecordNotFound(f"there is no run {run_id!r}", hint="`skillyard runs` lists the runs")
            return _with_steps(connection, row)

    def beginning_with(self, prefix: str) -> str | None:
        """The id of a run that begins so, or None."""
        with self.database.read() as connection:
            run_id: str | None = connection.execute(select(runs.c.id).where(*_begins(prefix)).limit(1)).scalar()
            return run_id

    def state(self, run_id: str) -> RunState | None:
        """The state of the run with exactly that id; None when there is none."""
        with self.database.read() as connection:
            state: RunState | None = connection.execute(select(runs.c.state).where(runs.c.id == run_id)).scalar()
            return state

    def states(self, run_ids: Collection[str]) -> dict[str, RunState]:
        """The states of the runs with those ids; without those that are not in the records."""
        query = select(runs.c.id, runs.c.state).where(runs.c.id.in_(run_ids))
        with self.database.read() as connection:
            return {row.id: row.state for row in connection.execute(query)}

    def list(self, only: RunFilter = ALL_RUNS, *, limit: int = 20, offset: int = 0) -> tuple[RunRecord, ...]:
        """The newest runs, newest first, without steps, logs and output."""
        with self.database.read() as connection:
            return tuple(_record(row) for row in connection.execute(_newest(only, limit, offset)))

    def count(self, only: RunFilter = ALL_RUNS) -> int:
        """How many runs there are."""
        query = select(func.count()).select_from(runs).where(*_conditions(only))
        with self.database.read() as connection:
            return int(connection.execute(query).scalar_one())

    def count_by_state(self, only: RunFilter, bounds: Sequence[tuple[datetime, datetime]]) -> tuple[dict[RunState, int], ...]:
        """How many runs are in each state, for each time from a moment to before another; without the states of none."""
        counted = select(runs.c.state, func.count().label("many")).where(*_conditions(only)).group_by(runs.c.state)
        with self.database.read() as connection:  # each looks only at its own part of the index
            return tuple(
                {
                    row.state: int(row.many)
                    for row in connection.execute(counted.where(runs.c.created_at >= begin, runs.c.created_at < end))
                }
                for begin, end in bounds
            )

    def list_folded(self, only: RunFilter = ALL_RUNS, *, limit: int = 20, offset: int = 0) -> tuple[FoldedRun, ...]:
        """As `list`, with one row for all runs of one schedule, where its newest run is."""
        later = runs.alias("later")
        is_later = (later.c.created_at > runs.c.created_at) | (
            (later.c.created_at == runs.c.created_at) & (later.c.id > runs.c.id)
        )
        outdone = select(later.c.id).where(later.c.schedule == runs.c.schedule, is_later, *_conditions(only, later)).exists()
        chosen = _newest(only, limit, offset, runs.c.schedule.is_(None) | ~outdone)
        counted = select(runs.c.schedule, func.count().label("many")).where(*_conditions(only)).group_by(runs.c.schedule)
        with self.database.read() as connection:
            records = [_record(row) for row in connection.execute(chosen)]
            named = runs.c.schedule.in_({record.schedule for record in records} - {None})
            many = {row.schedule: int(row.many) for row in connection.execute(counted.where(named))}
            failing = counted.where(named, runs.c.state.in_(FAILED_STATES))
            failed = {row.schedule: int(row.many) for row in connection.execute(failing)}
        return tuple(
            FoldedRun(record, 1, int(record.state in FAILED_STATES))
            if record.schedule is None
            else FoldedRun(record, many[record.schedule], failed.get(record.schedule, 0))
            for record in records
        )

    def count_folded(self, only: RunFilter = ALL_RUNS) -> int:
        """How many rows `list_folded` has: the runs of no schedule, and the schedules of the others."""
        alone = select(func.count()).select_from(runs).where(*_conditions(only), runs.c.schedule.is_(None))
        folds = select(func.count(runs.c.schedule.distinct())).where(*_conditions(only))
        with self.database.read() as connection:
            return int(connection.execute(alone).scalar_one()) + int(connection.execute(folds).scalar_one())

    def cached(self, cache_key: str) -> RunRecord | None:
        """The newest result that is cached under that key and still valid."""
        query = (
            select(runs)
            .where(runs.c.cache_key == cache_key, runs.c.expires_at > utc_now(), runs.c.state == "succeeded")
            .order_by(runs.c.finished_at.desc())
            .limit(1)
        )
        with self.database.read() as connection:
            row = connection.execute(query).first()
            return None if row is None else _with_steps(connection, row)

    def events_since(self, run_id: str, after: int = 0) -> tuple[RunState | None, tuple[LiveEvent, ...]]:
        """The state of the run, and its live events after that number; none when it has ended."""
        with self.database.read() as connection:
            events = live_events_of(connection, run_id, after=after)
            return connection.execute(select(runs.c.state).where(runs.c.id == run_id)).scalar(), events

    def cancelled(self, run_ids: Sequence[str]) -> tuple[str, ...]:
        """Those of the runs that have been cancelled."""
        query = select(runs.c.id).where(runs.c.id.in_(run_ids), runs.c.state == "cancelled")
        with self.database.read() as connection:
            return tuple(connection.execute(query).scalars())

    def queue(self, record: RunRecord, *, cache_key: str | None = None, recorded: bool = False) -> None:
        """Record a run before it starts; one that is `recorded` has its row, which is completed.

        Raises:
            RecordExists: there is a run with its id.
            ExecutionProblem: it is recorded already, and has been ended meanwhile.
            DatabaseUnavailable: it cannot be written down.
        """
        self._write(queued_row(record) | {"cache_key": cache_key, "counted": False}, recorded=recorded)

    def repeat(self, record: RunRecord, run: Run, *, recorded: bool = False) -> None:
        """Record a run that gave a cached result: it starts and ends at once.

        Raises:
            ExecutionProblem, DatabaseUnavailable: as `queue`.
        """
        now = utc_now()
        ended = {"state": "succeeded", "started_at": now, "finished_at": now}
        self._write(queued_row(record) | _ending(run) | ended, recorded=recorded)

    def start(self, run_id: str) -> bool:
        """Record that a queued run starts; False when it has ended meanwhile and must not."""
        changed = update(runs).where(runs.c.id == run_id, runs.c.state == "queued")
        with self.database.write() as connection:
            return connection.execute(changed.values(state="running", started_at=utc_now())).rowcount == 1

    def finish(self, run: Run, *, keep_s: int = 0, attempt: int | None = None) -> bool:
        """Record how a run ended, with its steps; False when it had ended already. Its result is cached for `keep_s` seconds.

        With the number of its `attempt` also False when there has been another one since: the result came too late.
        """
        now = utc_now()
        values = _ending(run) | {
            "state": "succeeded" if run.ok else "failed",
            "finished_at": now,
            "expires_at": now + timedelta(seconds=keep_s) if keep_s and run.ok else None,
        }
        done = self._owner is None or not run.memory_writes  # else the worker releases it, when they are saved
        return self._end(run.run_id, values, run.steps, attempt, done=done, printed=(run.stdout, run.stderr), made=run.made)

    def stop(self, run_id: str, state: RunState, error: RunError, *, attempt: int | None = None) -> bool:
        """Record that a run ended without a result; False when it had ended already (see `finish`)."""
        values = {"state": state, "error_code": error.code, "error_message": error.message, "finished_at": utc_now()}
        return self._end(run_id, values, (), attempt, done=True)

    def note_step(self, run_id: str, step: StepTrace) -> bool:
        """Report a step of a run that is executing; False when it has ended meanwhile."""
        with self.database.write() as connection:
            if connection.execute(select(runs.c.state).where(runs.c.id == run_id)).scalar() != "running":
                return False
            publish_live_events(connection, run_id, [{"step": to_redacted_json(step.to_dict())}])
        return True

    def requeue(
        self, run_id: str, attempt: int, error: RunError, *, finished: tuple[StepTrace, ...] = (), wait_s: float = 0
    ) -> bool:
        """Record that an attempt failed and another one follows; False when it is not the running one.

        Those of its steps that are `finished` stay in the record.
        """
        with self.database.write() as connection:
            return requeue(connection, run_id, attempt, error, finished=finished, wait_s=wait_s)

    def note_memories(self, run_id: str, writes: Collection[Mapping[str, object]], warnings: Collection[str]) -> None:
        """Record which memories of a run were saved."""
        values = {"memory_writes": to_plain_json(list(writes)), "warnings": list(warnings)}
        with self.database.write() as connection:
            connection.execute(update(runs).where(runs.c.id == run_id).values(values))

    def recover(self) -> tuple[str, ...]:
        """End the runs whose process has ended, as `interrupted`; gives their ids.

        One that waits for a worker keeps waiting, and one that may be tried again waits for another worker.
        A process of another host or container cannot be seen from here: it counts as ended after a day without a heartbeat.
        Other workers detect a silent worker sooner (`recover_abandoned`); a single look cannot exclude that the clock was set.
        """
        now = func.current_timestamp(type_=workers.c.seen_at.type).label("now")  # the clock that workers sign with
        columns = (runs.c.id, runs.c.owner, runs.c.created_at, runs.c.state, runs.c.attempt, queued_runs.c.attempts)
        query = select(*columns, workers.c.seen_at, now).where(runs.c.state.in_(_OPEN))
        query = query.outerjoin_from(runs, workers, workers.c.owner == runs.c.owner)
        query = query.outerjoin(queued_runs, queued_runs.c.run_id == runs.c.id)
        with self.database.write() as connection:
            delete_old_live_events(connection)
            delete_old_files(connection)
        with self.database.read() as connection:
            abandoned = [row for row in connection.execute(query) if _is_left(row)]
        return tuple(row.id for row in abandoned if not self._again(row) and self.stop(row.id, "interrupted", INTERRUPTED))

    def _again(self, row: Row[Any]) -> bool:
        """Whether the run waits for another worker, because it may be tried again."""
        if row.state != "running" or row.attempts is None or row.attempt >= row.attempts:
            return False
        return self.requeue(row.id, row.attempt, INTERRUPTED)

    def _write(self, row: Mapping[str, Any], *, recorded: bool) -> None:
        with duplicate_run_explained(row["id"]), self.database.write() as connection:
            insert_queued_run(connection, row, recorded=recorded)

    def _end(
        self,
        run_id: str,
        values: Mapping[str, Any],
        traced: tuple[StepTrace, ...],
        attempt: int | None,
        *,
        done: bool,
        printed: tuple[str, str] | None = None,
        made: tuple[WorkFile, ...] = (),
    ) -> bool:
        """End an open run that `printed` its two logs; of one that says nothing by itself, what was reported of it is kept."""
        ending = update(runs).where(runs.c.id == run_id, runs.c.state.in_(_OPEN))
        if attempt is not None:
            ending = ending.where(runs.c.attempt == attempt)
        if self._owner is not None:
            ending = ending.where(runs.c.owner == self._owner)
        with self.database.write() as connection:
            if done:
                lock_queue_row(connection, run_id)
            output = collect_output((item.body for item in live_events_of(connection, run_id)), attempt or 1)
            traced = traced or read_steps(output.steps)[0]
            if connection.execute(ending.values({**values, **recorded_output(output, traced, printed)})).rowcount != 1:
                return False
            delete_live_events(connection, run_id)
            delete_files(connection, run_id, "given")
            if made:
                write_files(connection, run_id, "made", made)
            if traced:
                if attempt != 1:  # those of the previous attempt
                    connection.execute(delete(steps).where(steps.c.run_id == run_id))
                connection.execute(insert(steps), step_rows(run_id, traced))
            if printed is None:  # one with a question need not have started
                close_questions(connection, run_id)
            if done:
                connection.execute(delete(queued_runs).where(queued_runs.c.run_id == run_id))
            notify(connection, RUN_ENDED_CHANNEL, run_id)
        return True


def _newest(only: RunFilter, limit: int, offset: int, *conditions: ColumnElement[bool]) -> Select[Any]:
    """The newest runs, newest first, without what is too long for a list."""
    columns = [column for column in runs.c if column.name not in _LONG]
    order = (runs.c.created_at.desc(), runs.c.id.desc())
    chosen = select(runs.c.id).where(*_conditions(only), *conditions).order_by(*order).limit(limit).offset(offset)
    return select(*columns).where(runs.c.id.in_(chosen)).order_by(*order)  # those before are skipped in the index


def _conditions(only: RunFilter, table: FromClause = runs) -> list[ColumnElement[bool]]:
    conditions: list[ColumnElement[bool]] = []
    if only.skill is not None:
        conditions.append((table.c.skill_id == only.skill) | (table.c.skill_name == only.skill))
    if only.states:
        conditions.append(table.c.state.in_(only.states))
    if only.statuses:
        conditions.append(table.c.status.in_(only.statuses))
    if only.schedule is not None:
        conditions.append(table.c.schedule == only.schedule)
    if only.since is not None:
        conditions.append(table.c.created_at >= only.since)
    if only.until is not None:
        conditions.append(table.c.created_at < only.until)
    for name in ("interface", "caller", "agent", "version"):
        value = getattr(only, name)
        if value is not None:
            conditions.append(table.c[name] == value)
    if not only.tests:
        conditions.append(func.coalesce(table.c.interface, "").not_in(TRIAL_INTERFACES))  # older records have none
    return conditions


def _begins(prefix: str) -> tuple[ColumnElement[bool], ...]:
    """The condition that the id of a run begins so, as a range that an index supports. The rest of an id is hexadecimal."""
    return (runs.c.id >= prefix, runs.c.id < f"{prefix}g", runs.c.id.startswith(prefix, autoescape=True))


def _only(connection: Connection, *conditions: ColumnElement[bool]) -> Row[Any] | None:
    """The only run that fits; None when there are several."""
    rows = connection.execute(select(runs).where(*conditions).limit(2)).all()
    return rows[0] if len(rows) == 1 else None


def _with_steps(connection: Connection, row: Row[Any]) -> RunRecord:
    record = replace(_record(row), steps=steps_of(connection, row.id))
    return replace(record, attempts=attempts_of(connection, row.id)) if row.attempt > 1 else record


def _record(row: Row[Any]) -> RunRecord:
    values = dict(row._mapping)
    for name in ("owner", "cache_key", "counted"):
        values.pop(name)
    for name in ("warnings", "limits", "memory_writes", "contacts", "arguments", "packages", "files"):
        if name in values:
            values[name] = tuple(values[name] or ())
    for name in ("stdout", "stderr"):
        if name in values:
            values[name] = values[name] or ""
    return RunRecord(**values)


def close_questions(connection: Connection, run_id: str) -> None:
    """Close the questions about a run that has ended, and notify who waits for the answer."""
    closed = delete(questions).where(questions.c.run_id == run_id).returning(questions.c.id)
    for question_id in connection.execute(closed).scalars().all():
        notify(connection, UPDATES_CHANNEL, question_id)


@contextmanager
def duplicate_run_explained(run_id: str) -> Iterator[None]:
    """Translate the error of a run that cannot be recorded because its id exists.

    Raises:
        RecordExists: there is.
    """
    try:
        yield
    except RecordExists as error:
        raise RecordExists(f"there is a run {run_id} already", hint="see its record, or use another id") from error


def insert_queued_run(connection: Connection, row: Mapping[str, Any], *, recorded: bool) -> None:
    """Write the row of a run before it starts; one that is `recorded` keeps its time of creation.

    Raises:
        ExecutionProblem: it is recorded already, and has been ended meanwhile.
    """
    if not recorded:
        connection.execute(insert(runs).values(row))
        return
    values = {name: value for name, value in row.items() if name not in ("id", "created_at")}
    waiting = update(runs).where(runs.c.id == row["id"], runs.c.state == "queued").values(values)
    if connection.execute(waiting).rowcount != 1:
        raise ExecutionProblem("the run was ended before it started", hint="see its record, then run again")


def _is_left(row: Row[Any]) -> bool:
    """Whether the process that executed the run has ended."""
    if row.owner == QUEUE_OWNER:
        return row.attempts is None
    seen_at = row.seen_at or row.created_at
    return is_gone(row.owner) or (ProcessIdentity.is_process_alive(row.owner) is None and bool(seen_at < row.now - _ABANDONED))


def queued_row(record: RunRecord) -> dict[str, Any]:
    """The row of a run before it starts."""
    changed = {
        "state": "queued",
        "parameters": to_redacted_json(record.parameters),
        "context": to_redacted_json(record.context),
        "arguments": redacted_arguments(record.arguments) or None,
        "packages": list(record.packages) or None,
        "owner": str(ProcessIdentity.current()),
    }
    return {name: getattr(record, name) for name in _AT_START} | changed


def _ending(run: Run) -> dict[str, Any]:
    return {name: getattr(run, name) for name in _AT_END} | {
        "output": to_plain_json(run.output),
        "error_code": run.error.code if run.error else None,
        "error_message": run.error.message if run.error else None,
        "warnings": list(run.warnings),
        "limits": to_wire(run.limits),
        "memory_writes": to_plain_json(to_wire(run.memory_writes)),
        "token_usage": to_plain_json(run.token_usage),
        "contacts": to_wire(run.contacts),
        "ran_as": run.kind,
        "files": list(run.files) or None,
        "stdout": log_tail(run.stdout),
        "stderr": log_tail(run.stderr),
    }
