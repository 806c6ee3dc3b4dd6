"""The runs that go on in this process after their request was answered, and what they print meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from typing import Final, Literal

from skillyard.engine import Begun
from skillyard.execution import Run
from skillyard.sandbox import listening

__all__ = ["LiveRun", "RunDesk"]

_KEPT: Final = 64 * 1024  # characters of each stream, as many as a record keeps


class LiveRun:
    """One run while it goes on: what it has printed, and a way to wait for more."""

    def __init__(self) -> None:
        self._begun: Begun | None = None
        self._printed: dict[str, str] = {"stdout": "", "stderr": ""}
        self._dropped: dict[str, int] = {"stdout": 0, "stderr": 0}
        self._news = asyncio.Event()

    def hear(self, stream: Literal["stdout", "stderr"], text: str) -> None:
        """Take what the run printed."""
        whole = self._printed[stream] + text
        self._dropped[stream] += max(0, len(whole) - _KEPT)
        self._printed[stream] = whole[-_KEPT:]
        self.tell()

    def tell(self) -> None:
        """Wake everyone who waits for something new."""
        self._news.set()
        self._news = asyncio.Event()

    def after(self, stream: Literal["stdout", "stderr"], position: int) -> str:
        """What was printed after the first `position` characters, as far as it is kept."""
        return self._printed[stream][max(0, position - self._dropped[stream]) :]

    def printed(self, stream: Literal["stdout", "stderr"]) -> int:
        """How many characters were printed."""
        return self._dropped[stream] + len(self._printed[stream])

    async def news(self, timeout_s: float) -> None:
        """Wait until there is something new, at most so long."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._news.wait(), timeout_s)


class RunDesk:
    """Every run that was begun here and has not ended."""

    def __init__(self) -> None:
        self._live: dict[str, LiveRun] = {}
        self._kept: dict[str, Begun] = {}

    async def begin(self, beginning: Awaitable[Begun]) -> Begun:
        """Begin a run, hear it, and keep it until it has ended."""
        live = LiveRun()
        with listening(live.hear):
            begun = await beginning
        self._live[begun.run_id], self._kept[begun.run_id] = live, begun
        begun.ended.add_done_callback(lambda task: self._over(begun.run_id, task))
        return begun

    @property
    def busy(self) -> bool:
        """Whether one goes on."""
        return bool(self._kept)

    def live(self, run_id: str) -> LiveRun | None:
        """The run, when it goes on in this process."""
        return self._live.get(run_id)

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
        live = self._live.pop(run_id)
        self._kept.pop(run_id)
        if not task.cancelled():
            task.exception()  # the record says what it was
        live.tell()
