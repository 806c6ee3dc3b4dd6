"""Whether what is stored is consistent: pages and indexes, references between tables, the full-text indexes.

SQLite proves all of it (`PRAGMA integrity_check`, `foreign_key_check`, the check that FTS5 offers). PostgreSQL has no such
command for its users: every row of every table is read, with its large values, and every index is proven where the extension
amcheck is installed and may be used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from sqlalchemy import inspect, select, text
from sqlalchemy.exc import DBAPIError

from skillyard.database.dialects import is_damage
from skillyard.database.tables import METADATA
from skillyard.wire import WireForm

if TYPE_CHECKING:
    from sqlalchemy import Connection, Table


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
    there = set(inspect(connection).get_table_names())
    for table in METADATA.sorted_tables:
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
