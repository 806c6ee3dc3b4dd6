"""Organisations: each has a home of its own, a folder and a database, so that no query can mix rows of two.

The folder is `organisations/{name}` in the server's home. The database is a file in that folder; on PostgreSQL it is the
schema `org_{name}` of the server's database. The organisation `default` is the server's own home. `move_records` copies
the records of all of them into another database.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from sqlalchemy import Connection, insert, select

from skillyard.access.audit_log import DEFAULT_ORGANISATION, record_audit
from skillyard.database import isolated_url, make_schema, organisations, take_global_lock
from skillyard.errors import InvalidInput, RecordExists, RecordNotFound
from skillyard.text import nearest, single_line
from skillyard.wire import WireForm, wire

if TYPE_CHECKING:
    from skillyard.catalog import SkillCatalog
    from skillyard.database import CopiedTable, Database


_LONGEST_NAME: Final = 40
_NAME: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*", re.ASCII)  # it becomes a name of a folder and of a schema
_Catalog = TypeVar("_Catalog", bound="SkillCatalog")


def check_organisation_name(name: str) -> None:
    """Return when an organisation may be called so.

    Raises:
        InvalidInput: it is not made of lower-case letters, digits and single dashes between them, at most 40.
    """
    if len(name) > _LONGEST_NAME or not _NAME.fullmatch(name):
        raise InvalidInput(
            f"{single_line(name)[:60]!r} is not a valid name for an organisation",
            hint=f"lower-case letters, digits and single dashes between them, at most {_LONGEST_NAME}",
        )


@dataclass(frozen=True, slots=True)
class Organisation(WireForm, times="seconds"):
    """One organisation; the default one was never created."""

    name: str
    created_at: datetime | None = None

    @property
    def schema(self) -> str | None:
        """Its schema in PostgreSQL: no two names give the same one. None for the default organisation."""
        return None if self.name == DEFAULT_ORGANISATION else f"org_{self.name.replace('-', '_')}"

    def home(self, data: str) -> str:
        """Its own folder in the server's home `data`."""
        return data if self.name == DEFAULT_ORGANISATION else f"{data}/organisations/{self.name}"

    def database_url(self, data: str, configured: str | None) -> str | None:
        """The URL of its records, when those of the server in the home `data` are at `configured`."""
        return configured if self.schema is None else isolated_url(self.home(data), self.schema, configured)

    def make_schema(self, connection: Connection) -> None:
        """Make its schema where there is none, in the server's database."""
        if self.schema is not None:
            make_schema(connection, self.schema)


@dataclass(frozen=True, slots=True)
class Organisations:
    """The organisations of one server; `database` gives its main database, opened. Its methods block.

    Raises, from every method:
        DatabaseUnavailable: the database cannot be used.
    """

    database: Callable[[], Database]

    def create(self, name: str) -> Organisation:
        """A new organisation without skills, runs and keys.

        Raises:
            InvalidInput: the name is not made of lower-case letters, digits and single dashes, at most 40.
            RecordExists: there is one of that name.
        """
        check_organisation_name(name)
        made = Organisation(name, datetime.now(UTC))
        with self.database().write() as connection:
            take_global_lock(connection)
            there = connection.execute(select(organisations.c.name).where(organisations.c.name == name)).first()
            if there or name == DEFAULT_ORGANISATION:
                raise RecordExists(f"there is an organisation {name!r} already", hint="choose another name")
            connection.execute(insert(organisations).values(name=name, created_at=made.created_at))
            made.make_schema(connection)
            record_audit(connection, "organisations.create", name)
        return made

    def all(self) -> tuple[Organisation, ...]:
        """The default organisation, then the others by name."""
        with self.database().read() as connection:
            rows = connection.execute(select(organisations).order_by(organisations.c.name)).mappings().all()
        return (Organisation(DEFAULT_ORGANISATION), *(Organisation(row["name"], row["created_at"]) for row in rows))

    def get(self, name: str) -> Organisation:
        """The organisation of that name.

        Raises:
            RecordNotFound: there is none.
        """
        organisation = next((organisation for organisation in self.all() if organisation.name == name), None)
        if organisation is None:
            raise _missing(name, [organisation.name for organisation in self.all()])
        return organisation

    def catalog(self, name: str, main: _Catalog) -> _Catalog:
        """The catalog of an organisation beside the server's own, `main`: its folder is made when it is not there.

        Raises:
            RecordNotFound: there is no such organisation.
        """
        organisation = self.get(name)
        if organisation.schema is None:
            return main
        home = Path(organisation.home(main.data_directory))
        for folder in (home.parent, home):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        url = isolated_url(str(home), organisation.schema, main.configuration.database_url)
        return main.for_organisation(str(home), url)


