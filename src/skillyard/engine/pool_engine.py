"""The engine that has workers: runs of a pool go into its queue in PostgreSQL, all others work in this process.

With `everything` there is a pool for the runs that name none: then all of them go through the queue, and wait there for a
worker whatever happens to the requesting process. `_RunWatch` waits for a run that a worker has: until it has
ended, its worker has died, or no worker is left that could claim it.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Self

from skillyard.concurrency import in_thread
from skillyard.engine.local_engine import BaseEngine, LocalEngine, Records
from skillyard.engine.run_call import write_request
from skillyard.engine.run_lifecycle import record_end
from skillyard.engine.run_record import FINAL_STATES, run_from_record
from skillyard.engine.slots import EngineSettings
from skillyard.errors import DatabaseUnavailable
from skillyard.execution import Executor, RunError, retry_policy, worker_pool
from skillyard.times import MAX_RUN_MS

if TYPE_CHECKING:
    from skillyard.catalog import Configuration, Skill
    from skillyard.database import ChangeNotifier
    from skillyard.engine.journal import Journal
    from skillyard.engine.run_call import RunCall, Runner
    from skillyard.engine.run_queue import QueuedRun, RunQueue
    from skillyard.engine.slots import Slots
    from skillyard.engine.worker_roster import WorkerRoster
    from skillyard.execution import Run
    from skillyard.times import Timing


_STAYS: Final = "a folder of this machine cannot go to a worker pool: give files instead"
_UNRECORDED: Final = "a run that is not recorded cannot go to a worker pool"


class PoolEngine(BaseEngine):
    """Hands a skill that names a worker pool over to that pool, and leaves every other one to `local`.

    A pool without a living worker is unavailable: nothing has run, and the fallback for the skill's kind runs here. The
    queues are in the database of `records`, which must be PostgreSQL. `everything` is the pool of every other run: one waits
    there until a worker takes it.
    """

    def __init__(self, local: LocalEngine, records: Records | None, *, everything: str | None = None) -> None:
        super().__init__(records)
        self._local = local
        self._everything = everything
        self._lasting: set[str] = set()
        self._reaching = _PoolConnection(prepare=everything is not None)
        self._timeout_ms = MAX_RUN_MS

    @classmethod
    def of(
        cls,
        configuration: Configuration,
        runner: Runner,
        records: Records | None,
        *,
        slots: Slots | None = None,
        organisation: str = "",
    ) -> Self:
        """The engine that `[engine]` of a configuration describes; `slots` are the turns that it shares with others.

        Raises:
            InvalidConfiguration: the table has an invalid value.
        """
        settings = EngineSettings.of(configuration)
        local = LocalEngine(runner, records, slots=slots or settings.slots(), organisation=organisation)
        return cls(local, records, everything=settings.pool if settings.kind == "procrastinate" else None)

    def through(self, runner: Runner) -> PoolEngine:
        """This engine with another runner for what works here; the time that it allows also holds for the workers."""
        engine = copy(self)
        engine._local = self._local.through(runner)
        if isinstance(runner, Executor):
            engine._timeout_ms = min(runner.timeout_ms, MAX_RUN_MS)
        return engine

    def unrecorded(self) -> PoolEngine:
        """This engine without its records: everything works here."""
        engine = copy(self)
        engine._local, engine._records = self._local.unrecorded(), None
        return engine

    def can_run(self, skill: Skill) -> bool:
        """Whether the skill has something that could be started; workers come and go, so they are not looked for."""
        if self._records is not None and self._records.may_have_workers and worker_pool(skill) is not None:
            return True
        return self._local.can_run(skill)

    def _queued(self, call: RunCall, journal: Journal) -> RunCall:
        """The call, written down: in the queue of its pool when that is served, with the reason when it is not."""
        pool = worker_pool(call.skill)
        if pool is None:
            digest = call.request.digest
            # a skill that has changed since the consent is refused here, with the usual error
            if self._everything is None or call.must_run_here or (digest is not None and digest != call.skill.digest()):
                return super()._queued(call, journal)
            self._require_queues(journal)
            return self._hand_over(call, self._everything, journal, lasting=True)
        reason = _STAYS if call.must_run_here else self._problem(pool, journal)
        if reason is not None:
            return super()._queued(call.with_request(unavailable=reason), journal)
        return self._hand_over(call, pool, journal, lasting=False)

    def _hand_over(self, call: RunCall, pool: str, journal: Journal, *, lasting: bool) -> RunCall:
        retry = retry_policy(call.skill)
        call = replace(call, pool=pool, retry=retry).with_request(digest=call.request.digest or call.skill.digest())
        self._reaching.reach(journal).queue.enqueue(
            call.record(),
            pool=pool,
            request=write_request(call, timeout_ms=self._timeout_ms),
            cache_key=call.cache_policy.key if call.cache_policy else None,
            recorded=call.recorded,
            attempts=retry.attempts,
            lasting=lasting,
            files=call.request.files,
        )
        if lasting:
            self._lasting.add(call.run_id)
        return call

    def _runs_elsewhere(self) -> frozenset[str]:
        return frozenset(self._lasting)

    def _require_queues(self, journal: Journal) -> None:
        """Be ready to hand runs over.

        Raises:
            DatabaseUnavailable: the records are not in PostgreSQL, or procrastinate is not installed.
        """
        problem = self._reaching.problem(journal)
        if problem is not None:
            raise DatabaseUnavailable(f"the engine is procrastinate, and {problem.message}", hint=problem.hint)

    def _problem(self, pool: str, journal: Journal) -> str | None:
        """Why the pool cannot be used now, or None."""
        from skillyard.engine.run_queue import name_problem

        if (wrong := name_problem(pool)) is not None:
            return wrong
        if (problem := self._reaching.problem(journal)) is not None:
            return f"it names the worker pool {pool!r}, and {problem.message} ({problem.hint})"
        return None if self._reaching.reach(journal).roster.is_served(pool) else _no_worker(pool)

    async def _execute(self, call: RunCall, journal: Journal | None) -> Run:
        if journal is None and worker_pool(call.skill) is not None:
            call = call.with_request(unavailable=_UNRECORDED)
        if call.pool is None or journal is None:
            return await self._local.work(journal).carry_out(call)
        try:
            lasting, reach = call.run_id in self._lasting, self._reaching.reach(journal)
            run = await _RunWatch(call.run_id, call.pool, self._timeout_ms, reach, lasting=lasting).result()
        finally:
            self._lasting.discard(call.run_id)
        if run is not None:
            return run
        self._watch_cancellation(call.run_id, journal)
        call = call.with_request(unavailable=_no_worker(call.pool))
        return await self._local.work(journal).carry_out(call, started=True)


def _no_worker(pool: str) -> str:
    """The reason why a run cannot go to a pool without workers, and how to fix it."""
    return f"no worker serves the pool {pool!r}: start one with `skillyard worker --pool {pool}`"


class _PoolConnection:
    """What it takes to hand runs over, made when first needed and shared by all who use one engine."""

    def __init__(self, *, prepare: bool) -> None:
        self._prepare = prepare
        self._lock = threading.Lock()
        self._reach: PoolServices | None = None

    def problem(self, journal: Journal) -> DatabaseUnavailable | None:
        """Why the database has no queues, or None."""
        from skillyard.engine.run_queue import queue_problem

        return queue_problem(journal.database)

    def reach(self, journal: Journal) -> PoolServices:
        """The services of the database in which that journal is."""
        from skillyard.engine.run_queue import RunQueue
        from skillyard.engine.worker_roster import WorkerRoster

        with self._lock:
            if self._reach is None or self._reach.journal is not journal:
                database = journal.database
                queue = RunQueue(database)
                if self._prepare:
                    queue.prepare()  # no worker may have been there before
                self._reach = PoolServices(queue, WorkerRoster(database), database.notifier, journal)
            return self._reach


_WORKER_ENDED: Final = RunError("INTERRUPTED", "the worker that executed the run has ended")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PoolServices:
    """What it takes to hand runs over to the workers of one database."""

    queue: RunQueue
    roster: WorkerRoster
    notifier: ChangeNotifier
    journal: Journal


@dataclass(slots=True)
class _RunWatch:
    """One run that was handed over, while it is waited for; one that is `lasting` is never taken back."""

    run_id: str
    pool: str
    timeout_ms: int
    reach: PoolServices
    lasting: bool = False
    deadline: float | None = None
    attempt: int = 1
    seen: float = field(default_factory=time.monotonic)
    ended: float | None = None

    @property
    def timing(self) -> Timing:
        return self.reach.journal.database.timing

    async def look(self) -> QueuedRun | None:
        """The state of the run; None while the database does not answer.

        Raises:
            DatabaseUnavailable: it has not answered for a minute.
        """
        try:
            queued = await asyncio.to_thread(self.reach.queue.lookup, self.run_id)
        except DatabaseUnavailable as error:
            if time.monotonic() - self.seen > self.timing.patience_s:
                raise
            _log.warning("waiting for run %s: %s", self.run_id, error.message)
            return None
        self.seen = time.monotonic()
        return queued

    async def taken_back(self) -> bool:
        """Whether the run was taken back because no worker is left that could take it."""
        reach = self.reach
        if self.lasting:
            return False
        with suppress(DatabaseUnavailable):
            if not await asyncio.to_thread(reach.roster.is_served, self.pool):
                return await in_thread(lambda: reach.queue.reclaim(self.run_id))
        return False

    async def is_abandoned(self, queued: QueuedRun) -> bool:
        """Whether the worker of an ended run does nothing more for it: it has died, or its grace period has ended."""
        self.ended = self.ended or time.monotonic()
        with suppress(DatabaseUnavailable):
            ended = not await asyncio.to_thread(self.reach.roster.owner_lives, queued.owner)
            if ended or time.monotonic() - self.ended > self.timing.grace_s:
                await in_thread(lambda: self.reach.queue.release(self.run_id))
                return True
        return False

    async def look_after(self, queued: QueuedRun) -> None:
        """End the run when its worker has died, or has not reported its end long after its time limit."""
        now = time.monotonic()
        if queued.attempt != self.attempt:
            self.attempt, self.deadline = queued.attempt, None
        self.deadline = self.deadline or now + self.timeout_ms / 1000 + self.timing.grace_s
        with suppress(DatabaseUnavailable):
            if not await asyncio.to_thread(self.reach.roster.owner_lives, queued.owner):
                await asyncio.to_thread(self.reach.queue.give_up, self.run_id, queued.attempt, _WORKER_ENDED)
            elif now > self.deadline:
                message = f"its worker has not said how it ended within {self.timeout_ms} ms"
                late = RunError("RESOURCE_LIMIT_ERROR", message)
                await record_end(self.reach.journal, "failed", self.run_id, late, attempt=queued.attempt)
                await in_thread(lambda: self.reach.queue.release(self.run_id))

    def _ended(self) -> Run:
        """The recorded run with the files that it made."""
        run = run_from_record(self.reach.journal.get(self.run_id))
        if not run.files:
            return run
        from skillyard.engine.run_files import RunFiles

        return replace(run, made=RunFiles(lambda: self.reach.journal.database).of(self.run_id, "made"))

    async def result(self) -> Run | None:
        """The result of the run; None when it was taken back, recorded as running here.

        Raises:
            SkillyardError: the worker could not start it.
            DatabaseUnavailable: the database has not answered for a minute.
        """
        from skillyard.database import wait_for_change

        reach, timing = self.reach, self.timing
        async with reach.notifier.subscribe(self.run_id) as changed:
            while True:
                changed.clear()
                queued = await self.look()
                if queued is not None and queued.state in FINAL_STATES and (not queued.open or await self.is_abandoned(queued)):
                    return await asyncio.to_thread(self._ended)
                if queued is not None and queued.state == "queued":
                    if await self.taken_back():
                        return None
                elif queued is not None and queued.state not in FINAL_STATES:
                    await self.look_after(queued)
                await wait_for_change(changed, timing.lasting_look_s if self.lasting else timing.look_s)
