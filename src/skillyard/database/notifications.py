"""Notifications that another process has written something, and the live events that are written for them.

PostgreSQL notifies (`LISTEN`). A SQLite file is polled ten times a second for its data version, which costs
microseconds. Nothing depends on it: every waiting caller also polls, and a listener that is disconnected reconnects.
Live events belong to a subject (a run, a turn of a conversation or an operation, by its id) and are numbered from 1; they
are deleted when the subject has ended and its own record is complete.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from weakref import WeakKeyDictionary

from sqlalchemy import delete, func, insert, select

from skillyard.database.dialects import notify
from skillyard.database.tables import live_events
from skillyard.times import DEFAULT_TIMING, Timing

if TYPE_CHECKING:
    from sqlalchemy import Connection


RUN_ENDED_CHANNEL: Final = "skillyard_run_ended"
"""The channel on which PostgreSQL sends the ids of runs that have ended."""

UPDATES_CHANNEL: Final = "skillyard_news"
"""The channel for everything else that is waited for: a run, a turn, a question, an operation, by its id."""

_log = logging.getLogger(__name__)


class ChangeNotifier:
    """Reports changes of subjects by their ids: in PostgreSQL at `conninfo`, else in the SQLite file `file`."""

    def __init__(self, *, conninfo: str | None = None, file: str | None = None, timing: Timing = DEFAULT_TIMING) -> None:
        self._conninfo, self._file, self._timing = conninfo, file, timing
        self._of_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, _Listener] = WeakKeyDictionary()

    @asynccontextmanager
    async def subscribe(self, *ids: str) -> AsyncIterator[asyncio.Event]:
        """An event that is set when one of `ids` has changed, perhaps more often, and when listening begins."""
        new = _Listener(self._conninfo, self._file, self._timing)
        listener = self._of_loop.setdefault(asyncio.get_running_loop(), new)
        event = asyncio.Event()
        listener.open(event, ids)
        try:
            yield event
        finally:
            await listener.leave(event)


async def wait_for_change(changed: asyncio.Event, timeout_s: float) -> None:
    """Wait until the event is set, at most so long, and clear it.

    A cancellation at the moment when it is set is not lost (`asyncio.wait_for` would lose it before Python 3.12).
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(timeout_s):
            await changed.wait()
    changed.clear()


class _Listener:
    """The listener of one event loop, open while someone waits."""

    def __init__(self, conninfo: str | None, file: str | None, timing: Timing) -> None:
        self._conninfo, self._file, self._timing = conninfo, file, timing
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
                    for channel in (RUN_ENDED_CHANNEL, UPDATES_CHANNEL):
                        await connection.execute(f"LISTEN {channel}")
                    self._all()  # changes from before the connection
                    async for notification in connection.notifies():
                        for event, ids in self._waiting.items():
                            if notification.payload in ids:
                                event.set()
            except (psycopg.Error, OSError) as error:
                _log.warning("not listening to the database for a while: %s", error)
            await asyncio.sleep(self._timing.listen_again_s)

    async def _watch(self, file: str) -> None:
        """Set every event when the data version of the file has changed."""
        from urllib.parse import quote

        while True:
            with suppress(sqlite3.Error):
                connection = sqlite3.connect(f"file:{quote(file)}?mode=rw", uri=True, timeout=0, isolation_level=None)
                try:
                    await self._compare(connection)
                finally:
                    connection.close()
            self._all()
            await asyncio.sleep(self._timing.listen_again_s)

    async def _compare(self, connection: sqlite3.Connection) -> None:
        seen = None
        while True:
            (version,) = connection.execute("PRAGMA data_version").fetchone()
            if version != seen:
                seen = version
                self._all()
            await asyncio.sleep(self._timing.file_look_s)


_OLD: Final = timedelta(days=1)  # nothing takes longer; older events were left by a process that was killed


class LiveEvent(NamedTuple):
    """One event: its number, and its body as plain data."""

    number: int
    body: Any


def publish_live_events(connection: Connection, subject: str, bodies: Sequence[object], *, without: Sequence[int] = ()) -> int:
    """Insert live events, notify followers, and give the number of the last; those numbered `without` are deleted."""
    last = connection.execute(select(func.max(live_events.c.number)).where(live_events.c.subject == subject)).scalar() or 0
    now = datetime.now(UTC)
    rows = [{"subject": subject, "number": last + at, "body": body, "at": now} for at, body in enumerate(bodies, 1)]
    if rows:
        connection.execute(insert(live_events), rows)
    if without:
        connection.execute(delete(live_events).where(live_events.c.subject == subject, live_events.c.number.in_(without)))
    notify(connection, UPDATES_CHANNEL, subject)
    return last + len(rows)


def live_events_of(connection: Connection, subject: str, *, after: int = 0) -> tuple[LiveEvent, ...]:
    """The live events of the subject, in order, after the number `after`."""
    query = select(live_events.c.number, live_events.c.body).where(
        live_events.c.subject == subject, live_events.c.number > after
    )
    return tuple(LiveEvent(row.number, row.body) for row in connection.execute(query.order_by(live_events.c.number)))


def delete_live_events(connection: Connection, subject: str) -> None:
    """Delete the live events of a subject that has ended, and notify its followers."""
    connection.execute(delete(live_events).where(live_events.c.subject == subject))
    notify(connection, UPDATES_CHANNEL, subject)


def delete_old_live_events(connection: Connection) -> None:
    """Delete live events that are older than a day."""
    connection.execute(delete(live_events).where(live_events.c.at < datetime.now(UTC) - _OLD))
