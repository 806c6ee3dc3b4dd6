"""One database: the URL that names it, opened once, used by many threads, each transaction for reading or for writing.

There is one SQLAlchemy engine for each database file and process: all users of a file share its connections. A second one
would be no harm to the file, but one place that knows every user of a file can say whether it is in use, and closes the
connections when the last user has left. A process that was forked begins without connections: those of its parent may not be
used, and not be closed, in two processes.

A database that nobody refers to any more is finalized wherever the collector happens to run, also inside of this module and in
the thread that holds its lock: a finalizer waits for no lock, and leaves what it cannot do at once to whoever has it.
"""

from __future__ import annotations

import functools
import logging
import os
import random
import threading
import time
import weakref
from collections import deque
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from sqlalchemy import make_url
from sqlalchemy.engine import URL
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from skillyard.database.dialects import file_of, is_lock_conflict, make_engine, make_file, schema_url, translate_error
from skillyard.database.maintenance import (
    DatabaseCheck,
    DatabaseStatus,
    copy_before_upgrade,
    find_fulltext_problems,
    find_problems,
    is_usable,
    status_of,
    upgrade,
)
from skillyard.database.notifications import ChangeNotifier
from skillyard.errors import DatabaseDamaged, DatabaseUnavailable
from skillyard.times import DEFAULT_TIMING, Timing

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine

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


DATABASE_FILE: Final = "skillyard.db"
_DRIVERS: Final = {
    "sqlite": "sqlite+pysqlite",
    "sqlite+pysqlite": "sqlite+pysqlite",
    "postgres": "postgresql+psycopg",
    "postgresql": "postgresql+psycopg",
    "postgresql+psycopg": "postgresql+psycopg",
}
_TIMEOUT_OPTIONS: Final = {
    "keepalives_idle": "15",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
}
"""A lost connection is noticed in half a minute, not in the hours that systems wait by default."""

_EXAMPLES: Final = "for example sqlite:////var/lib/skillyard.db or postgresql://user:password@host/skillyard"

_log = logging.getLogger(__name__)


def database_url(data: str, configured: str | None = None) -> URL:
    """The URL of the records: `configured`, else `skillyard.db` in the folder `data`, with the driver that is used for it.

    Raises:
        DatabaseUnavailable: it is no URL, names another kind of database, or a SQLite database in memory.
    """
    if not configured:
        return URL.create("sqlite+pysqlite", database=f"{data}/{DATABASE_FILE}")
    try:
        url = make_url(configured)
    except (ArgumentError, ValueError):  # its text may hold a password: it is not repeated
        raise DatabaseUnavailable("the database URL cannot be understood", hint=_EXAMPLES) from None
    driver = _DRIVERS.get(url.drivername)
    if driver is None:
        raise DatabaseUnavailable(
            f"unsupported kind of database: {url.drivername!r}", hint=f"use SQLite or PostgreSQL, {_EXAMPLES}"
        )
    if driver.startswith("sqlite") and url.database in (None, "", ":memory:"):
        raise DatabaseUnavailable("a database in memory is lost when the process ends", hint=f"name a file, {_EXAMPLES}")
    url = url.set(drivername=driver)
    if driver.startswith("postgresql"):
        return url.update_query_dict({name: value for name, value in _TIMEOUT_OPTIONS.items() if name not in url.query})
    return url


def isolated_url(data: str, schema: str, configured: str | None) -> str:
    """Where records are that share nothing with those at `configured`: `skillyard.db` in the folder `data`, or that schema.

    The URL holds the password when there is one. Raises what `database_url` raises.
    """
    url = schema_url(database_url(data, configured), schema, f"{data}/{DATABASE_FILE}")
    return url.render_as_string(hide_password=False)


def redacted_url(url: URL) -> str:
    """The URL without its password and without its options, for people."""
    return url.set(query={}).render_as_string(hide_password=True)


