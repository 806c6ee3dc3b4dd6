"""Maintenance of a database: its tables upgraded to the revision this version knows, and whether what is stored is consistent.

Upgrades happen at the first use, are safe to repeat, and go forward only. Alembic does them, and is only imported when
something is to be done: that the newest revision is in place is one small query. A database file is copied beside itself
before its tables are changed.

The check looks at pages and indexes, references between tables, and the full-text indexes. SQLite proves all of it (`PRAGMA
integrity_check`, `foreign_key_check`, the check that FTS5 offers). PostgreSQL has no such command for its users: every row of
every table is read, with its large values, and every index is proven where the extension amcheck is installed and may be used.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sqlalchemy import Connection, inspect, select, text
from sqlalchemy.exc import DBAPIError

from skillyard.database.dialects import BUSY_TIMEOUT_S, hold_writers, is_damage, limit_lock_wait, make_file, take_global_lock
from skillyard.errors import DatabaseUnavailable
from skillyard.wire import WireForm

if TYPE_CHECKING:
    from alembic.config import Config
    from sqlalchemy import Table

HEAD: Final = "r0010"
"""The newest revision in `migrations/versions`."""
OLDEST: Final = "r0001"
"""The oldest revision whose programs still work with the tables of `HEAD`: every migration since then only adds."""

_MIGRATIONS: Final = Path(__file__).parent / "migrations"
_TABLE: Final = "alembic_version"
_REVISION: Final = re.compile(r"r\d{4}")
_KEPT_COPIES: Final = 3


@dataclass(frozen=True, slots=True)
class DatabaseStatus(WireForm, also=("current",)):
    """Where the records are and which revision their tables have (`None`: no tables yet).

    `newest` is the one this program knows; `newer` means that a newer program has made them and lets this one keep using
    them. `indexed_search` is whether a part of a word is found without reading every skill.
    """

    url: str
    revision: str | None
    newest: str
    newer: bool = False
    indexed_search: bool = False

    @property
    def current(self) -> bool:
        """Whether nothing is to be upgraded."""
        return self.newer or self.revision == self.newest

    @property
    def too_new(self) -> bool:
        """Whether a newer program has made them, and this one cannot use them."""
        return self.revision is not None and self.revision > self.newest and not self.newer

    @property
    def unreleased(self) -> bool:
        """Whether a program between two releases has made them, from which no migration leads on."""
        return self.revision is not None and _is_unreleased(self.revision)

    @property
    def search_hint(self) -> str:
        """How to give it the index that it lacks."""
        if self.url.startswith("postgresql"):
            return "let somebody who may run `CREATE EXTENSION pg_trgm WITH SCHEMA public`, then `skillyard db upgrade`"
        return "use a Python with SQLite 3.34 or newer, then `skillyard db upgrade`"


def revision_of(connection: Connection) -> str | None:
    """The revision of the tables, `None` when there are none."""
    if not inspect(connection).has_table(_TABLE):
        return None
    return connection.execute(text(f"SELECT version_num FROM {_TABLE}")).scalar()  # noqa: S608 - a constant


def is_usable(connection: Connection) -> bool:
    """Whether this program can use the tables as they are: they are its own, or of a newer one that only added to them."""
    revision = revision_of(connection)
    return revision == HEAD or (revision is not None and _is_newer(connection, revision))


def status_of(connection: Connection, url: str) -> DatabaseStatus:
    """The status of the records at `url`."""
    revision = revision_of(connection)
    if revision is None:
        return DatabaseStatus(url, None, HEAD)
    from skillyard.database.registry_tables import has_substring_index

    newer = _is_newer(connection, revision)
    return DatabaseStatus(url, revision, HEAD, newer=newer, indexed_search=has_substring_index(connection))


def upgrade(connection: Connection) -> str | None:
    """Bring the tables to the newest revision inside the transaction of `connection`; gives the revision before.

    What the database could not make then, for want of an extension, is made when it can. Tables of a newer program that only
    added to them stay as they are.

    Raises:
        DatabaseUnavailable: they are of a newer Skillyard, or of none that was released, and this one cannot use them.
    """
    take_global_lock(connection)
    limit_lock_wait(connection)
    before = revision_of(connection)
    if before is not None and before > HEAD:
        if not _is_newer(connection, before):
            raise too_new_error(before)
        return before
    if before == HEAD:
        from skillyard.database.registry_tables import make_substring_index

        make_substring_index(connection)
        return before
    if before is not None and _is_unreleased(before):
        raise unreleased_error(before)
    hold_writers(connection, inspect(connection).get_table_names())
    make_tables(connection, HEAD)
    return before


def make_tables(connection: Connection, revision: str) -> None:
    """Make the tables as they are at `revision`, or bring older ones there."""
    from alembic import command

    command.upgrade(configuration(connection), revision)
    if revision == HEAD:
        connection.execute(text(f"UPDATE {_TABLE} SET oldest = :oldest"), {"oldest": OLDEST})  # noqa: S608 - a constant


def refuse_newer(connection: Connection) -> None:
    """Stop who would write all records anew or copy them, when there are some that this program does not know.

    Raises:
        DatabaseUnavailable: the tables are of a newer Skillyard.
    """
    revision = revision_of(connection)
    if revision is not None and revision > HEAD:
        raise too_new_error(revision)


def _is_newer(connection: Connection, revision: str) -> bool:
    """Whether the tables are of a newer program and compatible with this one."""
    if revision <= HEAD:
        return False
    if "oldest" not in {column["name"] for column in inspect(connection).get_columns(_TABLE)}:
        return False
    oldest = connection.execute(text(f"SELECT oldest FROM {_TABLE}")).scalar()  # noqa: S608 - a constant
    return oldest is not None and str(oldest) <= HEAD


def readable_revision(stored: str | None) -> str:
    """The revision that is recorded in a damaged file; the newest one where there is none.

    Raises:
        DatabaseUnavailable: a newer Skillyard has made them, or one that was never released.
    """
    if stored is None or not _REVISION.fullmatch(stored):
        return HEAD
    if stored > HEAD:
        raise too_new_error(stored)
    if _is_unreleased(stored):
        raise unreleased_error(stored)
    return stored


def _is_unreleased(revision: str) -> bool:
    """Whether it lies before the newest revision, and there is no migration to or from it."""
    return revision < HEAD and revision not in {file.name.partition("_")[0] for file in _MIGRATIONS.glob("versions/r*.py")}


def unreleased_error(revision: str) -> DatabaseUnavailable:
    """The error for tables that a program between two releases has made."""
    return DatabaseUnavailable(
        f"the records were made by a Skillyard between two releases (revision {revision}), and cannot be brought to {HEAD}",
        hint="move them away, or name another database; the program that made them can still read them",
    )


def too_new_error(revision: str) -> DatabaseUnavailable:
    """The error for tables of a newer Skillyard that does not let this one use them."""
    return DatabaseUnavailable(
        f"the records were made by a newer Skillyard (revision {revision})", hint="upgrade skillyard, or name another database"
    )


def configuration(connection: Connection) -> Config:
    """Alembic's settings for the migrations in this package, over `connection`."""
    from alembic.config import Config

    settings = Config()
    settings.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    settings.set_main_option("path_separator", "os")
    settings.attributes["connection"] = connection
    return settings


