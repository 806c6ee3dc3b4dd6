"""Copying all records from one database into another, of either kind: verified row by row, and resumed where it was cut off.

Rows that are there already stay as they are when they are the same; another row under the same key stops the copy. What
is about processes that live now (workers, runs on their way to one) is not copied.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sqlalchemy import delete, func, insert, select, tuple_

from skillyard.database.dialects import advance_sequence, insert_if_new, use_snapshot
from skillyard.database.maintenance import refuse_newer
from skillyard.database.tables import (
    METADATA,
    live_events,
    questions,
    queued_runs,
    run_files,
    session_approvals,
    tool_sessions,
    worker_pools,
    workers,
)
from skillyard.errors import InvalidInput
from skillyard.wire import WireForm

if TYPE_CHECKING:
    from sqlalchemy import Connection, RowMapping, Table

    from skillyard.database.connection import Database


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
        for table in reversed(METADATA.sorted_tables):
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
    return [table for table in METADATA.sorted_tables if table not in _TRANSIENT]


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