def require_organisation(connection: Connection, name: str) -> None:
    """Return when there is an organisation of that name.

    Raises:
        RecordNotFound: there is none.
    """
    names = [DEFAULT_ORGANISATION, *connection.execute(select(organisations.c.name)).scalars()]
    if name not in names:
        raise _missing(name, names)


def _missing(name: str, names: list[str]) -> RecordNotFound:
    near = nearest(name, names, limit=1)
    hint = f"did you mean {near[0]}?" if near else "`skillyard organisations create NAME` makes one"
    return RecordNotFound(f"there is no organisation {single_line(name)[:60]!r}", hint=hint)


Progress = Callable[[str, str, int], object]
"""Is given the organisation, the table, and how many of its rows were copied."""


@dataclass(frozen=True, slots=True)
class CopiedRecords(WireForm):
    """The records of one organisation: where they are, where they go, and the tables; none when both are one place."""

    organisation: str
    source: str = field(metadata=wire(name="from"))
    target: str = field(metadata=wire(name="to"))
    tables: tuple[CopiedTable, ...] = ()

    @property
    def new_rows(self) -> int:
        """How many rows were new to the target."""
        return sum(table.new for table in self.tables)


def move_records(
    data: str, configured: str | None, to: str, *, check: bool = False, progress: Progress | None = None
) -> tuple[CopiedRecords, ...]:
    """Copy the records of the server in the home `data`, and of all its organisations, from `configured` into `to`.

    Nothing else may write to the two meanwhile. With `check` nothing is copied: `new` counts the rows that `to` lacks.
    What is in `to` already is compared and not copied again, so an interrupted copy can be repeated.

    Raises:
        InvalidInput: `to` is the database that is copied, or holds another row under one of its keys; what was copied stays.
        DatabaseUnavailable: one of the databases cannot be used.
    """
    from skillyard.database import Database

    with closing(Database.open(data, configured)) as main:
        every = Organisations(lambda: main).all()
        return tuple(_move(organisation, data, configured, to, check, progress) for organisation in every)


def _move(
    organisation: Organisation, data: str, configured: str | None, to: str, check: bool, progress: Progress | None
) -> CopiedRecords:
    from skillyard.database import Database, copy_records

    def report(table: str, rows: int) -> None:
        if progress is not None:
            progress(organisation.name, table, rows)

    home = organisation.home(data)
    with (
        closing(Database.open(home, organisation.database_url(data, configured))) as source,
        closing(Database.open(home, organisation.database_url(data, to), migrate=False)) as target,
    ):
        if source.address == target.address:
            if organisation.schema is None:
                raise InvalidInput(f"{source.name} is the database that is copied", hint="name another one with --to")
            # an organisation's file stays where it is, whichever file is the server's
            return CopiedRecords(organisation.name, source.name, target.name)
        if not check or target.status().revision is not None:
            with target.write() as connection:
                organisation.make_schema(connection)
            target.upgrade()
        tables = copy_records(source, target, check=check, progress=report)
        return CopiedRecords(organisation.name, source.name, target.name, tables)
