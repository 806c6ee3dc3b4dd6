"""One run from its slot to its end, the same in every engine: executed, recorded, cancelled by decision, its memories saved.

The record of a run decides how it ended, so a cancellation is written down before the task is interrupted: what the run makes
of being interrupted, a result or an error of its own, changes nothing then. A run that had ended before is not changed. One
query every second covers all runs of an event loop.

A run that has ended in a process that lives must not stay `running` in the records for ever, since nobody else may end it:
what the database cannot take now, because it is away, is tried again while this process lives. Whatever ends before the
database is back leaves the run to `Journal.recover`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from skillyard.concurrency import completed, in_thread
from skillyard.engine.live_output import LiveOutputWriter, trace_run
from skillyard.engine.run_call import remaining_cache_seconds
from skillyard.engine.slots import Slots
from skillyard.errors import DatabaseDamaged, DatabaseUnavailable, ExecutionProblem, SkillyardError
from skillyard.execution import Run, RunError
from skillyard.times import DEFAULT_TIMING
from skillyard.tracing import is_traced, skill_attributes

if TYPE_CHECKING:
    from skillyard.engine.journal import Journal
    from skillyard.engine.run_call import RunCall, Runner
    from skillyard.engine.run_record import RunState
    from skillyard.memory import MemoryService
    from skillyard.times import Timing

_log = logging.getLogger(__name__)
_deferred: set[asyncio.Task[None]] = set()


def is_temporary(problem: Exception) -> bool:
    """Whether the database may take later what it did not take now; not a value that it refuses, and not when it is damaged."""
    return isinstance(problem, DatabaseUnavailable) and not isinstance(problem, DatabaseDamaged)


def defer_write(run_id: str, write: Callable[[], Awaitable[object]], timing: Timing) -> None:
    """Call `write` until the database takes it; what else it raises is logged, and ends it."""
    task = asyncio.create_task(_retry(run_id, write, timing))
    _deferred.add(task)
    task.add_done_callback(_deferred.discard)


async def write_or_defer(run_id: str, write: Callable[[], Awaitable[bool | None]], timing: Timing) -> bool | None:
    """Call `write` now and give what it gives; None when the database is away, and it is called again later."""
    try:
        return await write()
    except DatabaseUnavailable as problem:
        _log.warning("run %s is to be recorded later: %s", run_id, problem.message)
        defer_write(run_id, write, timing)
        return None


async def _retry(run_id: str, write: Callable[[], Awaitable[object]], timing: Timing) -> None:
    wait = timing.first_retry_s
    while True:
        await asyncio.sleep(wait)
        try:
            await write()
        except Exception as problem:
            if is_temporary(problem):
                wait = min(timing.longest_retry_s, 2 * wait)
                continue
            _log.exception("how run %s ended could not be recorded later either", run_id)
            return
        else:
            _log.info("how run %s ended is recorded now", run_id)
            return


CANCELLED: Final = RunError("CANCELLED", "the run was cancelled")
_TOO_LATE: Final = "this run was recorded as ended before it ended: its memories are not saved"


@dataclass(frozen=True, slots=True)
class RunLifecycle:
    """Executes runs and records their results; `journal` and `memory` are optional."""

    runner: Runner
    journal: Journal | None
    memory: MemoryService | None
    slots: Slots
    organisation: str = ""

    async def carry_out(self, call: RunCall, *, started: bool = False) -> Run:
        """Wait for a slot, run, and record how it ended, whatever happens; an attempt that failed is followed by the next.

        `started` means that it is recorded as running already.
        """
        requested_ns = time.time_ns()
        while True:
            try:
                async with self.slots.acquire(call.slot_request(self.organisation)):
                    run = await self._execute(call, requested_ns, started=started)
            except BaseException as error:
                await self._failed(error, call)
                raise
            wait_s = call.retry.wait_s(run, call.attempt) if self.journal is not None else None
            if wait_s is None or not await self.requeue(run, call, wait_s):
                return await self.ended(run, call)
            await asyncio.sleep(wait_s)
            call = replace(call, attempt=call.attempt + 1).with_request(finished=call.retry.finished(run.steps))
            started = False

    async def attempt(self, call: RunCall) -> Run:
        """Execute a run that has its slot and is recorded as running; its end is not recorded yet."""
        try:
            return await self._execute(call, time.time_ns(), started=True)
        except BaseException as error:
            await self._failed(error, call)
            raise

    async def ended(self, run: Run, call: RunCall) -> Run:
        """The run, recorded as ended, with its memories saved; cancelling the caller does not interrupt this."""
        ending = asyncio.ensure_future(self._ended(run, call))
        with suppress(asyncio.CancelledError):
            await completed(ending)
        return ending.result()

    async def _ended(self, run: Run, call: RunCall) -> Run:
        return await self._save_memories(await self._recorded(run, call), call)

    async def _failed(self, error: BaseException, call: RunCall) -> None:
        """Record that the run has failed without a result."""
        if isinstance(error, asyncio.CancelledError):
            return  # the interrupting code decides how it ends
        await record_end(self.journal, "failed", call.run_id, run_error(error), attempt=call.attempt)

    async def requeue(self, run: Run, call: RunCall, wait_s: float) -> bool:
        """Queue the next attempt; False when this one is no longer the current one."""
        journal, finished = self.journal, call.retry.finished(run.steps)
        error = run.error or RunError("UNKNOWN_ERROR", run.status)
        assert journal is not None  # noqa: S101 # what is not recorded is not tried again
        return await in_thread(lambda: journal.requeue(call.run_id, call.attempt, error, finished=finished, wait_s=wait_s))

    async def _execute(self, call: RunCall, requested_ns: int, *, started: bool) -> Run:
        turn, journal = time.time_ns(), self.journal
        if journal is not None and not started and not await asyncio.to_thread(journal.start, call.run_id):
            raise ExecutionProblem("the run was ended before it started", hint="see its record, then run again")
        run = await self._run_followed(call)
        run = replace(run, warnings=(*call.warnings, *run.warnings)) if call.warnings else run
        ended = time.time_ns()
        about = await asyncio.to_thread(skill_attributes, call.skill, call.request.digest) if is_traced() else {}
        trace_run(run, about, requested_ns=requested_ns, turn_ns=turn, ended_ns=ended)
        return run

    async def _run_followed(self, call: RunCall) -> Run:
        """Execute the run and publish its output meanwhile."""
        log = LiveOutputWriter(self.journal.database if self.journal else None, call.run_id, call.attempt)
        try:
            with log.capture():
                run = await self.runner.run(call.request)
            if (task := asyncio.current_task()) is not None and task.cancelling():
                raise asyncio.CancelledError  # a runner may take being interrupted for the end of the run
        except BaseException:
            await log.close(write=True)
            raise
        await log.close(write=not run.ok)
        return run

    async def _recorded(self, run: Run, call: RunCall) -> Run:
        """The run, recorded as ended; when that fails, the run has a warning and keeps its result."""
        journal, cache_policy = self.journal, call.cache_policy
        if journal is None:
            return run

        def finish() -> bool:
            keep_s = remaining_cache_seconds(cache_policy, call.skill) if cache_policy and run.ok else 0
            return journal.finish(run, keep_s=keep_s, attempt=call.attempt)

        try:
            ended = await in_thread(finish)
        except Exception as error:  # also a value that no database takes: the result is more than its record
            if is_temporary(error):
                defer_write(run.run_id, lambda: self._record_late(run, call), journal.database.timing)
                warning = f"how the run ended is not recorded yet: {error}"
                return replace(run, memory_writes=(), warnings=(*run.warnings, warning))
            _log.exception("how run %s ended could not be recorded", run.run_id)
            problem = RunError("RECORD_INCOMPLETE", f"how the run ended could not be recorded: {error}"[:500])
            await record_end(journal, "succeeded" if run.ok else "failed", run.run_id, problem, attempt=call.attempt)
            return replace(run, warnings=(*run.warnings, problem.message))
        return run if ended else replace(run, memory_writes=(), warnings=(*run.warnings, _TOO_LATE))

    async def _record_late(self, run: Run, call: RunCall) -> None:
        """Note how a run ended, and save its memories, when the database is there again.

        Raises:
            DatabaseUnavailable: it is not.
        """
        journal = self.journal
        assert journal is not None  # noqa: S101 # a write is only deferred with a journal
        if await in_thread(lambda: journal.finish(run, attempt=call.attempt)):
            await self._save_memories(run, call)

    async def _save_memories(self, run: Run, call: RunCall) -> Run:
        """The run, after the memories it suggests were saved; a run that failed suggests none."""
        journal = self.journal
        if self.memory is None or not run.ok or not run.memory_writes:
            return run
        from skillyard.memory import keep_suggestions

        kept = await keep_suggestions(
            self.memory, run.memory_writes, run_id=run.run_id, skill_id=run.skill_id, context=call.request.context
        )
        lost = tuple(f"memory {number} was not saved: {item.reason}" for number, item in enumerate(kept, 1) if not item.saved)
        run = replace(run, warnings=(*run.warnings, *lost))
        if journal is not None:
            with suppress(SkillyardError):  # the memories are safe; only the note about them is not
                await in_thread(lambda: journal.note_memories(run.run_id, [item.to_dict() for item in kept], run.warnings))
        return run


def run_error(error: BaseException) -> RunError:
    """What a run records of an exception that ended it."""
    if isinstance(error, SkillyardError):
        return RunError(error.code, error.message)
    return RunError("UNKNOWN_ERROR", f"{type(error).__name__}: {error}")


async def record_end(
    journal: Journal | None, state: RunState, run_id: str, error: RunError, *, attempt: int | None = None
) -> bool:
    """Note that a run ended without a result, now or when the database is back; False when it had ended already.

    It is noted however often who waits for that is cancelled. The reason is on its way already and is not replaced.
    """
    if journal is None:
        return True
    stop = partial(journal.stop, run_id, state, error, attempt=attempt)
    return await completed(_record_end(run_id, stop, journal.database.timing))


async def _record_end(run_id: str, stop: Callable[[], bool], timing: Timing) -> bool:
    try:
        return await write_or_defer(run_id, lambda: in_thread(stop), timing) is not False
    except SkillyardError as problem:
        _log.error("run %s could not be recorded: %s", run_id, problem.message)
        return True


_OWN_ENDS: Final = ("succeeded", "failed")  # every other state was recorded by another process


class RunTask:
    """The task of one run; `cancelled` is set when its end was decided, here or in another process."""

    def __init__(self, run_id: str, going: Coroutine[object, object, Run], journal: Journal | None) -> None:
        self.task: asyncio.Task[Run] = asyncio.create_task(going)
        self.cancelled = False
        self._run_id = run_id
        self._journal = journal
        self._decide_s = (journal.database.timing if journal else DEFAULT_TIMING).decide_s
        self._interrupted = False
        self._cancelling: asyncio.Task[bool] | None = None

    async def cancel(self) -> bool:
        """End the run as `cancelled`; False when it had ended already. However often this is called, it is interrupted once."""
        if self._cancelling is None:
            self._cancelling = asyncio.create_task(self._cancel())
        return await completed(self._cancelling)

    def mark_cancelled(self) -> None:
        """Interrupt the run, because it was cancelled in its record."""
        self.cancelled = True
        self.interrupt()

    def interrupt(self) -> None:
        """Cancel the task: once only, so that nothing interrupts it while it clears up."""
        if not self._interrupted:
            self._interrupted = True
            self.task.cancel()

    async def over(self) -> None:
        """Wait until its task has ended; its exception is marked as retrieved."""
        await asyncio.wait([self.task])
        if not self.task.cancelled():
            self.task.exception()

    async def was_cancelled(self) -> bool:
        """Whether the run, whose task has ended, was cancelled: here, or by another process before it could start."""
        if self._cancelling is not None:
            await completed(self._cancelling)
        failed = not self.task.cancelled() and self.task.exception() is not None
        return self.cancelled or (failed and await self._state() == "cancelled")

    async def _cancel(self) -> bool:
        deciding = asyncio.create_task(self._decide())
        await asyncio.wait([deciding], timeout=self._decide_s)
        if not deciding.done():
            self.interrupt()
        self.cancelled = await deciding
        if self.cancelled:
            self.interrupt()
        return self.cancelled

    async def _decide(self) -> bool:
        """Write down that the run is cancelled; False when it has come to an end of its own."""
        journal = self._journal
        if journal is None:
            return not self.task.done()
        if await record_end(journal, "cancelled", self._run_id, CANCELLED):
            return True
        return await self._state() not in _OWN_ENDS

    async def _state(self) -> RunState | None:
        """The recorded state; None when there is no record, or it cannot be read."""
        journal = self._journal
        if journal is not None:
            with suppress(DatabaseUnavailable):
                return await in_thread(lambda: journal.state(self._run_id))
        return None


_AT_ONCE: Final = 500  # ids in one question

_WatchedRun = tuple["RunTask", "Journal"]


class CancellationWatch:
    """Ends the runs that were cancelled in their record, in whatever process."""

    def __init__(self) -> None:
        self._of_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, _LoopWatch] = WeakKeyDictionary()

    def add(self, run_id: str, task: RunTask, journal: Journal) -> None:
        """Watch the run from now on."""
        self._of_loop.setdefault(asyncio.get_running_loop(), _LoopWatch()).add(run_id, (task, journal))

    def remove(self, run_id: str) -> None:
        """Watch it no longer."""
        self._of_loop.setdefault(asyncio.get_running_loop(), _LoopWatch()).remove(run_id)


class _LoopWatch:
    """The runs of one event loop, looked after while there are any."""

    def __init__(self) -> None:
        self._runs: dict[str, _WatchedRun] = {}
        self._looking: asyncio.Task[None] | None = None

    def add(self, run_id: str, watched: _WatchedRun) -> None:
        self._runs[run_id] = watched
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look())

    def remove(self, run_id: str) -> None:
        self._runs.pop(run_id, None)
        if not self._runs and self._looking is not None:
            self._looking.cancel()
            self._looking = None

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(min(journal.database.timing.look_s for _, journal in self._runs.values()))
            for journal in {id(journal): journal for _, journal in self._runs.values()}.values():
                await self._check(journal)

    async def _check(self, journal: Journal) -> None:
        ids = [run_id for run_id, (_, of) in self._runs.items() if of is journal]
        for begin in range(0, len(ids), _AT_ONCE):
            with suppress(SkillyardError):
                for run_id in await asyncio.to_thread(journal.cancelled, ids[begin : begin + _AT_ONCE]):
                    if run_id in self._runs:
                        self._runs[run_id][0].mark_cancelled()
