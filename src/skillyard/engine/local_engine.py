"""The engine in this process, and what every engine does with a request: give a cached result again, record and run the rest.

`BaseEngine` is the part of an engine that does not depend on where runs work. `LocalEngine` works here: runs wait for a slot;
see `pool_engine` for the other. `Records` are what both write: opened when first needed, shared by everything that records.
"""

from __future__ import annotations

import asyncio
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine
from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from skillyard.concurrency import completed
from skillyard.engine.live_output import trace_run
from skillyard.engine.run_call import RunCall, Runner, cache_policy_of, new_call, run_from_cache
from skillyard.engine.run_lifecycle import CANCELLED, CancellationWatch, RunLifecycle, RunTask, record_end, run_error
from skillyard.engine.slots import Slots
from skillyard.execution import Run, RunError, RunRequest, retry_policy
from skillyard.memory import SqlMemoryService
from skillyard.times import DEFAULT_TIMING, Timing
from skillyard.tracing import is_traced, skill_attributes

if TYPE_CHECKING:
    from skillyard.catalog import Skill, SkillCatalog
    from skillyard.database import Database
    from skillyard.engine.journal import Journal
    from skillyard.engine.run_record import RunRecord
    from skillyard.memory import MemoryService


_NOT_WAITED_FOR: Final = RunError("NOT_WAITED_FOR", "the run continues; this process has stopped waiting for it")
_Value = TypeVar("_Value")


class Records:
    """The database at the URL `configured`, else `skillyard.db` in the folder `data`; nothing is opened yet.

    Opening makes or upgrades the tables, and ends the runs whose process has ended. The properties block:
    asynchronous code uses them in a thread.
    """

    def __init__(self, data: str, configured: str | None = None, *, timing: Timing = DEFAULT_TIMING) -> None:
        self._timing = timing
        self._data = data
        self._configured = configured
        self._lock = threading.Lock()
        self._database: Database | None = None
        self._journal: Journal | None = None

    @classmethod
    def of(cls, catalog: SkillCatalog, *, timing: Timing = DEFAULT_TIMING) -> Self:
        """The records that the catalog's configuration and environment name."""
        return cls(catalog.data_directory, catalog.configuration.database_url, timing=timing)

    @property
    def may_have_workers(self) -> bool:
        """Whether the records are, by their address, in a database that worker pools can use; opens nothing."""
        return (self._configured or "").startswith("postgres")

    @property
    def database(self) -> Database:
        """The database, opened.

        Raises:
            DatabaseUnavailable: it cannot be opened.
        """
        return self._opened()[0]

    @property
    def journal(self) -> Journal:
        """The journal of runs.

        Raises:
            DatabaseUnavailable: the database cannot be opened.
        """
        return self._opened()[1]

    def close(self) -> None:
        """Release the database; the next use opens it again."""
        with self._lock:
            if self._database is not None:
                self._database.close()
            self._database = self._journal = None

    def _opened(self) -> tuple[Database, Journal]:
        from skillyard.database import Database  # half a second: only for who records or looks at records
        from skillyard.engine.journal import Journal

        with self._lock:
            if self._database is None or self._journal is None:
                database = Database.open(self._data, self._configured, timing=self._timing)
                journal = Journal(database)
                journal.recover()
                self._database, self._journal = database, journal
            return self._database, self._journal


@dataclass(frozen=True, slots=True)
class StartedRun:
    """A run in the background: `ended` gives its result, or raises as `Engine.run` does.

    Keep a reference to it: a task without one may be garbage collected.
    """

    run_id: str
    ended: asyncio.Task[Run]


