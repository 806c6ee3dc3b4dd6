"""Hearing at once that another process has written something: one ear for each database and event loop, while somebody waits.

PostgreSQL tells it (`LISTEN`). Of a SQLite file the ear asks ten times a second whether anybody has written to it, which costs
microseconds, and then rings for everyone. Nothing depends on it: who waits also looks for itself, and an ear that goes deaf is
opened again.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final
from weakref import WeakKeyDictionary

__all__ = ["ENDED", "NEWS", "Bell", "heard"]

ENDED: Final = "skillyard_run_ended"
"""The channel on which PostgreSQL tells the ids of runs that have ended."""

NEWS: Final = "skillyard_news"
"""The channel for everything else that is waited for: a run, a turn, a question, an operation, by its id."""

_AGAIN_S: Final = 5.0
_LOOK_S: Final = 0.1  # between two questions to a SQLite file
_log = logging.getLogger(__name__)


class Bell:
    """Rings for ids of which something was told: in PostgreSQL at `conninfo`, else in the SQLite file `file`."""

    def __init__(self, *, conninfo: str | None = None, file: str | None = None) -> None:
        self._conninfo, self._file = conninfo, file
        self._of_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, _Ear] = WeakKeyDictionary()

    @asynccontextmanager
    async def ring(self, *ids: str) -> AsyncIterator[asyncio.Event]:
        """An event that is set when something was told about one of `ids`, perhaps more often, and when listening begins."""
        ear = self._of_loop.get(asyncio.get_running_loop())
        if ear is None:
            ear = self._of_loop[asyncio.get_running_loop()] = _Ear(self._conninfo, self._file)
        event = asyncio.Event()
        ear.open(event, ids)
        try:
            yield event
        finally:
            await ear.leave(event)


async def heard(rung: asyncio.Event, timeout_s: float) -> None:
    """Wait until it rings, at most so long; what rings from now on is heard the next time.

    Who is cancelled at the moment when it rings is cancelled (`asyncio.wait_for` would lose that before Python 3.12).
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            await rung.wait()
    rung.clear()


class _Ear:
    """What listens for one event loop, open while someone waits."""

    def __init__(self, conninfo: str | None, file: str | None) -> None:
        self._conninfo, self._file = conninfo, file
        self._task: asyncio.Task[None] | None = None
        self._waiting: dict[asyncio.Event, frozenset[str]] = {}

    def open(self, event: asyncio.Event, ids: tuple[str, ...]) -> None:
        self._waiting[event] = frozenset(ids)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._listen(self._conninfo) if self._conninfo else self._watch(self._file or ""))

    async def leave(self, event: asyncio.Event) -> None:
        del self._waiting[event]
        if not self._waiting and self._task is not None:
            task, self._task = self._task, None
            task.cancel()
            await asyncio.wait([task])

    def _all(self) -> None:
        for event in self._waiting:
            event.set()

    async def _listen(self, conninfo: str) -> None:
        import psycopg

        while True:
            try:
                connection = await psycopg.AsyncConnection.connect(conninfo, autocommit=True)
                async with connection:
                    for channel in (ENDED, NEWS):
                        await connection.execute(f"LISTEN {channel}")
                    self._all()  # what was told before we listened
                    async for told in connection.notifies():
                        for event, ids in self._waiting.items():
                            if told.payload in ids:
                                event.set()
            except (psycopg.Error, OSError) as error:
                _log.warning("not listening to the database for a while: %s", error)
            await asyncio.sleep(_AGAIN_S)

    async def _watch(self, file: str) -> None:
        """Ring for everyone when the version of the file's data is another one."""
        while True:
            with suppress(sqlite3.Error):
                connection = sqlite3.connect(f"file:{_quoted(file)}?mode=rw", uri=True, timeout=0, isolation_level=None)
                try:
                    await self._compare(connection)
                finally:
                    connection.close()
            self._all()
            await asyncio.sleep(_AGAIN_S)

    async def _compare(self, connection: sqlite3.Connection) -> None:
        seen = None
        while True:
            (version,) = connection.execute("PRAGMA data_version").fetchone()
            if version != seen:
                seen = version
                self._all()
            await asyncio.sleep(_LOOK_S)


def _quoted(path: str) -> str:
    from urllib.parse import quote

    return quote(path)
