"""The engine that has workers: runs of a pool are handed over to it through PostgreSQL, all others work in this process."""

from __future__ import annotations

import asyncio
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from skillyard.engine.carrying import Carrier
from skillyard.engine.request import LONGEST_MS, write_request
from skillyard.engine.working import CANCELLED, note_end
from skillyard.execution import Executor, pool_of

if TYPE_CHECKING:
    from skillyard.catalog import Skill
    from skillyard.engine.call import RunCall
    from skillyard.engine.journal import Journal
    from skillyard.engine.local import LocalEngine
    from skillyard.engine.protocol import Runner
    from skillyard.engine.records import Records
    from skillyard.engine.waiting import Reach
    from skillyard.execution import Run

__all__ = ["PoolEngine"]

_STAYS: Final = "files and command lines of this machine cannot go to a worker pool"
_UNRECORDED: Final = "a run that is not recorded cannot go to a worker pool"


class PoolEngine(Carrier):
    """Hands a skill that names a worker pool over to that pool, and leaves every other one to `local`.

    A pool that no living worker serves is unavailable: nothing has run, and what stands in for the skill's kind runs here
    (defect D-17). The queues are in the database of `records`, which must be PostgreSQL.
    """

    def __init__(self, local: LocalEngine, records: Records | None) -> None:
        super().__init__(records)
        self._local = local
        self._reach: Reach | None = None
        self._timeout_ms = LONGEST_MS

    def through(self, runner: Runner) -> PoolEngine:
        """This engine with another runner for what works here; the time that it allows also holds for the workers."""
        engine = copy(self)
        engine._local = self._local.through(runner)
        if isinstance(runner, Executor):
            engine._timeout_ms = min(runner.timeout_ms, LONGEST_MS)
        return engine

    def unrecorded(self) -> PoolEngine:
        """This engine without its records: everything works here."""
        engine = copy(self)
        engine._local, engine._records = self._local.unrecorded(), None
        return engine

    def can_run(self, skill: Skill) -> bool:
        """Whether the skill has something that could be started; workers come and go, so they are not looked for."""
        if self._records is not None and self._records.may_have_workers and pool_of(skill) is not None:
            return True
        return self._local.can_run(skill)

    def _queued(self, call: RunCall, journal: Journal) -> RunCall:
        """The call, written down: in the queue of its pool when that is served, with the reason when it is not."""
        pool = pool_of(call.skill)
        if pool is None:
            return super()._queued(call, journal)
        reason = _STAYS if call.stays else self._problem(pool, journal)
        if reason is not None or self._reach is None:
            return super()._queued(replace(call, unavailable=reason), journal)
        call = replace(call, pool=pool, digest=call.digest or call.skill.digest())
        key = call.keeping.key if call.keeping else None
        request = write_request(call, timeout_ms=self._timeout_ms)
        self._reach.queue.hand_over(call.record(), pool=pool, request=request, cache_key=key, known=call.recorded)
        return call

    def _problem(self, pool: str, journal: Journal) -> str | None:
        """Why the pool cannot be used now, or None."""
        from skillyard.engine.queue import RunQueue, name_problem, queue_problem
        from skillyard.engine.roster import Roster
        from skillyard.engine.waiting import Reach

        database = journal.database
        if (wrong := name_problem(pool)) is not None:
            return wrong
        if (problem := queue_problem(database)) is not None:
            return f"it names the worker pool {pool!r}, and {problem.message} ({problem.hint})"
        if self._reach is None or self._reach.journal is not journal:
            self._reach = Reach(RunQueue(database), Roster(database), database.bell, journal)
        return None if self._reach.roster.is_served(pool) else _nobody_serves(pool)

    async def _carried(self, call: RunCall, journal: Journal | None) -> Run:
        if journal is None and pool_of(call.skill) is not None:
            call = replace(call, unavailable=_UNRECORDED)
        reach = self._reach
        if call.pool is None or journal is None or reach is None:
            return await self._local.work(journal).carry_out(call)
        from skillyard.engine.waiting import await_run

        try:
            run = await await_run(call.run_id, pool=call.pool, timeout_ms=self._timeout_ms, reach=reach)
        except asyncio.CancelledError:
            await note_end(journal, "cancelled", call.run_id, CANCELLED)
            raise
        if run is not None:
            return run
        call = replace(call, unavailable=_nobody_serves(call.pool))
        return await self._local.work(journal).carry_out(call, started=True)


def _nobody_serves(pool: str) -> str:
    """Why a run cannot go to a pool that no worker serves, and what to do about it."""
    return f"no worker serves the pool {pool!r}: start one with `skillyard worker --pool {pool}`"
