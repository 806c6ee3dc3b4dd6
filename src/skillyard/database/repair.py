"""Bringing records into another database: what can still be read of a damaged file into a new one, or all of it into any other.

Nobody else may use a damaged file meanwhile: this process takes SQLite's own exclusive lock on it, and has no connection to it.
What is read is put into tables that the migrations have made, so that the new file is whole by itself; what the old one
lost is counted by its indexes.

A copy goes into a database of either kind: it is verified row by row, and resumed where it was cut off. Rows that are there
already stay as they are when they are the same; another row under the same key stops the copy. What is about processes that
live now (workers, runs on their way to one) is not copied.
"""

from __future__ import annotations

import json
import mmap
import os
import re
import sqlite3
import tempfile
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import delete, func, insert, select, tuple_

from skillyard.database.connection import Database, is_open_here
from skillyard.database.dialects import advance_sequence, insert_if_new, use_snapshot
from skillyard.database.maintenance import make_tables, readable_revision, refuse_newer
from skillyard.database.registry_tables import ALL_TABLES
from skillyard.database.sqlite_pages import PageFile, Row
from skillyard.database.tables import (
    live_events,
    questions,
    queued_runs,
    run_files,
    session_approvals,
    tool_sessions,
    worker_pools,
    workers,
)
from skillyard.errors import DatabaseDamaged, DatabaseUnavailable, InvalidInput
from skillyard.files import sync_folder
from skillyard.paths import CLOEXEC, NOFOLLOW
from skillyard.wire import WireForm

if TYPE_CHECKING:
    from sqlalchemy import Connection, RowMapping, Table

_LOCKS: Final = 0x40000000
"""Where SQLite locks a file: https://www.sqlite.org/fileformat2.html#the_lock_byte_page, 512 bytes."""
_GRANTING: Final = frozenset({"api_keys", "api_sessions", "approvals", "oauth_grants", "session_approvals", "webhooks"})
"""What lets somebody do something: a row of these that no tree leads to may be one that was taken back."""
_TreeRoots = Mapping[str, tuple[int, str]]
"""Tables and indexes of the old file, as `PageFile.tables` gives them."""
_MOMENT: Final = re.compile(r"\d{4}-\d\d-\d\d")


@dataclass(frozen=True, slots=True)
class RepairedTable(WireForm):
    """How many rows of a table came back, and how many did not: None when pages were lost and their rows are unknown."""

    table: str
    rows: int
    lost: int | None


@dataclass(frozen=True, slots=True)
class RepairReport(WireForm, also=("complete",)):
    """The new file, where the old one is kept, and its tables; `unplaced` counts rows that could be of several tables."""

    file: str
    kept: str
    tables: tuple[RepairedTable, ...]
    unplaced: int

    @property
    def complete(self) -> bool:
        """Whether nothing was lost, as far as can be known."""
        return not self.unplaced and all(table.lost == 0 for table in self.tables)


def repair_file(file: Path) -> RepairReport:
    """Put a new database with all that can be read in the place of `file`, which is kept beside it under a dated name.

    Raises:
        DatabaseUnavailable: it is in use, of a newer Skillyard, or the new one cannot be written; nothing was changed.
        DatabaseDamaged: nothing at all can be read.
    """
    if is_open_here(file):
        raise _in_use(file)
    try:
        with _exclusively(file) as descriptor, tempfile.TemporaryDirectory(prefix=".repair-", dir=file.parent) as scratch:
            pages = _pages(file, descriptor)
            tables, unplaced = _recover(pages, Path(scratch))
            kept = _put_in_place(file, Path(scratch) / "skillyard.db")
    except (OSError, sqlite3.Error) as error:
        raise DatabaseUnavailable(
            f"{file} cannot be repaired: {error}", hint=f"make room in {file.parent}, twice the size of the file at least"
        ) from error
    return RepairReport(str(file), str(kept), tables, unplaced)


@contextmanager
def _exclusively(file: Path) -> Iterator[int]:
    """The file, open, with SQLite's lock against every other process; this one must have no connection to it."""
    import fcntl  # not on every platform

    descriptor = os.open(file, os.O_RDWR | NOFOLLOW | CLOEXEC)
    try:
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 512, _LOCKS)
        except (BlockingIOError, PermissionError):
            raise _in_use(file) from None
        yield descriptor
    finally:
        os.close(descriptor)


def _in_use(file: Path) -> DatabaseUnavailable:
    return DatabaseUnavailable(
        f"{file} is in use, and cannot be repaired now", hint="stop servers and whatever else uses it, then try again"
    )