def copy_before_upgrade(connection: Connection, file: Path) -> Path | None:
    """Copy the records beside the file, as `skillyard.before-r0002.db` for an upgrade to r0002; None when there is none to do.

    The newest three copies stay. The transaction of `connection` writes and has changed nothing: nobody changes anything
    meanwhile. A copy left by an upgrade that failed is replaced: nothing was changed then.

    Raises:
        DatabaseUnavailable: there is no room, or the folder cannot be written; nothing may be upgraded then.
    """
    revision = revision_of(connection)
    if revision is None or revision >= HEAD or _is_unreleased(revision):
        return None
    target = file.with_name(f"{file.stem}.before-{HEAD}.db")
    beside = file.with_name(f".{target.name}.{os.getpid()}")
    try:
        beside.unlink(missing_ok=True)
        make_file(beside)
        with closing(sqlite3.connect(file, timeout=BUSY_TIMEOUT_S)) as source, closing(sqlite3.connect(beside)) as copy:
            source.backup(copy)
        beside.replace(target)
    except (sqlite3.Error, OSError) as error:
        beside.unlink(missing_ok=True)
        raise DatabaseUnavailable(
            f"the records were not upgraded, because no copy of them can be kept before: {error}",
            hint=f"make room in {file.parent}, and let this user write there",
        ) from error
    for old in sorted(file.parent.glob(f"{file.stem}.before-r*.db"))[:-_KEPT_COPIES]:
        old.unlink(missing_ok=True)
    return target