class BaseEngine(ABC):
    """The part of an engine that does not depend on where runs work."""

    def __init__(self, records: Records | None) -> None:
        self._records = records
        self._working: dict[str, RunTask] = {}
        self._cancellations = CancellationWatch()
        self._abandoned: set[str] = set()

    async def run(self, request: RunRequest) -> Run:
        """Execute the request (see `Engine.run`); cancelling the caller ends the run as `cancelled`.

        Raises:
            InvalidInput: the priority is not from -100 to 100.
            DatabaseUnavailable: the run cannot be recorded; nothing was started.
            SkillyardError: it could not be started; the reason is in the record.
        """
        call = new_call(request)
        if self._records is None:
            return await self._wait_for(self._execute(call, None), call, None)
        journal = await asyncio.to_thread(lambda records: records.journal, self._records)
        ready = await self._ready(call, journal)
        return ready if isinstance(ready, Run) else await self._wait_for(self._execute(ready, journal), ready, journal)

    async def begin(self, request: RunRequest, *, consent: Callable[[], Awaitable[str | None]] | None = None) -> StartedRun:
        """Record a run and execute it in the background, whatever happens to the caller.

        `consent` is awaited before anything starts: it gives the digest that was agreed to, or raises; the run waits for it as
        `queued`.

        Raises:
            RecordExists: there is a run with that id.
            InvalidInput: the priority is none, or the parameters cannot be handed over to a worker.
            DatabaseUnavailable: the run cannot be recorded; nothing was started.
        """
        call = new_call(request)
        if self._records is None:
            return StartedRun(call.run_id, asyncio.create_task(self._wait_for(self._execute(call, None), call, None)))
        journal = await asyncio.to_thread(lambda records: records.journal, self._records)
        if consent is not None:
            await _recorded_or_cancelled(call.run_id, journal, asyncio.to_thread(journal.queue, call.record()))
            call = replace(call, recorded=True)
            going = self._consented(call, journal, consent)
            return StartedRun(call.run_id, asyncio.create_task(self._wait_for(going, call, journal)))
        ready = await self._ready(call, journal)
        if isinstance(ready, Run):
            return StartedRun(call.run_id, asyncio.create_task(_completed_run(ready)))
        return StartedRun(call.run_id, asyncio.create_task(self._wait_for(self._execute(ready, journal), ready, journal)))

    async def cancel(self, run_id: str) -> bool:
        """End a run that waits or works in this engine, as `cancelled`; False when none of that id does, or it has ended."""
        working = self._working.get(run_id)
        return working is not None and await working.cancel()

    def working(self) -> tuple[str, ...]:
        """The ids of the runs that wait or work in this engine."""
        return tuple(self._working)

    async def leave(self) -> None:
        """Stop waiting for the runs that workers continue without this process; those that work here are not touched."""
        going = self._runs_elsewhere()
        self._abandoned.update(going)
        waiting = [self._working[run_id] for run_id in going if run_id in self._working]
        for working in waiting:
            working.interrupt()
        if waiting:
            await asyncio.wait([working.task for working in waiting])

    def _runs_elsewhere(self) -> frozenset[str]:
        """The runs of this engine that end without this process, from now on."""
        return frozenset()

    async def _consented(self, call: RunCall, journal: Journal, consent: Callable[[], Awaitable[str | None]]) -> Run:
        """The run after consent was given; a refusal is recorded."""
        try:
            call = call.with_request(digest=await consent() or call.request.digest)
            ready = await self._ready(call, journal)
            return ready if isinstance(ready, Run) else await self._execute(ready, journal)
        except asyncio.CancelledError:
            raise  # the interrupting code decides how it ends
        except BaseException as error:
            await record_end(journal, "failed", call.run_id, run_error(error))
            raise

    async def _ready(self, call: RunCall, journal: Journal) -> Run | RunCall:
        """A cached result, or the call, recorded and ready to be executed."""
        return await _recorded_or_cancelled(call.run_id, journal, self._prepared(call, journal))

    async def _prepared(self, call: RunCall, journal: Journal) -> Run | RunCall:
        cache_policy = None if not call.request.is_plain else await asyncio.to_thread(cache_policy_of, call.request)
        if cache_policy is not None:
            call = replace(call, cache_policy=cache_policy)
            if not call.request.fresh and (kept := await asyncio.to_thread(journal.cached, cache_policy.key)) is not None:
                return await asyncio.to_thread(_repeat_cached, journal, call, kept)
        return await asyncio.to_thread(self._queued, call, journal)

    def _queued(self, call: RunCall, journal: Journal) -> RunCall:
        """The call, recorded before anything is started."""
        journal.queue(call.record(), cache_key=call.cache_policy.key if call.cache_policy else None, recorded=call.recorded)
        return replace(call, retry=retry_policy(call.skill))

    @abstractmethod
    async def _execute(self, call: RunCall, journal: Journal | None) -> Run:
        """Execute the run to its end."""

    async def _wait_for(self, going: Coroutine[object, object, Run], call: RunCall, journal: Journal | None) -> Run:
        """The run as a task of its own, so that `cancel` ends it and not its caller."""
        if call.run_id in self._abandoned:  # before it was waited for
            going.close()
            return self._not_waited_for(call)
        working = self._working[call.run_id] = RunTask(call.run_id, going, journal)
        if call.pool is None:
            self._watch_cancellation(call.run_id, journal)
        try:
            await asyncio.wait([working.task])
            return await self._ended(working, call, journal)
        except asyncio.CancelledError:
            await working.cancel()
            await completed(working.over())
            raise
        finally:
            del self._working[call.run_id]
            self._cancellations.remove(call.run_id)

    async def _ended(self, working: RunTask, call: RunCall, journal: Journal | None) -> Run:
        """The result of the run; `cancelled` for one that was cancelled, whatever its task returned."""
        if not await working.was_cancelled():
            if not working.task.cancelled():
                return working.task.result()
            if call.run_id in self._abandoned:
                return self._not_waited_for(call)
            await record_end(journal, "cancelled", call.run_id, CANCELLED)  # its task was interrupted by itself
        return Run(call.run_id, call.skill.id, status="killed", error=CANCELLED)

    def _watch_cancellation(self, run_id: str, journal: Journal | None) -> None:
        """End the run when another process cancels it in its record."""
        if journal is not None and run_id in self._working:
            self._cancellations.add(run_id, self._working[run_id], journal)

    def _not_waited_for(self, call: RunCall) -> Run:
        self._abandoned.discard(call.run_id)
        return Run(call.run_id, call.skill.id, status="killed", error=_NOT_WAITED_FOR)


