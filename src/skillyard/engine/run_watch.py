"""Waiting for a run that a worker has: until it has ended, its worker is gone, or nobody is left who could take it."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from skillyard.concurrency import in_thread
from skillyard.database import wait_for_change
from skillyard.engine.run_lifecycle import record_end
from skillyard.engine.run_record import FINAL_STATES, run_from_record
from skillyard.errors import DatabaseUnavailable
from skillyard.execution import RunError

if TYPE_CHECKING:
    from skillyard.database import ChangeNotifier
    from skillyard.engine.journal import Journal
    from skillyard.engine.run_queue import QueuedRun, RunQueue
    from skillyard.engine.worker_roster import WorkerRoster
    from skillyard.execution import Run
    from skillyard.timing import Timing


_GONE: Final = RunError("INTERRUPTED", "the worker that carried the run is gone")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PoolServices:
    """The way to the workers of one database."""

    queue: RunQueue
    roster: WorkerRoster
    notifier: ChangeNotifier
    journal: Journal


@dataclass(slots=True)
class _RunWatch:
    """One run that is waited for."""

    run_id: str
    pool: str
    timeout_ms: int
    reach: PoolServices
    lasting: bool = False
    deadline: float | None = None
    attempt: int = 1
    seen: float = 0.0
    ended: float | None = None

    @property
    def timing(self) -> Timing:
        return self.reach.journal.database.timing

    async def look(self) -> QueuedRun | None:
        """Where the run is; None while the database does not answer.

        Raises:
            DatabaseUnavailable: it has not answered for a minute.
        """
        try:
            place = await asyncio.to_thread(self.reach.queue.lookup, self.run_id)
        except DatabaseUnavailable as error:
            if time.monotonic() - self.seen > self.timing.patience_s:
                raise
            _log.warning("waiting for run %s: %s", self.run_id, error.message)
            return None
        self.seen = time.monotonic()
        return place

    async def taken_back(self) -> bool:
        """Whether the run was taken back because no worker is left that could take it."""
        reach = self.reach
        if self.lasting:
            return False
        with suppress(DatabaseUnavailable):
            if not await asyncio.to_thread(reach.roster.is_served, self.pool):
                return await in_thread(lambda: reach.queue.reclaim(self.run_id))
        return False

    async def is_left(self, place: QueuedRun) -> bool:
        """Whether nobody does anything about a run any more that has ended: its worker is gone, or has had long enough."""
        self.ended = self.ended or time.monotonic()
        with suppress(DatabaseUnavailable):
            gone = not await asyncio.to_thread(self.reach.roster.owner_lives, place.owner)
            if gone or time.monotonic() - self.ended > self.timing.grace_s:
                await in_thread(lambda: self.reach.queue.release(self.run_id))
                return True
        return False

    async def look_after(self, place: QueuedRun) -> None:
        """End the run when its worker is gone, or when it says nothing long after the run's time."""
        now = time.monotonic()
        if place.attempt != self.attempt:
            self.attempt, self.deadline = place.attempt, None
        self.deadline = self.deadline or now + self.timeout_ms / 1000 + self.timing.grace_s
        with suppress(DatabaseUnavailable):
            if not await asyncio.to_thread(self.reach.roster.owner_lives, place.owner):
                await asyncio.to_thread(self.reach.queue.give_up, self.run_id, place.attempt, _GONE)
            elif now > self.deadline:
                message = f"its worker has not said how it ended within {self.timeout_ms} ms"
                late = RunError("RESOURCE_LIMIT_ERROR", message)
                await record_end(self.reach.journal, "failed", self.run_id, late, attempt=place.attempt)
                await in_thread(lambda: self.reach.queue.release(self.run_id))


async def await_run(run_id: str, *, pool: str, timeout_ms: int, reach: PoolServices, lasting: bool = False) -> Run | None:
    """What became of a run that was handed over; None when it was taken back, noted as running here.

    One that is `lasting` is never taken back: it waits until there is a worker.

    Raises:
        SkillyardError: the worker could not start it.
        DatabaseUnavailable: the database has not answered for a minute.
    """
    watch = _RunWatch(run_id, pool, timeout_ms, reach, lasting=lasting, seen=time.monotonic())
    async with reach.notifier.subscribe(run_id) as rung:
        while True:
            rung.clear()
            place = await watch.look()
            if place is not None and place.state in FINAL_STATES and (not place.open or await watch.is_left(place)):
                return run_from_record(await asyncio.to_thread(reach.journal.get, run_id))
            if place is not None and place.state == "queued":
                if await watch.taken_back():
                    return None
            elif place is not None and place.state not in FINAL_STATES:
                await watch.look_after(place)
            await wait_for_change(rung, watch.timing.lasting_look_s if lasting else watch.timing.look_s)