def _pages(file: Path, descriptor: int) -> PageFile:
    if not os.fstat(descriptor).st_size:
        raise DatabaseDamaged(f"{file} is empty", hint="move it away: the next command makes a new one")
    log = file.with_name(f"{file.name}-wal")
    data = mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)
    return PageFile(memoryview(data), log.read_bytes() if log.exists() else b"")


@dataclass(slots=True)
class _Table:
    """A table on its way: the columns of the new one by name with what they take, and how many of its rows were saved."""

    name: str
    columns: dict[str, _Column]
    has_tree: bool = False
    rows: int = 0
    lost_rows: int = 0
    lost_pages: int = 0
    counted: int | None = None
    old_names: tuple[str, ...] = field(default=())

    def result(self) -> RepairedTable:
        """The result."""
        if self.counted is not None:
            return RepairedTable(self.name, self.rows, max(0, self.counted - self.rows))
        return RepairedTable(self.name, self.rows, None if self.lost_pages or not self.has_tree else self.lost_rows)


@dataclass(frozen=True, slots=True)
class _Column:
    kind: str
    required: bool
    is_number: bool  # its value is the number of the row, which is not stored twice


def _recover(pages: PageFile, scratch: Path) -> tuple[tuple[RepairedTable, ...], int]:
    """Fill a new file in the folder `scratch`, prove it, and close it."""
    roots = pages.tables()
    if not any(table.name in roots for table in ALL_TABLES.sorted_tables):
        raise DatabaseDamaged(
            "nothing can be read in it: the list of its tables is lost",
            hint="move it away and restore a backup; `skillyard db backfill` records again what is installed",
        )
    revision = _revision(pages, roots)
    database = Database.open(str(scratch), migrate=False)
    try:
        with database.write() as connection:
            make_tables(connection, revision)
        with closing(sqlite3.connect(scratch / "skillyard.db", isolation_level=None)) as connection:
            connection.execute("PRAGMA foreign_keys=OFF")
            connection.execute("BEGIN")
            tables = _new_tables(connection)
            for table in tables:
                _fill(connection, pages, table, roots)
            for name, (root, _) in roots.items():  # so that none of their pages looks like one of ours
                if not name.startswith("index:"):
                    pages.tree(root)
            unplaced = _place_strays(connection, pages, tables)
            _drop_orphans(connection, tables)
            connection.execute("COMMIT")
        database.upgrade()
        wrong = database.check()
        if not wrong.whole:
            raise DatabaseDamaged(f"the recovered data is inconsistent: {wrong.problems[0]}", hint="restore a backup")
    finally:
        database.close()
    return tuple(table.result() for table in tables), unplaced


def _revision(pages: PageFile, roots: _TreeRoots) -> str:
    """The revision of the tables; the newest where it is not recorded. Raises what `readable_revision` raises."""
    rows = pages.tree(roots["alembic_version"][0]).rows if "alembic_version" in roots else []
    return readable_revision(str(rows[0].values[0]) if rows and rows[0].values else None)


def _new_tables(connection: sqlite3.Connection) -> list[_Table]:
    tables = []
    for name in (table.name for table in ALL_TABLES.sorted_tables):
        rows = connection.execute(f"PRAGMA table_info('{name}')").fetchall()
        keys = [row for row in rows if row[5]]
        columns = {
            row[1]: _Column(
                row[2].upper(), bool(row[3]) and row[4] is None, len(keys) == 1 and bool(row[5]) and row[2].upper() == "INTEGER"
            )
            for row in rows
        }
        if columns:  # an older revision lacks some tables
            tables.append(_Table(name, columns))
    return tables


def _fill(connection: sqlite3.Connection, pages: PageFile, table: _Table, roots: _TreeRoots) -> None:
    """Insert the rows that the tree of the table leads to, and count those in its indexes."""
    table.old_names = tuple(table.columns)
    if table.name not in roots:
        return
    root, statement = roots[table.name]
    table.has_tree = True
    table.old_names = _column_names(statement, table.name) or table.old_names
    tree = pages.tree(root)
    table.lost_rows, table.lost_pages = tree.broken_rows, tree.broken_pages
    _insert(connection, table, tree.rows)
    counts = [pages.count_index(roots[name][0]) for name in roots if name.startswith(f"index:{table.name}:")]
    table.counted = max((count for count in counts if count is not None), default=None)


def _column_names(statement: str, table: str) -> tuple[str, ...]:
    """The columns in the order in which the old table stores them."""
    with closing(sqlite3.connect(":memory:")) as memory, suppress(sqlite3.Error):
        memory.execute(statement)
        return tuple(row[1] for row in memory.execute(f"PRAGMA table_info('{table}')"))
    return ()


