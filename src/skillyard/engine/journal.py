"""The journal of runs: each is written down before it starts, once more when it starts, and when it has ended.

A run that has ended is never changed again: whoever comes second finds it final. The methods block; call them in a thread.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import delete, func, insert, select, update

from skillyard.database import (
    ENDED,
    NEWS,
    announce,
    forget_happenings,
    forget_old_happenings,
    handovers,
    happenings_of,
    questions,
    runs,
    steps,
    workers,
)
from skillyard.engine.attempts import hold_place, set_back, step_rows
from skillyard.engine.live import as_recorded, steps_told, told_in
from skillyard.engine.owner import Owner, is_gone
from skillyard.engine.plain import plain, recordable, tail
from skillyard.engine.reading import JournalReader
from skillyard.engine.record import QUEUE, RunRecord, RunState
from skillyard.errors import ExecutionProblem, RecordExists
from skillyard.execution import RunError, StepTrace
from skillyard.times import utc_now

if TYPE_CHECKING:
    from sqlalchemy import Connection, Row

    from skillyard.database import Database
    from skillyard.execution import Run

__all__ = ["INTERRUPTED", "Journal", "beginning", "explained_existence", "write_beginning"]

_OPEN: Final = ("queued", "running")
_ABANDONED: Final = timedelta(days=1)  # no run may last longer than ten minutes
INTERRUPTED: Final = RunError("INTERRUPTED", "the process that carried the run is gone")


class Journal(JournalReader):
    """The runs in one database, read and written; with an `owner` only the runs that it carries are ended here."""

    def __init__(self, database: Database, *, owner: str | None = None) -> None:
        super().__init__(database)
        self._owner = owner

    def queue(self, record: RunRecord, *, cache_key: str | None = None, known: bool = False) -> None:
        """Write down a run that is about to happen; one that is `known` has its row and only says more now.

        Raises:
            RecordExists: there is a run with its id.
            ExecutionProblem: it is known, and has been ended meanwhile.
            DatabaseUnavailable: it cannot be written down.
        """
        self._write(beginning(record) | {"cache_key": cache_key}, known=known)

    def repeat(self, record: RunRecord, run: Run, *, known: bool = False) -> None:
        """Write down a run that gave a kept result: it starts and ends at once.

        Raises:
            ExecutionProblem, DatabaseUnavailable: as `queue`.
        """
        now = utc_now()
        ended = {"state": "succeeded", "started_at": now, "finished_at": now}
        self._write(beginning(record) | _ending(run) | ended, known=known)

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

    def set_back(
        self, run_id: str, attempt: int, error: RunError, *, finished: tuple[StepTrace, ...] = (), wait_s: float = 0
    ) -> bool:
        """Note that an attempt failed and another one follows; False when it is not the one that goes on.

        Those of its steps that are `finished` stay in the record.
        """
        with self._database.write() as connection:
            return set_back(connection, run_id, attempt, error, finished=finished, wait_s=wait_s)

    def note_memories(self, run_id: str, writes: Collection[Mapping[str, object]], warnings: Collection[str]) -> None:
        """Note what became of the memories a run suggested."""
        values = {"memory_writes": plain(list(writes)), "warnings": list(warnings)}
        with self._database.write() as connection:
            connection.execute(update(runs).where(runs.c.id == run_id).values(values))

    def recover(self) -> tuple[str, ...]:
        """End the runs whose process is gone, as `interrupted`; gives their ids.

        One that waits for a worker goes on waiting, and one that may be tried again waits for another worker.
        What another host or container carries cannot be seen from here: it counts as gone after a day without a sign of life.
        Of workers the others hear sooner that they are silent (`abandoned`); one look cannot tell it from a clock that was set.
        """
        now = func.current_timestamp(type_=workers.c.seen_at.type).label("now")  # the clock that workers sign with
        known = (runs.c.id, runs.c.owner, runs.c.created_at, runs.c.state, runs.c.attempt, handovers.c.attempts)
        found = select(*known, workers.c.seen_at, now).where(runs.c.state.in_(_OPEN))
        found = found.outerjoin_from(runs, workers, workers.c.owner == runs.c.owner)
        found = found.outerjoin(handovers, handovers.c.run_id == runs.c.id)
        with self._database.write() as connection:
            forget_old_happenings(connection)
        with self._database.read() as connection:
            gone = [row for row in connection.execute(found) if _is_left(row)]
        return tuple(row.id for row in gone if not self._again(row) and self.stop(row.id, "interrupted", INTERRUPTED))

    def _again(self, row: Row[Any]) -> bool:
        """Whether the run waits for another worker, because it may be tried again."""
        if row.state != "running" or row.attempts is None or row.attempt >= row.attempts:
            return False
        return self.set_back(row.id, row.attempt, INTERRUPTED)

    def _write(self, row: Mapping[str, Any], *, known: bool) -> None:
        with explained_existence(row["id"]), self._database.write() as connection:
            write_beginning(connection, row, known=known)

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
        """End an open run that `printed` its two logs; of one that says nothing by itself, what was told of it is kept."""
        ending = update(runs).where(runs.c.id == run_id, runs.c.state.in_(_OPEN))
        if attempt is not None:
            ending = ending.where(runs.c.attempt == attempt)
        if self._owner is not None:
            ending = ending.where(runs.c.owner == self._owner)
        with self._database.write() as connection:
            if done:
                hold_place(connection, run_id)
            told = told_in((item.body for item in happenings_of(connection, run_id)), attempt or 1)
            traced = traced or steps_told(told)
            if connection.execute(ending.values({**values, **as_recorded(told, traced, printed)})).rowcount != 1:
                return False
            forget_happenings(connection, run_id)
            if traced:
                if attempt != 1:  # those of the attempt before
                    connection.execute(delete(steps).where(steps.c.run_id == run_id))
                connection.execute(insert(steps), step_rows(run_id, traced))
            if printed is None:  # one that was asked about need not have started
                close_questions(connection, run_id)
            if done:
                connection.execute(delete(handovers).where(handovers.c.run_id == run_id))
            announce(connection, ENDED, run_id)
        return True


def close_questions(connection: Connection, run_id: str) -> None:
    """Close what is asked about a run: it has ended, and whoever waits for the answer hears it."""
    closed = delete(questions).where(questions.c.run_id == run_id).returning(questions.c.id)
    for question_id in connection.execute(closed).scalars().all():
        announce(connection, NEWS, question_id)


@contextmanager
def explained_existence(run_id: str) -> Iterator[None]:
    """Say in its own words that a run cannot be written down because there is one with its id.

    Raises:
        RecordExists: there is.
    """
    try:
        yield
    except RecordExists as error:
        raise RecordExists(f"there is a run {run_id} already", hint="look at it, or use another id") from error


def write_beginning(connection: Connection, row: Mapping[str, Any], *, known: bool) -> None:
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
    """Whether nobody carries the run any more."""
    if row.owner == QUEUE:
        return row.attempts is None
    seen_at = row.seen_at or row.created_at
    return is_gone(row.owner, None) or (Owner.lives(row.owner) is None and bool(seen_at < row.now - _ABANDONED))


def beginning(record: RunRecord) -> dict[str, Any]:
    """The row of a run that is about to happen."""
    return {
        "id": record.id,
        "skill_id": record.skill_id,
        "skill_name": record.skill_name,
        "kind": record.kind,
        "entry": record.entry,
        "digest": record.digest,
        "state": "queued",
        "parameters": recordable(record.parameters),
        "context": recordable(record.context),
        "cache_hit": record.cache_hit,
        "cached_from": record.cached_from,
        "owner": str(Owner.current()),
        "created_at": record.created_at,
        "priority": record.priority,
        "schedule": record.schedule,
    }


def _ending(run: Run) -> dict[str, Any]:
    return {
        "status": run.status,
        "output": plain(run.output),
        "format": run.format,
        "message": run.message,
        "error_code": run.error.code if run.error else None,
        "error_message": run.error.message if run.error else None,
        "warnings": list(run.warnings),
        "limits": [dict(limit.to_dict()) for limit in run.limits],
        "memory_writes": plain([write.to_dict() for write in run.memory_writes]),
        "token_usage": plain(run.token_usage),
        "contacts": [dict(contact.to_dict()) for contact in run.contacts],
        "ran_as": run.kind,
        "isolation": run.isolation,
        "interpreter": run.interpreter,
        "stdout": tail(run.stdout),
        "stderr": tail(run.stderr),
        "duration_ms": run.duration_ms,
    }
