"""Hearing at once that a run has ended: one connection that listens, for everyone who waits in this process.

Nothing depends on it: who waits also looks for itself, and a connection that breaks is made again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final
from weakref import WeakKeyDictionary

from skillyard.engine.journal import ENDED

__all__ = ["Bell"]

_AGAIN_S: Final = 5.0
_log = logging.getLogger(__name__)


class Bell:
    """Rings for the ids that PostgreSQL tells on the channel of ended runs."""

    def __init__(self, conninfo: str) -> None:
        self._conninfo = conninfo
        self._of_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, _Ear] = WeakKeyDictionary()

    @asynccontextmanager
    async def ring(self, run_id: str) -> AsyncIterator[asyncio.Event]:
        """An event that is set when something was told about the run, and once when listening begins."""
        ear = self._of_loop.setdefault(asyncio.get_running_loop(), _Ear(self._conninfo))
        event = ear.waiting[run_id] = asyncio.Event()
        ear.open()
        try:
            yield event
        finally:
            del ear.waiting[run_id]
            await ear.close_when_idle()


class _Ear:
    """The connection of one event loop, open while someone waits."""

    def __init__(self, conninfo: str) -> None:
        self._conninfo = conninfo
        self._task: asyncio.Task[None] | None = None
        self.waiting: dict[str, asyncio.Event] = {}

    def open(self) -> None:
        if self._task is None:
            self._task = asyncio.create_task(self._listen())

    async def close_when_idle(self) -> None:
        if not self.waiting and self._task is not None:
            task, self._task = self._task, None
            task.cancel()
            await asyncio.wait([task])

    async def _listen(self) -> None:
        import psycopg

        while True:
            try:
                connection = await psycopg.AsyncConnection.connect(self._conninfo, autocommit=True)
                async with connection:
                    await connection.execute(f"LISTEN {ENDED}")
                    for event in self.waiting.values():  # what was told before we listened
                        event.set()
                    async for told in connection.notifies():
                        if told.payload in self.waiting:
                            self.waiting[told.payload].set()
            except (psycopg.Error, OSError) as error:
                _log.warning("not listening for the ends of runs for a while: %s", error)
            await asyncio.sleep(_AGAIN_S)