def _insert(connection: sqlite3.Connection, table: _Table, rows: Sequence[Row]) -> None:
    """Put rows in as far as the rules of the table take them."""
    for row in rows:
        given = {
            name: row.number if value is None and table.columns[name].is_number else value
            for name, value in zip(table.old_names, row.values, strict=False)
            if name in table.columns
        }
        if not given:
            table.lost_rows += 1
            continue
        names, marks = ", ".join(f'"{name}"' for name in given), ", ".join("?" * len(given))
        statement = f'INSERT OR IGNORE INTO "{table.name}" ({names}) VALUES ({marks})'  # noqa: S608 - names of our tables
        try:
            done = connection.execute(statement, list(given.values()))
        except sqlite3.IntegrityError:  # its number is no number, which no rule can pass over
            table.lost_rows += 1
        else:
            table.rows += max(0, done.rowcount)


def _place_strays(connection: sqlite3.Connection, pages: PageFile, tables: Sequence[_Table]) -> int:
    """Put rows that no tree leads to into the one damaged table that they fit; how many fit none, or several."""
    damaged = [table for table in tables if (table.lost_pages or not table.has_tree) and table.name not in _GRANTING]
    unplaced = 0
    for rows in pages.stray_leaves():
        fitting = [table for table in damaged if all(_fits(table, row) for row in rows)]
        if len(fitting) == 1:
            _insert(connection, fitting[0], rows)
        else:
            unplaced += len(rows)
    return unplaced


def _fits(table: _Table, row: Row) -> bool:
    """Whether a row looks like one of the table: so many values, each of the kind of its column."""
    columns = [table.columns.get(name) for name in table.old_names]
    if len(row.values) > len(columns) or any(column and column.required for column in columns[len(row.values) :]):
        return False
    return all(column is None or _takes(column, value) for column, value in zip(columns, row.values, strict=False))


def _takes(column: _Column, value: Any) -> bool:
    if value is None:
        return column.is_number or not column.required
    for kind, looks in _LOOKS.items():
        if column.kind.startswith(kind):
            return looks(value)
    return isinstance(value, str)


def _is_json(value: Any) -> bool:
    with suppress(ValueError, RecursionError):
        json.loads(value if isinstance(value, str) else "")
        return True
    return False


_LOOKS: Final[dict[str, Callable[[Any], bool]]] = {
    "BOOLEAN": lambda value: value in (0, 1),
    "INTEGER": lambda value: isinstance(value, int),
    "BIGINT": lambda value: isinstance(value, int),
    "FLOAT": lambda value: isinstance(value, int | float),
    "BLOB": lambda value: isinstance(value, bytes),
    "DATETIME": lambda value: isinstance(value, str) and bool(_MOMENT.match(value)),
    "JSON": _is_json,
}


def _drop_orphans(connection: sqlite3.Connection, tables: Sequence[_Table]) -> None:
    """Take rows out whose parent is lost, until every reference leads somewhere; they are still in the file that is kept."""
    by_name = {table.name: table for table in tables}
    while rows := {(row[0], row[1]) for row in connection.execute("PRAGMA foreign_key_check")}:
        for name, number in rows:
            connection.execute(f'DELETE FROM "{name}" WHERE rowid = ?', (number,))  # noqa: S608 - a name of our tables
            by_name[name].rows -= 1
            by_name[name].lost_rows += 1


def _put_in_place(file: Path, new: Path) -> Path:
    """Let the new file be `file`. At no moment is there none, and never the log of the old one beside the new one."""
    kept = _free_name(file)
    os.link(file, kept)
    for ending in ("-wal", "-shm"):
        beside = file.with_name(file.name + ending)
        if beside.exists():
            beside.rename(kept.with_name(kept.name + ending))
    new.replace(file)
    sync_folder(file.parent)
    return kept


