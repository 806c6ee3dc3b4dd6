"""One SQLAlchemy engine for each database file and process: all users of a file share its connections.

A second engine would be no harm to the file, but one place that knows every user of a file can say whether it is in use,
and closes the connections when the last user has left. A process that was forked begins without connections: those of its
parent may not be used, and not be closed, in two processes.

A database that nobody refers to any more is finalized wherever the collector happens to run, also inside of this module
and in the thread that holds its lock: a finalizer waits for no lock, and leaves what it cannot do at once to whoever has
it.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from skillyard.database.dialects import file_of, make_engine, make_file

if TYPE_CHECKING:
    from sqlalchemy import Engine
    from sqlalchemy.engine import URL


_Key = tuple[str, int, int, str]


@dataclass(slots=True)
class _SharedEngine:
    engine: Engine
    users: int = 0


_shared: Final[dict[_Key, _SharedEngine]] = {}
_parent_pools: Final[list[Any]] = []
"""Pools that a fork copied: kept, so that their connections are never closed here."""
_abandoned: Final[deque[tuple[_Key, Engine]]] = deque()
"""Uses that ended in a finalizer, and are not counted yet."""
_lock = threading.Lock()


class EngineLease:
    """The use of an engine, from the first need until `release`; a later need takes it again."""

    def __init__(self, url: URL) -> None:
        self._url = url
        self._key: _Key | None = None
        self._engine: Engine | None = None
        self._own = threading.Lock()

    def engine(self) -> Engine:
        """The engine, shared with everybody in this process who uses the same file; PostgreSQL has one for each lease.

        Raises:
            DatabaseUnavailable: the driver is not installed.
            OSError: the file cannot be made.
        """
        with self._own:
            if self._engine is None:
                self._key, self._engine = _taken(self._url)
            return self._engine

    def release(self) -> None:
        """Release the lease; the last one closes the connections."""
        with self._own:
            key, engine = self._key, self._engine
            self._key = self._engine = None
        if engine is not None and (key is None or _is_last(key, engine)):
            engine.dispose()

    def abandon(self) -> None:
        """As `release`, for a finalizer: its owner was collected, and no lock is waited for."""
        key, engine = self._key, self._engine
        self._key = self._engine = None
        if engine is None:
            return
        if key is None:
            engine.dispose()
        else:
            _abandoned.append((key, engine))
            _count_abandoned()


def is_open_here(path: Path) -> bool:
    """Whether anything in this process uses the database file."""
    with _locked():
        return any(key[0] == os.path.realpath(path) for key in _shared)


def _taken(url: URL) -> tuple[_Key | None, Engine]:
    if url.get_backend_name() != "sqlite":
        return None, make_engine(url)
    path = file_of(url)
    make_file(path)
    with _locked():
        state = path.stat()
        key = (os.path.realpath(path), state.st_dev, state.st_ino, str(sorted(url.query.items())))
        shared = _shared.get(key)
        if shared is None:
            shared = _shared[key] = _SharedEngine(make_engine(url))
        shared.users += 1
        return key, shared.engine


def _is_last(key: _Key, engine: Engine) -> bool:
    with _locked():
        return _is_last_of(key, engine)


def _is_last_of(key: _Key, engine: Engine) -> bool:
    """Count one user less, with the lock held; whether it was the last one."""
    shared = _shared.get(key)
    if shared is None or shared.engine is not engine:
        return False
    shared.users -= 1
    if shared.users:
        return False
    del _shared[key]
    return True


@contextmanager
def _locked() -> Iterator[None]:
    """Hold the lock; what finalizers left meanwhile is counted afterwards."""
    try:
        with _lock:
            yield
    finally:
        _count_abandoned()


def _count_abandoned() -> None:
    """Count the leases that ended in finalizers, unless the lock is held: then its holder does so on release."""
    while _abandoned and _lock.acquire(blocking=False):
        last = []
        try:
            while _abandoned:
                key, engine = _abandoned.popleft()
                if _is_last_of(key, engine):
                    last.append(engine)
        finally:
            _lock.release()
        for engine in last:
            engine.dispose()


def _reset_after_fork() -> None:
    """In a process that was just forked: leave the connections of the parent alone."""
    global _lock  # another thread of the parent may have held it
    _lock = threading.Lock()
    for shared in _shared.values():
        _parent_pools.append(shared.engine.pool)
        shared.engine.dispose(close=False)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)