async def _recorded_or_cancelled(run_id: str, journal: Journal, writing: Coroutine[Any, Any, _Value]) -> _Value:
    """Await what records a run; when the caller is cancelled meanwhile, nothing would execute it, so it ends as cancelled."""
    doing = asyncio.ensure_future(writing)
    try:
        return await completed(doing)
    except asyncio.CancelledError:
        if not doing.cancelled() and doing.exception() is None:
            await record_end(journal, "cancelled", run_id, CANCELLED)
        raise


async def _completed_run(run: Run) -> Run:
    return run


def _repeat_cached(journal: Journal, call: RunCall, kept: RunRecord) -> Run:
    """A cached result, recorded as a run of its own; its memories are not saved again."""
    run = run_from_cache(kept, call.run_id, call.skill.id)
    journal.repeat(replace(call.record(), cache_hit=True, cached_from=kept.id), run, recorded=call.recorded)
    now = time.time_ns()
    about = skill_attributes(call.skill, call.request.digest) if is_traced() else {}
    trace_run(run, about, requested_ns=now, turn_ns=now, ended_ns=now)
    return run


class LocalEngine(BaseEngine):
    """Executes runs with `runner` in this process and records them in `records`.

    Memories that a run suggests go to `memory`, by default the one beside the records. Without `records` and `memory` nothing
    is recorded, kept or remembered. At most `concurrency` runs work at once (default: two for each
    processor), or as many as `slots` that several engines share; then `organisation` is whose runs this engine executes.
    """

    def __init__(
        self,
        runner: Runner,
        records: Records | None = None,
        *,
        memory: MemoryService | None = None,
        concurrency: int | None = None,
        slots: Slots | None = None,
        organisation: str = "",
    ) -> None:
        super().__init__(records)
        self._runner = runner
        self._memory = memory or (SqlMemoryService(lambda: records.database) if records is not None else None)
        self._slots = slots or Slots(concurrency)
        self._organisation = organisation

    def through(self, runner: Runner) -> LocalEngine:
        """This engine with another runner: the same records and turns."""
        engine = copy(self)
        engine._runner = runner
        return engine

    def unrecorded(self) -> LocalEngine:
        """This engine without its records and memory: the same runner and turns."""
        engine = copy(self)
        engine._records = engine._memory = None
        return engine

    def can_run(self, skill: Skill) -> bool:
        """Whether the skill has something that could be started; looks at files, starts nothing."""
        return self._runner.can_run(skill)

    def work(self, journal: Journal | None) -> RunLifecycle:
        """Executes one run and records in `journal` how it ended."""
        return RunLifecycle(self._runner, journal, self._memory, self._slots, self._organisation)

    async def _execute(self, call: RunCall, journal: Journal | None) -> Run:
        return await self.work(journal).carry_out(call)