def _free_name(file: Path) -> Path:
    """A name with the date for the file that is kept."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    names = (file.with_name(f"{file.stem}.damaged-{stamp}{more}.db") for more in ("", *(f"-{n}" for n in range(2, 100))))
    return next(name for name in names if not os.path.lexists(name))


_TRANSIENT: Final = (queued_runs, live_events, questions, session_approvals, tool_sessions, worker_pools, workers)
_ROWS: Final = 500
_LARGE: Final = {run_files.name: 4}
"""How many rows at a time of tables whose rows may have many megabytes."""
Progress = Callable[[str, int], object]
"""Is given the table, and how many of its rows were copied."""


@dataclass(frozen=True, slots=True)
class CopiedTable(WireForm):
    """One table: rows in the source, how many of them were new to the target, and how many more the target has."""

    table: str
    rows: int
    new: int
    extra: int


def copy_records(
    source: Database, target: Database, *, check: bool = False, progress: Progress | None = None
) -> tuple[CopiedTable, ...]:
    """Copy every record of `source` into `target`, and read each again there; nothing else may write to the two meanwhile.

    With `check` nothing is copied: `new` counts the rows that `target`, which may have no tables yet, lacks.

    Raises:
        InvalidInput: `target` holds another row under a key of `source`; what was copied before stays.
        DatabaseUnavailable: one of the two cannot be used, or is of a newer Skillyard.
    """
    if not check:
        _refuse_newer(source, target)
    elif target.status().revision is None:
        counts = [(table.name, _count(source, table)) for table in _tables()]
        return tuple(CopiedTable(name, rows, rows, 0) for name, rows in counts)
    return tuple(_copy_table(source, target, table, check=check, progress=progress) for table in _tables())


def _copy_table(source: Database, target: Database, table: Table, *, check: bool, progress: Progress | None) -> CopiedTable:
    before, rows, missing = _count(target, table), 0, 0
    with source.read() as reading, closing(_batches(reading, table)) as batches:
        for batch in batches:
            if not check:
                with target.write() as writing:
                    insert_if_new(writing, table, batch)
            with target.read() as checking:
                missing += len(batch) - _verify(checking, table, batch, target.name, whole=not check)
            rows += len(batch)
            if progress is not None:
                progress(table.name, rows)
    if not check:
        with target.write() as writing:
            advance_sequence(writing, table)
        missing = _count(target, table) - before
    return CopiedTable(table.name, rows, missing, before + missing - rows)


def replace_records(source: Database, target: Database) -> int:
    """Replace the records of `target` by a snapshot of `source`; gives the number of rows.

    It is one transaction: when it is interrupted, the old records stay. `source` may be written to meanwhile.

    Raises:
        DatabaseUnavailable: one of the two cannot be used, or is of a newer Skillyard.
    """
    _refuse_newer(source, target)
    count = 0
    with source.read() as reading, target.write() as writing:
        use_snapshot(reading)
        for table in reversed(ALL_TABLES.sorted_tables):
            writing.execute(delete(table))
        for table in _tables():
            with closing(_batches(reading, table)) as batches:
                for batch in batches:
                    writing.execute(insert(table), [dict(row) for row in batch])
                    count += len(batch)
            advance_sequence(writing, table)
    return count


def has_records(database: Database) -> bool:
    """Whether there are records that `replace_records` would delete.

    Raises:
        DatabaseUnavailable: the database cannot be used.
    """
    return any(_count(database, table) for table in _tables())


def _refuse_newer(*databases: Database) -> None:
    """A newer Skillyard may keep records in columns that are not known here: they would be left behind."""
    for database in databases:
        with database.read() as connection:
            refuse_newer(connection)


def _tables() -> list[Table]:
    """Those that are copied, the ones others refer to first."""
    return [table for table in ALL_TABLES.sorted_tables if table not in _TRANSIENT]


def _batches(connection: Connection, table: Table) -> Generator[Sequence[RowMapping]]:
    rows_at_once = _LARGE.get(table.name, _ROWS)
    query = select(table).order_by(*table.primary_key).execution_options(yield_per=rows_at_once)
    with connection.execute(query).mappings() as rows:
        yield from rows.partitions()


def _verify(connection: Connection, table: Table, batch: Sequence[RowMapping], name: str, *, whole: bool) -> int:
    """How many rows of `batch` are in the table; each that is there must be the same.

    Raises:
        InvalidInput: one is another, or with `whole` is not there.
    """
    keys = list(table.primary_key)
    expected = {tuple(row[key.name] for key in keys): dict(row) for row in batch}
    query = select(table).where(tuple_(*keys).in_(list(expected)))
    actual = {tuple(row[key.name] for key in keys): dict(row) for row in connection.execute(query).mappings()}
    different = [key for key, row in expected.items() if actual.get(key, None if whole else row) != row]
    if different:
        shown = ", ".join(str(part) for part in different[0])
        raise InvalidInput(
            f"{name} holds another row of {table.name} under {shown[:200]}", hint="copy into a database that is empty"
        )
    return len(actual)


def _count(database: Database, table: Table) -> int:
    with database.read() as connection:
        return connection.execute(select(func.count()).select_from(table)).scalar_one()
