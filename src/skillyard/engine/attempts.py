"""Attempts at a run: the number of the current one is the fence that an older one cannot pass.

A run that is tried again waits once more, under the next number; the result of the attempt before is recorded. A process that
still executes an older attempt, because it was suspended or disconnected, sees another number and changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import delete, func, insert, or_, select, update

from skillyard.database import attempts, queued_runs, runs, steps
from skillyard.engine.run_record import QUEUE_OWNER, Attempt
from skillyard.execution import StepTrace
from skillyard.plain_json import REDACTED, to_redacted_json
from skillyard.times import utc_now

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Connection

    from skillyard.execution import RunError


IMMEDIATELY: Final = datetime(2000, 1, 1, tzinfo=UTC)
"""From when a run may start that need not wait: no clock is ever set back so far."""
_LONGEST_MS: Final = 1e12  # a skill may claim any number


def requeue(
    connection: Connection,
    run_id: str,
    attempt: int,
    error: RunError,
    *,
    finished: tuple[StepTrace, ...] = (),
    wait_s: float = 0,
) -> bool:
    """Queue the run for its next attempt, not before `wait_s` seconds; False when `attempt` is no longer the running one.

    A run in the queue of a pool waits there for any worker, every other one in its own process.
    """
    this_attempt = (runs.c.id == run_id, runs.c.state == "running", runs.c.attempt == attempt)
    before = connection.execute(select(runs.c.owner, runs.c.started_at).where(*this_attempt)).first()
    queued = update(queued_runs).where(queued_runs.c.run_id == run_id)
    if before is None:
        return False
    values: dict[str, Any] = {"state": "queued", "attempt": attempt + 1, "started_at": None}
    if connection.dialect.name == "postgresql":
        later = func.now() + timedelta(seconds=wait_s) if wait_s else IMMEDIATELY
        if connection.execute(queued.values(waiting=True, ready_at=later, queued_at=func.now())).rowcount == 1:
            values["owner"] = QUEUE_OWNER
    if connection.execute(update(runs).where(*this_attempt).values(values)).rowcount != 1:
        return False
    note = {"owner": before.owner, "started_at": before.started_at, "finished_at": utc_now()}
    failed = {"error_code": error.code, "error_message": error.message}
    connection.execute(insert(attempts).values(run_id=run_id, number=attempt, **note, **failed))
    if finished:
        connection.execute(delete(steps).where(steps.c.run_id == run_id))
        connection.execute(insert(steps), step_rows(run_id, finished))
    return True


def lock_queue_row(connection: Connection, run_id: str) -> None:
    """Lock a run's row in the queue before its row in the journal, in the same order as a worker that claims it.

    The opposite order could deadlock with such a worker.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(select(queued_runs.c.run_id).where(queued_runs.c.run_id == run_id).with_for_update())


def is_due() -> ColumnElement[bool]:
    """The condition that a queued run may start now; also when the clock was set back after it was delayed."""
    at = queued_runs.c.ready_at
    return or_(at <= func.now(), at.is_(None), queued_runs.c.queued_at > func.now())


def attempts_of(connection: Connection, run_id: str) -> tuple[Attempt, ...]:
    """The attempts at a run before the current or last one."""
    columns = [attempts.c[field.name] for field in fields(Attempt)]
    rows = connection.execute(select(*columns).where(attempts.c.run_id == run_id).order_by(attempts.c.number))
    return tuple(Attempt(**row._mapping) for row in rows)


def steps_of(connection: Connection, run_id: str) -> tuple[StepTrace, ...]:
    """The recorded steps of a run, in their order."""
    columns = [steps.c[field.name] for field in fields(StepTrace)]
    rows = connection.execute(select(*columns).where(steps.c.run_id == run_id).order_by(steps.c.position))
    return tuple(StepTrace(**row._mapping) for row in rows)


def is_reusable(step: StepTrace) -> bool:
    """Whether a recorded step is complete: values under a secret's name are redacted in the record."""
    return not step.error and not _has(step.output, REDACTED) and not _has(step.input, REDACTED)


def _has(value: object, text: str) -> bool:
    if isinstance(value, dict):
        return any(_has(inner, text) for inner in value.values())
    if isinstance(value, list):
        return any(_has(inner, text) for inner in value)
    return value == text


def step_rows(run_id: str, traced: Iterable[StepTrace]) -> list[dict[str, Any]]:
    """The rows of the steps of a run."""
    return [
        {
            "run_id": run_id,
            "position": position,
            "step_id": step.step_id,
            "step_name": step.step_name,
            "duration": float(min(step.duration, _LONGEST_MS)),
            **{name: to_redacted_json(getattr(step, name)) for name in ("input", "output", "error", "timestamp")},
        }
        for position, step in enumerate(traced)
    ]
