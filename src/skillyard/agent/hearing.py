"""What a script prints while a call goes on, told in pieces that a page can draw."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final, Literal

from skillyard.agent.events import Event
from skillyard.sandbox import listening
from skillyard.text import sanitize

__all__ = ["heard"]

_GATHER_S: Final = 0.15  # what is printed closer together is told at once
_MOST: Final = 30_000  # characters of one call that are told; the record of the run has the rest

_Stream = Literal["stdout", "stderr"]


@asynccontextmanager
async def heard(call_id: str, show: Callable[[Event], Awaitable[None]]) -> AsyncIterator[None]:
    """Tell what everything inside the block prints, as `log` events of that call."""
    ear = _Ear(call_id, show)
    telling = asyncio.create_task(ear.tell())
    try:
        with listening(ear.hear):
            yield
    finally:
        telling.cancel()
        await asyncio.wait([telling])
        await ear.empty()


class _Ear:
    """Gathers what is printed, and tells it from time to time."""

    def __init__(self, call_id: str, show: Callable[[Event], Awaitable[None]]) -> None:
        self._call = call_id
        self._show = show
        self._gathered: list[tuple[_Stream, str]] = []
        self._left = _MOST
        self._news = asyncio.Event()

    def hear(self, stream: _Stream, text: str) -> None:
        if self._left <= 0:
            return
        self._gathered.append((stream, text[: self._left]))
        self._left -= len(text)
        if self._left <= 0:
            self._gathered.append((stream, "\n[the rest is in the record of the run]\n"))
        self._news.set()

    async def tell(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            await self.empty()
            await asyncio.sleep(_GATHER_S)

    async def empty(self) -> None:
        """Tell what was gathered, what follows each other on one stream together."""
        told, self._gathered = self._gathered, []
        pieces: list[tuple[_Stream, str]] = []
        for stream, text in told:
            if pieces and pieces[-1][0] == stream:
                pieces[-1] = (stream, pieces[-1][1] + text)
            else:
                pieces.append((stream, text))
        for stream, text in pieces:
            await self._show(Event("log", {"id": self._call, "stream": stream, "text": sanitize(text)}))
