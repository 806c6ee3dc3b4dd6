"""The URL of the database: the one that was configured, or a file in Skillyard's own folder."""

from __future__ import annotations

from typing import Final

from sqlalchemy import make_url
from sqlalchemy.engine import URL
from sqlalchemy.exc import ArgumentError

from skillyard.errors import DatabaseUnavailable

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
"""A server that is gone without a word is noticed in half a minute, not in the hours that systems wait by themselves."""

_EXAMPLES: Final = "for example sqlite:////var/lib/skillyard.db or postgresql://user:password@host/skillyard"


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
        raise DatabaseUnavailable(f"no database of kind {url.drivername!r}", hint=f"use SQLite or PostgreSQL, {_EXAMPLES}")
    if driver.startswith("sqlite") and url.database in (None, "", ":memory:"):
        raise DatabaseUnavailable("a database in memory forgets every run", hint=f"name a file, {_EXAMPLES}")
    url = url.set(drivername=driver)
    if driver.startswith("postgresql"):
        return url.update_query_dict({name: value for name, value in _TIMEOUT_OPTIONS.items() if name not in url.query})
    return url


def isolated_url(data: str, schema: str, configured: str | None) -> str:
    """Where records are that share nothing with those at `configured`: `skillyard.db` in the folder `data`, or that schema.

    The URL holds the password when there is one. Raises what `database_url` raises.
    """
    from skillyard.database.dialects import schema_url

    url = schema_url(database_url(data, configured), schema, f"{data}/{DATABASE_FILE}")
    return url.render_as_string(hide_password=False)


def redacted_url(url: URL) -> str:
    """The URL without its password and without its options, for people."""
    return url.set(query={}).render_as_string(hide_password=True)
