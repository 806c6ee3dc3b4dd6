"""One database: the URL that names it, opened once, used by many threads, each transaction for reading or for writing."""

from __future__ import annotations

import functools
import logging
import random
import time
import weakref
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from sqlalchemy import make_url
from sqlalchemy.engine import URL
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from skillyard.database.dialects import file_of, is_lock_conflict, schema_url, translate_error
from skillyard.database.integrity import DatabaseCheck, find_fulltext_problems, find_problems
from skillyard.database.notifications import ChangeNotifier
from skillyard.database.schema_upgrade import DatabaseStatus, copy_before_upgrade, is_usable, status_of, upgrade
from skillyard.database.shared_engines import EngineLease
from skillyard.errors import DatabaseDamaged, DatabaseUnavailable
from skillyard.times import DEFAULT_TIMING, Timing

if TYPE_CHECKING:
    from sqlalchemy import Connection


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
