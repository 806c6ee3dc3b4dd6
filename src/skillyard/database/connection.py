"""One database: opened once, used by many threads, each transaction for reading or for writing."""

from __future__ import annotations

import functools
import random
import time
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from sqlalchemy.exc import SQLAlchemyError

from skillyard.database.address import database_url, shown_url
from skillyard.database.bell import Bell
from skillyard.database.dialects import gave_way, make_engine
from skillyard.database.explaining import explained
from skillyard.database.migrating import DatabaseStatus, is_usable, status_of, upgrade
from skillyard.errors import DatabaseUnavailable

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine
    from sqlalchemy.engine import URL

__all__ = ["Database"]

_PATIENCE_S: Final = 120.0  # for an upgrade that gives way to who uses the tables


class Database:
    """A database whose tables are those this version knows; make one with `Database.open`.

    Its methods block: asynchronous code calls them in a thread.
    """

    def __init__(self, url: URL) -> None:
        self._url = url
        self._engine: Engine | None = None

    @classmethod
    def open(cls, data: str, configured: str | None = None, *, migrate: bool = True) -> Self:
        """The database at the URL `configured`, else `skillyard.db` in the folder `data`, its tables made or upgraded.

        Raises:
            DatabaseUnavailable: it cannot be reached, written or upgraded.
        """
        database = cls(database_url(data, configured))
        with database._explained():
            database._engine = make_engine(database._url)
            weakref.finalize(database, database._engine.dispose)
            if migrate:
                with database.read() as connection:
                    current = is_usable(connection)
                if not current:
                    database.upgrade()
        return database

    @property
    def name(self) -> str:
        """Its URL without the password."""
        return shown_url(self._url)

    @property
    def address(self) -> URL:
        """Its whole URL: two with the same address are one database."""
        return self._url

    @property
    def conninfo(self) -> str | None:
        """How a driver of PostgreSQL reaches it, password and all; None when it is another database."""
        if self._url.get_backend_name() != "postgresql":
            return None
        return self._url.set(drivername="postgresql").render_as_string(hide_password=False)

    @functools.cached_property
    def bell(self) -> Bell:
        """What rings when another process has written something that is waited for."""
        conninfo = self.conninfo
        return Bell(conninfo=conninfo, file=None if conninfo else str(Path(str(self._url.database)).expanduser().absolute()))

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A transaction that only reads.

        Raises:
            DatabaseUnavailable: the database cannot be used.
        """
        with self._transaction({}) as connection:
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A transaction that writes; all of it is kept, or nothing when the block raises.

        Raises:
            DatabaseUnavailable: the database cannot be used.
            ValueRefused: a value does not fit its tables: too long, too large, or against one of their rules.
            RecordExists: there is one with that id or name.
        """
        with self._transaction({"writing": True}) as connection:
            yield connection

    def status(self) -> DatabaseStatus:
        """Where the records are and which revision their tables have.

        Raises:
            DatabaseUnavailable: the database cannot be read.
        """
        with self.read() as connection:
            return status_of(connection, self.name)

    def upgrade(self) -> str | None:
        """Bring the tables to the newest revision, however many processes try at once; gives the revision before.

        Where others use the tables for long, it lets them go on and tries again, for two minutes at least.

        Raises:
            DatabaseUnavailable: that is not possible.
        """
        give_up = time.monotonic() + _PATIENCE_S
        while True:
            try:
                with self.write() as connection:
                    return upgrade(connection)
            except DatabaseUnavailable as error:
                if not gave_way(error) or time.monotonic() > give_up:
                    raise
            time.sleep(random.uniform(0.1, 1))  # noqa: S311 - only so that two do not meet again and again

    def close(self) -> None:
        """Let go of every connection."""
        if self._engine is not None:
            self._engine.dispose()

    @contextmanager
    def _transaction(self, options: Mapping[str, object]) -> Iterator[Connection]:
        engine = self._engine
        if engine is None:
            raise DatabaseUnavailable(f"the database {self.name} is not open", hint="open it with Database.open")
        with self._explained(), engine.connect().execution_options(**options) as connection, connection.begin():
            yield connection

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Errors of the driver and of the file system as one of ours."""
        try:
            yield
        except (SQLAlchemyError, OSError) as error:
            password = self._url.password
            raise explained(error, name=self.name, secret=str(password) if password else None) from error
