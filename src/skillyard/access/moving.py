"""All records of a server into another database, those of every organisation too: proven, and again after a break."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from skillyard.access.organisations import Organisation, Organisations
from skillyard.errors import InvalidInput

if TYPE_CHECKING:
    from skillyard.database import CopiedTable, Database

__all__ = ["CopiedRecords", "move_records"]

Progress = Callable[[str, str, int], object]
"""Told the organisation, the table, and how many of its rows were looked at."""


@dataclass(frozen=True, slots=True)
class CopiedRecords:
    """The records of one organisation: where they are, where they go, and the tables; none when both are one place."""

    organisation: str
    source: str
    target: str
    tables: tuple[CopiedTable, ...]

    @property
    def lacking(self) -> int:
        """How many rows were new to the target."""
        return sum(table.new for table in self.tables)

    def to_dict(self) -> dict[str, object]:
        """As plain data."""
        tables = [table.to_dict() for table in self.tables]
        return {"organisation": self.organisation, "from": self.source, "to": self.target, "tables": tables}


def move_records(
    data: str, configured: str | None, to: str, *, check: bool = False, progress: Progress | None = None
) -> tuple[CopiedRecords, ...]:
    """Bring the records of the server in the home `data`, and of all its organisations, from `configured` into `to`.

    Nothing else may write to the two meanwhile. With `check` nothing is copied: `new` counts the rows that `to` lacks.
    What is in `to` already is compared and not copied again, so whoever was interrupted does it once more.

    Raises:
        InvalidInput: `to` is the database that is copied, or holds another row under one of its keys; what was copied stays.
        DatabaseUnavailable: one of the databases cannot be used.
    """
    from skillyard.database import Database

    main = Database.open(data, configured)
    try:
        return tuple(
            _moved(organisation, data, configured, to, check=check, progress=progress)
            for organisation in Organisations(lambda: main).all()
        )
    finally:
        main.close()


def _moved(
    organisation: Organisation, data: str, configured: str | None, to: str, *, check: bool, progress: Progress | None
) -> CopiedRecords:
    from skillyard.database import Database, compare_records, copy_records, count_records

    home = organisation.home(data)
    source = Database.open(home, _place(organisation, home, configured))
    target = Database.open(home, _place(organisation, home, to), migrate=False)
    try:
        told = _told(organisation, source, target)
        if told is not None:
            return told
        if check and target.status().revision is None:
            return CopiedRecords(organisation.name, source.name, target.name, count_records(source))
        _prepare(organisation, target)

        def report(table: str, rows: int) -> None:
            if progress is not None:
                progress(organisation.name, table, rows)

        tables = compare_records(source, target) if check else copy_records(source, target, progress=report)
        return CopiedRecords(organisation.name, source.name, target.name, tables)
    finally:
        source.close()
        target.close()


def _place(organisation: Organisation, home: str, configured: str | None) -> str | None:
    """The address of an organisation's records in a database."""
    from skillyard.database import separate_url

    return configured if organisation.schema is None else separate_url(home, organisation.schema, configured)


def _told(organisation: Organisation, source: Database, target: Database) -> CopiedRecords | None:
    """What there is to say when both are one place: an organisation's file stays where it is, whichever file is the server's.

    Raises:
        InvalidInput: the server's own database would be copied onto itself.
    """
    if source.address != target.address:
        return None
    if organisation.schema is None:
        raise InvalidInput(f"{source.name} is the database that is copied", hint="name another one with --to")
    return CopiedRecords(organisation.name, source.name, target.name, ())


def _prepare(organisation: Organisation, target: Database) -> None:
    """Let the target have a place for the tables, and the tables."""
    from skillyard.database import make_schema

    if organisation.schema is not None:
        with target.write() as connection:
            make_schema(connection, organisation.schema)
    target.upgrade()
