"""Runs and installs that continue after their request was answered, and the shutdown that waits for them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from starlette.concurrency import run_in_threadpool

from skillyard.database import delete_live_events, live_events_of, publish_live_events
from skillyard.engine import ProcessIdentity, StartedRun
from skillyard.errors import SkillyardError
from skillyard.execution import Run

if TYPE_CHECKING:
    from skillyard.database import Database


class BackgroundRuns:
    """Every run that was begun here and has not ended."""

    def __init__(self) -> None:
        self._kept: dict[str, StartedRun] = {}

    async def begin(self, beginning: Awaitable[StartedRun]) -> StartedRun:
        """Begin a run, and keep it until it has ended."""
        begun = await beginning
        self._kept[begun.run_id] = begun
        begun.ended.add_done_callback(lambda task: self._over(begun.run_id, task))
        return begun

    @property
    def busy(self) -> bool:
        """Whether a run is in progress."""
        return bool(self._kept)

    def cancel(self, run_id: str) -> None:
        """End the work on a run that was begun here, whose end is recorded already."""
        if (begun := self._kept.get(run_id)) is not None:
            begun.ended.cancel()

    async def ended(self, run_id: str) -> None:
        """Wait until a run of this process has ended."""
        if (begun := self._kept.get(run_id)) is not None:
            await asyncio.wait([begun.ended])

    async def close(self, grace_s: float) -> None:
        """Wait for every run to end, and cancel those that have not after `grace_s` seconds."""
        left = [begun.ended for begun in self._kept.values()]
        if left:
            _, late = await asyncio.wait(left, timeout=grace_s)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)

    def _over(self, run_id: str, task: asyncio.Task[Run]) -> None:
        self._kept.pop(run_id)
        if not task.cancelled():
            task.exception()  # it is in the record


_PROCESS_ENDED: Final = "the process that worked on it is gone; nothing was changed"
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class InstallFailure:
    """Why an install failed before it had a log of its own."""

    code: str
    message: str


class BackgroundInstalls:
    """Runs installs in threads; the start of one, or its failure, is an event of the operation for a day."""

    def __init__(self, database: Callable[[], Database]) -> None:
        self._database = database
        self._going: dict[str, asyncio.Task[None]] = {}

    @property
    def busy(self) -> bool:
        """Whether an install is in progress here."""
        return bool(self._going)

    async def begin(self, operation_id: str, work: Callable[[], object], held: contextlib.AsyncExitStack) -> None:
        """Do the work in a thread, and release its resources when it is done.

        Raises:
            DatabaseUnavailable: that it began cannot be recorded; nothing was begun.
        """
        async with held:
            await run_in_threadpool(self._publish, operation_id, {"begun": str(ProcessIdentity.current())})
            task = self._going[operation_id] = asyncio.create_task(self._done(operation_id, work, held.pop_all()))
        task.add_done_callback(lambda _: self._going.pop(operation_id, None))

    def progress(self, operation_id: str) -> tuple[bool, InstallFailure | None]:
        """Whether an operation is in progress, in any process, and why it failed when it did. Blocks."""
        with self._database().read() as connection:
            events = live_events_of(connection, operation_id)
        last = events[-1].body if events else {}
        if "failed" in last:
            return False, InstallFailure(**last["failed"])
        if "begun" not in last:
            return False, None
        owner = ProcessIdentity.read(last["begun"])
        ended = owner is None or owner.alive() is False
        return not ended, InstallFailure("interrupted", _PROCESS_ENDED) if ended else None

    async def close(self) -> None:
        """Wait for installs in progress: they cannot be cancelled, only killed."""
        if self._going:
            await asyncio.wait(tuple(self._going.values()))

    async def _done(self, operation_id: str, work: Callable[[], object], held: contextlib.AsyncExitStack) -> None:
        failed = None
        async with held:
            try:
                await run_in_threadpool(work)
            except SkillyardError as error:
                failed = InstallFailure(error.code, error.message)
            except Exception as error:
                _log.exception("the operation %s failed", operation_id)
                failed = InstallFailure(SkillyardError.code, f"something went wrong in the server: {type(error).__name__}")
        try:
            await run_in_threadpool(self._end, operation_id, failed)
        except SkillyardError:
            _log.exception("how the operation %s ended could not be recorded", operation_id)

    def _end(self, operation_id: str, failed: InstallFailure | None) -> None:
        if failed is not None:
            self._publish(operation_id, {"failed": {"code": failed.code, "message": failed.message}})
            return
        with self._database().write() as connection:
            delete_live_events(connection, operation_id)

    def _publish(self, operation_id: str, body: object) -> None:
        with self._database().write() as connection:
            publish_live_events(connection, operation_id, [body])


_SETTLING_S: Final = 10


class Shutdown:
    """Whether the server stops, what is to be done when that begins, and how many requests are under way."""

    def __init__(self) -> None:
        self.begun = False
        self._then: list[Callable[[], object]] = []
        self._last: list[Callable[[], object]] = []
        self._under_way = 0
        self._at = 0.0

    def then(self, do: Callable[[], object], *, last: bool = False) -> None:
        """Have something done when the server begins to stop, or with `last` when it takes no more requests."""
        (self._last if last else self._then).append(do)

    def begin(self) -> None:
        """From now on the server takes leave; the second time nothing happens."""
        if not self.begun:
            self.begun, self._at = True, time.monotonic()
            for do in self._then:
                do()

    def stop_accepting(self) -> None:
        """From now on no request is accepted, and the grace period of those in progress begins."""
        self._at = time.monotonic()
        for do in self._last:
            do()

    def left(self, seconds: float) -> float:
        """How much is left of so many seconds since it began."""
        return max(0.0, seconds - (time.monotonic() - self._at)) if self.begun else seconds

    @contextlib.contextmanager
    def request_in_progress(self) -> Iterator[None]:
        """Count a request for as long as the block lasts."""
        self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1

    async def settled(self) -> None:
        """Wait until requests that were cut off have written down how they ended, at most ten seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_SETTLING_S):
                while self._under_way:
                    await asyncio.sleep(0.02)
