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
from skillyard.database.schema_upgrade import refuse_newer
from skillyard.database.tables import (
    METADATA,
    handovers,
    happenings,
    questions,
    session_approvals,
    tool_sessions,
    worker_pools,
    workers,
)
from skillyard.errors import InvalidInput

if TYPE_CHECKING:
    from sqlalchemy import Connection, RowMapping, Table

    from skillyard.database.connection import Database


_TRANSIENT: Final = (handovers, happenings, questions, session_approvals, tool_sessions, worker_pools, workers)
_ROWS: Final = 500
Progress = Callable[[str, int], object]
"""Told the table, and how many of its rows were looked at."""


@dataclass(frozen=True, slots=True)
class CopiedTable:
    """One table: rows in the source, how many of them were new to the target, and how many more the target has."""

    table: str
    rows: int
    new: int
    extra: int

    def to_dict(self) -> dict[str, object]:
        """The table as plain data."""
        return {"table": self.table, "rows": self.rows, "new": self.new, "extra": self.extra}


def copy_records(source: Database, target: Database, *, progress: Progress | None = None) -> tuple[CopiedTable, ...]:
    """Bring every record of `source` into `target`, and read each again there; nothing else may write to the two meanwhile.

    Raises:
        InvalidInput: `target` holds another row under a key of `source`; what was copied before stays.
        DatabaseUnavailable: one of the two cannot be used, or is of a newer Skillyard.
    """
    _refuse_newer(source, target)
    done = []
    for table in _tables():
        rows, before = 0, _count(target, table)
        with source.read() as reading, closing(_batches(reading, table)) as batches:
            for batch in batches:
                with target.write() as writing:
                    insert_if_new(writing, table, batch)
                with target.read() as checking:
                    _verify(checking, table, batch, target.name)
                rows += len(batch)
                if progress is not None:
                    progress(table.name, rows)
        with target.write() as writing:
            advance_sequence(writing, table)
        after = _count(target, table)
        done.append(CopiedTable(table.name, rows, after - before, after - rows))
    return tuple(done)


def compare_records(source: Database, target: Database) -> tuple[CopiedTable, ...]:
    """What a copy would do: `new` counts the rows that `target` lacks.

    Raises:
        InvalidInput: `target` holds another row under a key of `source`.
        DatabaseUnavailable: one of the two cannot be used.
    """
    done = []
    for table in _tables():
        rows = new = 0
        with source.read() as reading, target.read() as checking, closing(_batches(reading, table)) as batches:
            for batch in batches:
                there = _verify(checking, table, batch, target.name, whole=False)
                rows, new = rows + len(batch), new + len(batch) - there
        done.append(CopiedTable(table.name, rows, new, _count(target, table) - rows + new))
    return tuple(done)


def count_records(source: Database) -> tuple[CopiedTable, ...]:
    """What a copy into an empty database would do.

    Raises:
        DatabaseUnavailable: it cannot be used.
    """
    counts = [(table.name, _count(source, table)) for table in _tables()]
    return tuple(CopiedTable(name, rows, rows, 0) for name, rows in counts)


def replace_records(source: Database, target: Database) -> int:
    """Let `target` hold what `source` holds at one moment, and nothing else; gives the number of rows.

    It is one transaction: whoever kills it finds the old records. `source` may be written to meanwhile.

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
    """Whether there is anything that `replace_records` would take away.

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
    query = select(table).order_by(*table.primary_key).execution_options(yield_per=_ROWS)
    with connection.execute(query).mappings() as rows:
        yield from rows.partitions()


def _verify(connection: Connection, table: Table, batch: Sequence[RowMapping], name: str, *, whole: bool = True) -> int:
    """How many rows of `batch` are in the table; each that is there must be the same.

    Raises:
        InvalidInput: one is another, or with `whole` is not there.
    """
    keys = list(table.primary_key)
    wanted = {tuple(row[key.name] for key in keys): dict(row) for row in batch}
    query = select(table).where(tuple_(*keys).in_(list(wanted)))
    found = {tuple(row[key.name] for key in keys): dict(row) for row in connection.execute(query).mappings()}
    wrong = [key for key, row in wanted.items() if found.get(key, None if whole else row) != row]
    if wrong:
        shown = ", ".join(str(part) for part in wrong[0])
        raise InvalidInput(
            f"{name} holds another row of {table.name} under {shown[:200]}", hint="copy into a database that is empty"
        )
    return len(found)


def _count(database: Database, table: Table) -> int:
    with database.read() as connection:
        return connection.execute(select(func.count()).select_from(table)).scalar_one()