class Database:
    """A database whose tables are those this version knows; make one with `Database.open`.

    Its methods block: asynchronous code calls them in a thread.
    """

    def __init__(self, url: URL, *, timing: Timing = DEFAULT_TIMING) -> None:
        self.address: Final = url
        """Its whole URL: two with the same address are one database."""
        self.timing = timing
        self.upgrade_copy: Path | None = None
        """The copy of the records as they were before this object upgraded their tables."""
        self._lease = EngineLease(url)
        weakref.finalize(self, self._lease.abandon)

    @classmethod
    def open(cls, data: str, configured: str | None = None, *, migrate: bool = True, timing: Timing = DEFAULT_TIMING) -> Self:
        """The database at the URL `configured`, else `skillyard.db` in the folder `data`, its tables made or upgraded.

        Raises:
            DatabaseUnavailable: it cannot be reached, written or upgraded.
        """
        database = cls.at(data, configured, timing=timing)
        with database._explained():
            database._lease.engine()
            if migrate:
                with database.read() as connection:
                    current = is_usable(connection)
                if not current:
                    database.upgrade()
        return database

    @classmethod
    def at(cls, data: str, configured: str | None = None, *, timing: Timing = DEFAULT_TIMING) -> Self:
        """As `open`, but nothing is opened before the first transaction, and tables are neither made nor upgraded."""
        return cls(database_url(data, configured), timing=timing)

    @property
    def name(self) -> str:
        """Its URL without the password."""
        return redacted_url(self.address)

    @property
    def file(self) -> Path | None:
        """The file that it is in; None when it is another database than SQLite."""
        return file_of(self.address) if self.address.get_backend_name() == "sqlite" else None

    @property
    def conninfo(self) -> str | None:
        """How a driver of PostgreSQL reaches it, password and all; None when it is another database."""
        if self.address.get_backend_name() != "postgresql":
            return None
        return self.address.set(drivername="postgresql").render_as_string(hide_password=False)

    @functools.cached_property
    def notifier(self) -> ChangeNotifier:
        """Reports that another process has written something that is waited for."""
        return ChangeNotifier(conninfo=self.conninfo, file=str(self.file) if self.file else None, timing=self.timing)

    def read(self) -> AbstractContextManager[Connection]:
        """A transaction that only reads.

        Raises:
            DatabaseUnavailable: the database cannot be used.
        """
        return self._transaction()

    def write(self) -> AbstractContextManager[Connection]:
        """A transaction that writes; all of it is kept, or nothing when the block raises.

        Raises:
            DatabaseUnavailable: the database cannot be used.
            ValueRefused: a value does not fit its tables: too long, too large, or against one of their rules.
            RecordExists: there is one with that id or name.
        """
        return self._transaction(writing=True)

    def status(self) -> DatabaseStatus:
        """The address of the records and the revision of their tables.

        Raises:
            DatabaseUnavailable: the database cannot be read.
        """
        with self.read() as connection:
            return status_of(connection, self.name)

    def check(self, *, quick: bool = False) -> DatabaseCheck:
        """Whether everything that is stored is consistent; it is all read once. With `quick` indexes are not compared.

        Raises:
            DatabaseUnavailable: the database cannot be read, for another reason than its damage.
        """
        try:
            with self.read() as connection:
                problems = find_problems(connection, quick=quick)
            if not quick:
                with self.write() as connection:
                    problems += find_fulltext_problems(connection)
        except DatabaseDamaged as error:
            problems = (error.message,)
        return DatabaseCheck(self.name, problems)

    def upgrade(self) -> str | None:
        """Bring the tables to the newest revision, however many processes try at once; gives the revision before.

        Where others use the tables for long, it lets them finish and tries again, for two minutes at least. Records in a file
        are copied beside it before (`upgrade_copy`).

        Raises:
            DatabaseUnavailable: that is not possible.
        """
        give_up = time.monotonic() + self.timing.upgrade_s
        while True:
            try:
                with self.write() as connection:
                    self._keep_copy(connection)
                    return upgrade(connection)
            except DatabaseUnavailable as error:
                if not is_lock_conflict(error) or time.monotonic() > give_up:
                    raise
            time.sleep(random.uniform(0.1, 1))  # noqa: S311 - only so that two do not meet again and again

    def _keep_copy(self, connection: Connection) -> None:
        """Copy records in a file whose tables are about to be changed."""
        copy = copy_before_upgrade(connection, self.file) if self.file else None
        if copy is not None:
            self.upgrade_copy = copy
            _log.warning("upgrading the tables; the records as they were before are kept in %s", copy)

    def close(self) -> None:
        """Release the connections, closed when nothing else in this process uses them; the next use opens new ones."""
        self._lease.release()

    @contextmanager
    def _transaction(self, **options: bool) -> Iterator[Connection]:
        with self._explained(), self._lease.engine().connect().execution_options(**options) as connection, connection.begin():
            yield connection

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Errors of the driver and of the file system as one of ours."""
        try:
            yield
        except (SQLAlchemyError, OSError) as error:
            password = self.address.password
            raise translate_error(error, name=self.name, secret=str(password) if password else None) from error
