"""Organisations: each has a home of its own, a folder and a database, so that no query can forget whose rows it asks for.

The folder is `organisations/{name}` in the server's home. The database is a file in that folder; on PostgreSQL it is the schema
`org_{name}` of the server's database. The organisation `default` is the server's own home.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from sqlalchemy import Connection, insert, select

from skillyard.access.naming import DEFAULT, check_organisation_name
from skillyard.access.times import moment
from skillyard.access.trail import record
from skillyard.database import make_schema, one_at_a_time, organisations, separate_url
from skillyard.errors import RecordExists, RecordNotFound
from skillyard.text import nearest, single_line

if TYPE_CHECKING:
    from skillyard.catalog import Catalog
    from skillyard.database import Database

_Catalog = TypeVar("_Catalog", bound="Catalog")

__all__ = ["Organisation", "Organisations", "require_organisation"]


@dataclass(frozen=True, slots=True)
class Organisation:
    """One organisation; the default one was never created."""

    name: str
    created_at: datetime | None = None

    @property
    def schema(self) -> str | None:
        """Its schema in PostgreSQL: no two names give the same one. None for the default organisation."""
        return None if self.name == DEFAULT else f"org_{self.name.replace('-', '_')}"

    def home(self, data: str) -> str:
        """Its own folder in the server's home `data`."""
        return data if self.name == DEFAULT else f"{data}/organisations/{self.name}"

    def to_dict(self) -> dict[str, object]:
        """The organisation as plain data."""
        return {"name": self.name, "created_at": moment(self.created_at)}


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
            one_at_a_time(connection)
            known = connection.execute(select(organisations.c.name).where(organisations.c.name == name)).first()
            if known or name == DEFAULT:
                raise RecordExists(f"there is an organisation {name!r} already", hint="choose another name")
            connection.execute(insert(organisations).values(name=name, created_at=made.created_at))
            make_schema(connection, made.schema or "")
            record(connection, "organisations.create", name)
        return made

    def all(self) -> tuple[Organisation, ...]:
        """The default organisation, then the others by name."""
        with self.database().read() as connection:
            rows = connection.execute(select(organisations).order_by(organisations.c.name)).mappings().all()
        return (Organisation(DEFAULT), *(Organisation(row["name"], row["created_at"]) for row in rows))

    def get(self, name: str) -> Organisation:
        """The organisation of that name.

        Raises:
            RecordNotFound: there is none.
        """
        found = next((organisation for organisation in self.all() if organisation.name == name), None)
        if found is None:
            raise _missing(name, [organisation.name for organisation in self.all()])
        return found

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
        url = separate_url(str(home), organisation.schema, main.configuration.database_url)
        return main.for_organisation(str(home), url)


def require_organisation(connection: Connection, name: str) -> None:
    """Return when there is an organisation of that name.

    Raises:
        RecordNotFound: there is none.
    """
    known = [DEFAULT, *connection.execute(select(organisations.c.name)).scalars()]
    if name not in known:
        raise _missing(name, known)


def _missing(name: str, known: list[str]) -> RecordNotFound:
    near = nearest(name, known, limit=1)
    hint = f"did you mean {near[0]}?" if near else "`skillyard organisations create NAME` makes one"
    return RecordNotFound(f"there is no organisation {single_line(name)[:60]!r}", hint=hint)
