"""The runs that go on in this process after their request was answered; what they print is in the records."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from skillyard.engine import Begun
from skillyard.execution import Run

__all__ = ["RunDesk"]


class RunDesk:
    """Every run that was begun here and has not ended."""

    def __init__(self) -> None:
        self._kept: dict[str, Begun] = {}

    async def begin(self, beginning: Awaitable[Begun]) -> Begun:
        """Begin a run, and keep it until it has ended."""
        begun = await beginning
        self._kept[begun.run_id] = begun
        begun.ended.add_done_callback(lambda task: self._over(begun.run_id, task))
        return begun

    @property
    def busy(self) -> bool:
        """Whether one goes on."""
        return bool(self._kept)

    async def ended(self, run_id: str) -> None:
        """Wait until a run that goes on here has ended."""
        if (begun := self._kept.get(run_id)) is not None:
            await asyncio.wait([begun.ended])

    async def close(self, grace_s: float) -> None:
        """Let every run come to its end, and cancel those that have not after `grace_s` seconds."""
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
            task.exception()  # the record says what it was
