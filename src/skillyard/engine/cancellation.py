"""Cancelling runs: one run as a task of this process, and the watch for runs that another process has cancelled.

The record of a run decides how it ended, so the decision is written down before the task is interrupted: what the run
makes of being interrupted, a result or an error of its own, changes nothing then. A run that had ended before is not
changed. One query every second covers all runs of an event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from skillyard.concurrency import completed, in_thread
from skillyard.engine.run_lifecycle import CANCELLED, record_end
from skillyard.errors import DatabaseUnavailable, SkillyardError
from skillyard.times import DEFAULT_TIMING

if TYPE_CHECKING:
    from skillyard.engine.journal import Journal
    from skillyard.engine.run_record import RunState
    from skillyard.execution import Run


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
