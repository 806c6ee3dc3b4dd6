"""What a script prints and which of its steps end while a call goes on, told in pieces that a page can draw."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final, Literal

from skillyard.agent.events import Event
from skillyard.engine.live import read_note
from skillyard.execution.steps import MOST_STEPS
from skillyard.sandbox import listening
from skillyard.text import sanitize

__all__ = ["heard"]

_GATHER_S: Final = 0.15  # what is printed closer together is told at once
_MOST: Final = 30_000  # characters of one call that are told; the record of the run has the rest

_Stream = Literal["stdout", "stderr"]


@asynccontextmanager
async def heard(call_id: str, show: Callable[[Event], Awaitable[None]]) -> AsyncIterator[None]:
    """Tell what everything inside the block prints, as `log` events of that call, and its steps as `step`."""
    ear = _Ear(call_id, show)
    telling = asyncio.create_task(ear.tell())
    try:
        with listening(ear.hear, noted=ear.note):
            yield
    finally:
        telling.cancel()
        await asyncio.wait([telling])
        await ear.empty()


class _Ear:
    """Gathers what is printed and which steps end, and tells it from time to time."""

    def __init__(self, call_id: str, show: Callable[[Event], Awaitable[None]]) -> None:
        self._call = call_id
        self._show = show
        self._gathered: list[Event] = []
        self._left = _MOST
        self._steps = 0
        self._news = asyncio.Event()

    def hear(self, stream: _Stream, text: str) -> None:
        if self._left <= 0:
            return
        self._print(stream, text[: self._left])
        self._left -= len(text)
        if self._left <= 0:
            self._print(stream, "\n[the rest is in the record of the run]\n")
        self._news.set()

    def note(self, note: str) -> None:
        step = read_note(note)
        if step is not None and self._steps < MOST_STEPS:
            self._steps += 1
            self._gathered.append(Event("step", {"id": self._call, "step": step}))
            self._news.set()

    def _print(self, stream: _Stream, text: str) -> None:
        """One more piece; what follows each other on one stream is put together."""
        last = self._gathered[-1].data if self._gathered else {}
        if last.get("stream") == stream:
            text = self._gathered.pop().data["text"] + text
        self._gathered.append(Event("log", {"id": self._call, "stream": stream, "text": text}))

    async def tell(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            await self.empty()
            await asyncio.sleep(_GATHER_S)

    async def empty(self) -> None:
        """Tell what was gathered."""
        told, self._gathered = self._gathered, []
        for event in told:
            cleaned = {"text": sanitize(event.data["text"])} if event.kind == "log" else {}
            await self._show(Event(event.kind, {**event.data, **cleaned}))
