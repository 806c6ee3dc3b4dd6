"""Which run of its pools a worker with a free turn takes: the most important one that may start now.

One statement finds it, starts it and hands out what is to be run. A limit for a skill or for the organisation holds for all
workers together, so with limits one worker chooses at a time.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import delete, func, select, text, update

from skillyard.database import handovers, happenings_of, runs, steps, workers
from skillyard.engine.attempts import hold_place, ready, reusable
from skillyard.engine.journal import INTERRUPTED
from skillyard.engine.live import steps_told, told_in
from skillyard.engine.owner import is_gone
from skillyard.engine.record import QUEUE
from skillyard.execution import StepTrace

if TYPE_CHECKING:
    from sqlalchemy import Connection, Row

    from skillyard.database import Database
    from skillyard.engine.queue import RunQueue
    from skillyard.engine.silence import Silence

__all__ = ["Limits", "Taken", "abandoned", "pick", "put_back"]

_LOCK: Final = "SELECT pg_advisory_xact_lock(hashtext('skillyard.turns'), hashtext(current_schema()))"


@dataclass(frozen=True, slots=True)
class Limits:
    """How many runs of this organisation, and of skills by name or id, work at once; None and nothing: as many as can."""

    per_organisation: int | None
    per_skill: Mapping[str, int]

    def __bool__(self) -> bool:
        return self.per_organisation is not None or bool(self.per_skill)


@dataclass(frozen=True, slots=True)
class Taken:
    """A run that a worker has taken: what is to be run, which attempt of how many this is, and its finished steps."""

    run_id: str
    request: str
    attempt: int
    attempts: int
    finished: tuple[StepTrace, ...] = ()


def pick(database: Database, pools: Collection[str], owner: str, limits: Limits) -> Taken | None:
    """Start the next run of those pools as `owner`; None when none may start now."""
    while True:
        with database.write() as connection:
            held = _held_back(connection, limits)
            row = None if held is None else connection.execute(_next(pools, owner, held)).first()
            if row is None:
                return None
            if row.attempt is not None:
                return Taken(row.run_id, row.request or "", row.attempt, row.attempts, _finished(connection, row))
            connection.execute(delete(handovers).where(handovers.c.run_id == row.run_id))  # it ended while it waited


def put_back(database: Database, taken: Taken, owner: str) -> None:
    """Let a run that `owner` took and has not begun wait for any worker again, as the same attempt."""
    mine = (runs.c.id == taken.run_id, runs.c.state == "running", runs.c.owner == owner, runs.c.attempt == taken.attempt)
    with database.write() as connection:
        hold_place(connection, taken.run_id)
        waits = update(runs).where(*mine).values(state="queued", owner=QUEUE, started_at=None)
        if connection.execute(waits).rowcount == 1:
            connection.execute(update(handovers).where(handovers.c.run_id == taken.run_id).values(waiting=True))


def _next(pools: Collection[str], owner: str, held: Collection[str]) -> Any:
    """The statement that takes the first run that waits, but for those of skills that are held back."""
    first = select(handovers.c.run_id).where(
        handovers.c.pool.in_(pools),
        handovers.c.waiting,
        ready(),
    )
    first = first.join(runs, runs.c.id == handovers.c.run_id)
    if held:
        first = first.where(runs.c.skill_name.not_in(held), runs.c.skill_id.not_in(held))
    order = (handovers.c.priority.desc(), runs.c.created_at, handovers.c.run_id)
    chosen = first.order_by(*order).limit(1).with_for_update(skip_locked=True, of=handovers).cte("chosen")
    taken = update(handovers).where(handovers.c.run_id == chosen.c.run_id).values(waiting=False)
    marked = taken.returning(handovers.c.run_id, handovers.c.request, handovers.c.attempts).cte("marked")
    started = {"state": "running", "owner": owner, "started_at": func.now()}
    begun = update(runs).where(runs.c.id == chosen.c.run_id, runs.c.state == "queued").values(started)
    begun_row = begun.returning(runs.c.id, runs.c.attempt).cte("begun")
    return select(marked, begun_row.c.attempt).outerjoin_from(marked, begun_row, begun_row.c.id == marked.c.run_id)


def _held_back(connection: Connection, limits: Limits) -> list[str] | None:
    """The skills of which as many work as may; None when of the organisation as many do."""
    if not limits:
        return []
    connection.execute(text(_LOCK))
    query = select(runs.c.skill_id, runs.c.skill_name, func.count().label("many")).where(runs.c.state == "running")
    working = connection.execute(query.group_by(runs.c.skill_id, runs.c.skill_name)).all()
    if limits.per_organisation is not None and sum(row.many for row in working) >= limits.per_organisation:
        return None
    return [name for name, most in limits.per_skill.items() if sum(row.many for row in working if name in row[:2]) >= most]


def _finished(connection: Connection, row: Row[Any]) -> tuple[StepTrace, ...]:
    """The steps that an attempt before has left in the record, or told before it was cut off: whole and without an error."""
    if row.attempt == 1:
        return ()
    found = connection.execute(select(steps).where(steps.c.run_id == row.run_id).order_by(steps.c.position)).mappings()
    names = StepTrace.__dataclass_fields__
    kept = [StepTrace(**{name: step[name] for name in names}) for step in found]
    told = steps_told(told_in((item.body for item in happenings_of(connection, row.run_id)), row.attempt))
    known = {(step.step_id, step.step_name) for step in kept}
    traced = (*kept, *(step for step in told if (step.step_id, step.step_name) not in known))
    return tuple(step for step in traced if reusable(step))


def abandoned(database: Database, queue: RunQueue, silence: Silence, *, silent: bool) -> tuple[str, ...]:
    """Take the runs of workers that are gone away from them: another attempt where that is safe, else `interrupted`.

    With `silent` also those of workers that were heard to say nothing for too long, although their process may be there.
    """
    query = select(runs.c.id, runs.c.owner, runs.c.attempt, workers.c.seen_at).where(runs.c.state == "running")
    query = query.join_from(runs, handovers, handovers.c.run_id == runs.c.id)
    query = query.outerjoin(workers, workers.c.owner == runs.c.owner)
    with database.read() as connection:
        working = connection.execute(query).all()
    silence.keep({row.owner for row in working})
    quiet = {row.id: silence.of(row.owner, row.seen_at) for row in working if row.seen_at is not None}
    found = [row for row in working if is_gone(row.owner, quiet.get(row.id) if silent else None, seen=True)]
    return tuple(row.id for row in found if queue.give_up(row.id, row.attempt, INTERRUPTED))
