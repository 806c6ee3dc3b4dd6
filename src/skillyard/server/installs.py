"""The installs that go on in this process after their request was answered."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from starlette.concurrency import run_in_threadpool

from skillyard.errors import SkillyardError

__all__ = ["InstallDesk"]

_REMEMBERED: Final = 200
_log = logging.getLogger(__name__)


class InstallDesk:
    """Carries installs out in threads, and remembers for a while which of them failed and why."""

    def __init__(self) -> None:
        self._going: dict[str, asyncio.Task[None]] = {}
        self._failed: OrderedDict[str, SkillyardError] = OrderedDict()

    @property
    def busy(self) -> bool:
        """Whether one goes on."""
        return bool(self._going)

    def begin(self, operation_id: str, work: Callable[[], object], held: contextlib.AsyncExitStack) -> None:
        """Do the work in a thread; what it needs is let go of when it is done."""
        task = self._going[operation_id] = asyncio.create_task(self._done(operation_id, work, held))
        task.add_done_callback(lambda _: self._going.pop(operation_id, None))

    def known(self, operation_id: str) -> tuple[bool, SkillyardError | None]:
        """Whether an operation goes on here, and why it failed when it did."""
        return operation_id in self._going, self._failed.get(operation_id)

    async def close(self) -> None:
        """Wait for what goes on: an install cannot be cut off in the middle, only killed."""
        if self._going:
            await asyncio.wait(tuple(self._going.values()))

    async def _done(self, operation_id: str, work: Callable[[], object], held: contextlib.AsyncExitStack) -> None:
        async with held:
            try:
                await run_in_threadpool(work)
            except SkillyardError as error:
                self._failed[operation_id] = error
            except Exception as error:
                _log.exception("the operation %s failed", operation_id)
                self._failed[operation_id] = SkillyardError(f"something went wrong in the server: {type(error).__name__}")
        while len(self._failed) > _REMEMBERED:
            self._failed.popitem(last=False)
