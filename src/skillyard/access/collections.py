"""What people keep of the catalog for themselves: stars, collections of skills under a name, and saved searches.

A star is the collection without a name. Skills are named by their ids in the catalog, whatever their source: who removes a
skill and installs it again finds the star again. Nobody sees what others keep; only how many stars a skill has is known to all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import delete, func, insert, select

from skillyard.database import collected_skills, insert_or_update, saved_searches, take_global_lock
from skillyard.errors import InvalidInput, RecordNotFound
from skillyard.text import nearest, quoted, single_line
from skillyard.wire import WireForm

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Connection, Select

    from skillyard.database import Database


STARS: Final = ""
"""The collection of the skills with a star."""
MOST_COLLECTED: Final = 5_000
"""How many skills one collection may have."""
MOST_SAVED: Final = 100
"""How many collections, and how many saved searches, somebody may have."""
_LONGEST: Final = 80


@dataclass(frozen=True, slots=True)
class SavedSearch(WireForm, times="seconds"):
    """Words and filters of the catalog under a name; `search` has those that are set."""

    name: str
    search: Mapping[str, Any] = field(hash=False)
    saved_at: datetime


@dataclass(frozen=True, slots=True)
class SkillCollections:
    """The stars, collections and saved searches of everybody; `database` gives them, opened. The methods block.

    `owner` is who keeps something, as the server calls callers. Raises, from every method:
        DatabaseUnavailable: the database cannot be used.
    """

    database: Callable[[], Database]

    def all(self, owner: str) -> dict[str, tuple[str, ...]]:
        """The ids of the skills in each collection of `owner`, what was added last first; `STARS` is one of them."""
        table = collected_skills.c
        query = select(table.collection, table.skill_id).where(table.owner == owner)
        query = query.order_by(table.collection, table.added_at.desc(), table.skill_id)
        found: dict[str, list[str]] = {}
        with self.database().read() as connection:
            for collection, skill in connection.execute(query):
                found.setdefault(collection, []).append(skill)
        return {collection: tuple(skills) for collection, skills in found.items()}

    def skills(self, owner: str, collection: str = STARS) -> tuple[str, ...]:
        """The ids of the skills in one collection, what was added last first; none when there is no such collection."""
        table = collected_skills.c
        query = select(table.skill_id).where(*_in_collection(owner, collection))
        with self.database().read() as connection:
            return tuple(connection.execute(query.order_by(table.added_at.desc(), table.skill_id)).scalars())

    def add(self, owner: str, skill: str, collection: str = STARS) -> bool:
        """Put a skill into a collection, which is made by its first; False when it was there.

        Raises:
            InvalidInput: the name is too long or empty, there are too many collections, or too many skills in this one.
        """
        name = collection if collection == STARS else _checked_name(collection, "collection")
        here = _in_collection(owner, name)
        row = {"owner": owner, "collection": name, "skill_id": skill, "added_at": datetime.now(UTC)}
        with self.database().write() as connection:
            take_global_lock(connection)  # so that nobody counts what another one adds
            if connection.execute(select(collected_skills.c.owner).where(*here, collected_skills.c.skill_id == skill)).first():
                return False
            many = _count(connection, select(func.count()).select_from(collected_skills).where(*here))
            if many >= MOST_COLLECTED:
                what = f"the collection {quoted(name)} has" if name else "you have stars on"
                raise InvalidInput(f"{what} {MOST_COLLECTED} skills", hint="take some out first")
            if many == 0 and name != STARS:
                names = select(func.count(collected_skills.c.collection.distinct()))
                if _count(connection, names.where(*_named(owner))) >= MOST_SAVED:
                    raise InvalidInput(f"you have {MOST_SAVED} collections", hint="delete one of them first")
            connection.execute(insert(collected_skills).values(row))
        return True

    def remove(self, owner: str, skill: str, collection: str = STARS) -> bool:
        """Take a skill out of a collection, which ends with its last; False when it was not there."""
        which = (*_in_collection(owner, collection), collected_skills.c.skill_id == skill)
        with self.database().write() as connection:
            return connection.execute(delete(collected_skills).where(*which)).rowcount > 0

    def delete(self, owner: str, collection: str) -> None:
        """Delete a collection; its skills stay as they are.

        Raises:
            RecordNotFound: there is none of that name.
        """
        with self.database().write() as connection:
            if connection.execute(delete(collected_skills).where(*_in_collection(owner, collection))).rowcount:
                return
            names = connection.execute(select(collected_skills.c.collection).where(*_named(owner)).distinct()).scalars().all()
        raise _missing("collection", collection, names)

    def searches(self, owner: str) -> tuple[SavedSearch, ...]:
        """The saved searches of `owner`, by name."""
        table = saved_searches.c
        query = select(table.name, table.search, table.saved_at).where(table.owner == owner).order_by(table.name)
        with self.database().read() as connection:
            return tuple(SavedSearch(*row) for row in connection.execute(query))

    def save_search(self, owner: str, name: str, search: Mapping[str, Any]) -> SavedSearch:
        """Keep a search under a name, in place of the one that had it.

        Raises:
            InvalidInput: the name is too long or empty, or there are too many.
        """
        saved = SavedSearch(_checked_name(name, "search"), dict(search), datetime.now(UTC))
        row = {"owner": owner, "name": saved.name, "search": dict(saved.search), "saved_at": saved.saved_at}
        others = select(func.count()).select_from(saved_searches)
        others = others.where(saved_searches.c.owner == owner, saved_searches.c.name != saved.name)
        with self.database().write() as connection:
            take_global_lock(connection)
            if _count(connection, others) >= MOST_SAVED:
                raise InvalidInput(f"you have {MOST_SAVED} saved searches", hint="delete one of them first")
            connection.execute(insert_or_update(connection, saved_searches, row))
        return saved

    def delete_search(self, owner: str, name: str) -> None:
        """Delete a saved search.

        Raises:
            RecordNotFound: there is none of that name.
        """
        table = saved_searches.c
        with self.database().write() as connection:
            if connection.execute(delete(saved_searches).where(table.owner == owner, table.name == name)).rowcount:
                return
            names = connection.execute(select(table.name).where(table.owner == owner)).scalars().all()
        raise _missing("saved search", name, names)


def _in_collection(owner: str, collection: str) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    return collected_skills.c.owner == owner, collected_skills.c.collection == collection


def _named(owner: str) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    return collected_skills.c.owner == owner, collected_skills.c.collection != STARS


def _count(connection: Connection, query: Select[Any]) -> int:
    return int(connection.execute(query).scalar_one())


def _checked_name(name: str, what: str) -> str:
    checked = single_line(name).strip()
    if not checked or len(checked) > _LONGEST:
        raise InvalidInput(f"a {what} needs a name of at most {_LONGEST} characters", hint="name it after what is in it")
    return checked


def _missing(what: str, name: str, names: Sequence[str]) -> RecordNotFound:
    near = nearest(name, names, limit=1)
    return RecordNotFound(f"you have no {what} {quoted(name, 80)}", hint=f"did you mean {near[0]}?" if near else None)