_MOST: Final = 100
_FULLTEXT: Final = ("memories_words", "skill_parts")
_ROWS: Final = 500


@dataclass(frozen=True, slots=True)
class DatabaseCheck(WireForm, also=("whole",)):
    """The problems of a database, in sentences; none when it is intact. At most a hundred are given."""

    url: str
    problems: tuple[str, ...]

    @property
    def whole(self) -> bool:
        """Whether there is no problem."""
        return not self.problems


def find_problems(connection: Connection, *, quick: bool = False) -> tuple[str, ...]:
    """What is wrong with the tables and their indexes; with `quick` SQLite does not compare the two.

    Raises:
        DBAPIError: the database cannot be read, for another reason than its damage.
    """
    return _at_most(
        _of_sqlite(connection, "quick_check" if quick else "integrity_check")
        if connection.dialect.name == "sqlite"
        else _of_postgresql(connection)
    )


def find_fulltext_problems(connection: Connection) -> tuple[str, ...]:
    """What is wrong with the full-text indexes, in a transaction that may write, though nothing is changed.

    Those of PostgreSQL are indexes as all others. Raises as `find_problems`.
    """
    if connection.dialect.name == "postgresql":
        return ()
    there = inspect(connection).get_table_names()
    return _at_most(problem for table in _FULLTEXT if table in there for problem in _fulltext(connection, table))


def _at_most(problems: Iterator[str]) -> tuple[str, ...]:
    found: list[str] = []
    try:
        for problem in problems:
            found.append(problem)
            if len(found) == _MOST:
                break
    except DBAPIError as error:
        if not is_damage(error.orig):
            raise
        found.append(_message(error))
    return tuple(found)


def _of_sqlite(connection: Connection, check: str) -> Iterator[str]:
    for (line,) in connection.exec_driver_sql(f"PRAGMA {check}({_MOST})"):
        if line != "ok":
            yield str(line)
    for table, row, parent, _ in connection.exec_driver_sql("PRAGMA foreign_key_check"):
        yield f"row {row} of {table} refers to a row of {parent} that is not there"


def _fulltext(connection: Connection, table: str) -> Iterator[str]:
    try:
        connection.exec_driver_sql(f"INSERT INTO {table}({table}) VALUES ('integrity-check')")  # noqa: S608 - a constant
    except DBAPIError as error:
        if not is_damage(error.orig):
            raise
        yield f"the full-text index {table} does not match its table"


def _of_postgresql(connection: Connection) -> Iterator[str]:
    from skillyard.database.registry_tables import ALL_TABLES

    there = set(inspect(connection).get_table_names())
    for table in ALL_TABLES.sorted_tables:
        if table.name in there:
            yield from _attempted(connection, table.name, partial(_read, connection, table))
    if connection.execute(text(_MAY_CHECK)).scalar():
        for (name,) in connection.execute(text(_INDEXES)).all():
            check = text("SELECT bt_index_check(CAST(:name AS regclass))")
            yield from _attempted(connection, name, partial(connection.execute, check, {"name": name}))


def _attempted(connection: Connection, name: str, look: Callable[[], object]) -> Iterator[str]:
    """Check inside a savepoint, so that one damaged table does not hide the others."""
    try:
        with connection.begin_nested():
            look()
    except DBAPIError as error:
        if not is_damage(error.orig):
            raise
        yield f"{name}: {_message(error)}"


def _read(connection: Connection, table: Table) -> None:
    with connection.execute(select(table).execution_options(yield_per=_ROWS)) as rows:
        for _ in rows.partitions():
            pass


def _message(error: DBAPIError) -> str:
    return " ".join(str(error.orig).split())[:300]


_MAY_CHECK: Final = "SELECT has_function_privilege(to_regprocedure('bt_index_check(regclass)'), 'execute')"
_INDEXES: Final = """
    SELECT CAST(indexrelid AS regclass)::text FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
    JOIN pg_am ON pg_am.oid = relam WHERE amname = 'btree' AND relnamespace = to_regnamespace(current_schema())
"""
