"""The records of one home or one server: opened when first needed, shared by everything that records.

Opening makes or upgrades the tables, and ends the runs whose process has ended.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Self

from skillyard.times import DEFAULT_TIMING, Timing

if TYPE_CHECKING:
    from skillyard.catalog import SkillCatalog
    from skillyard.database import Database
    from skillyard.engine.journal import Journal


class Records:
    """The database at the URL `configured`, else `skillyard.db` in the folder `data`; nothing is opened yet.

    The properties block: asynchronous code uses them in a thread.
    """

    def __init__(self, data: str, configured: str | None = None, *, timing: Timing = DEFAULT_TIMING) -> None:
        self._timing = timing
        self._data = data
        self._configured = configured
        self._lock = threading.Lock()
        self._database: Database | None = None
        self._journal: Journal | None = None

    @classmethod
    def of(cls, catalog: SkillCatalog, *, timing: Timing = DEFAULT_TIMING) -> Self:
        """The records that the catalog's configuration and environment name."""
        return cls(catalog.data_directory, catalog.configuration.database_url, timing=timing)

    @property
    def may_have_workers(self) -> bool:
        """Whether the records are, by their address, in a database that worker pools can use; opens nothing."""
        return (self._configured or "").startswith("postgres")

    @property
    def database(self) -> Database:
        """The database, opened.

        Raises:
            DatabaseUnavailable: it cannot be opened.
        """
        return self._opened()[0]

    @property
    def journal(self) -> Journal:
        """The journal of runs.

        Raises:
            DatabaseUnavailable: the database cannot be opened.
        """
        return self._opened()[1]

    def close(self) -> None:
        """Release the database; the next use opens it again."""
        with self._lock:
            if self._database is not None:
                self._database.close()
            self._database = self._journal = None

    def _opened(self) -> tuple[Database, Journal]:
        from skillyard.database import Database  # half a second: only for who records or looks at records
        from skillyard.engine.journal import Journal

        with self._lock:
            if self._database is None or self._journal is None:
                database = Database.open(self._data, self._configured, timing=self._timing)
                journal = Journal(database)
                journal.recover()
                self._database, self._journal = database, journal
            return self._database, self._journal
