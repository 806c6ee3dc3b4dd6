"""How well liked the installed skills are: stars, and how often each was fetched or installed from here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from sqlalchemy import delete, func, select, update

from skillyard.database import insert_if_new, skill_counts, skill_stars

if TYPE_CHECKING:
    from skillyard.database import Database

__all__ = ["Counts", "Popularity"]


@dataclass(frozen=True, slots=True)
class Counts:
    """The stars of a skill, how often its package was fetched, and how often clients told that they installed it."""

    stars: int = 0
    downloads: int = 0
    installs: int = 0


class Popularity:
    """Stars and counts in a database. Its methods block."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def counts(self) -> Mapping[str, Counts]:
        """The counts of every skill that has any, by id."""
        with self._database.read() as connection:
            stars = connection.execute(select(skill_stars.c.skill_id, func.count()).group_by(skill_stars.c.skill_id)).all()
            counted = connection.execute(select(skill_counts)).all()
        starred: dict[str, int] = {row[0]: row[1] for row in stars}
        fetched = {row.skill_id: (row.downloads, row.installs) for row in counted}
        return {
            skill_id: Counts(starred.get(skill_id, 0), *fetched.get(skill_id, (0, 0)))
            for skill_id in starred.keys() | fetched.keys()
        }

    def star(self, skill_id: str, owner: str) -> bool:
        """Give a skill the star of `owner`; whether it did not have it yet."""
        row = {"skill_id": skill_id, "owner": owner, "starred_at": datetime.now(UTC)}
        with self._database.write() as connection:
            mine = select(skill_stars.c.owner).where(skill_stars.c.skill_id == skill_id, skill_stars.c.owner == owner)
            known = connection.execute(mine).first() is not None
            insert_if_new(connection, skill_stars, [row])
        return not known

    def unstar(self, skill_id: str, owner: str) -> bool:
        """Take the star of `owner` back; whether the skill had it."""
        with self._database.write() as connection:
            mine = delete(skill_stars).where(skill_stars.c.skill_id == skill_id, skill_stars.c.owner == owner)
            return connection.execute(mine).rowcount > 0

    def count(self, skill_id: str, *, downloads: int = 0, installs: int = 0) -> None:
        """Add to the counts of a skill."""
        table = skill_counts.c
        with self._database.write() as connection:
            insert_if_new(connection, skill_counts, [{"skill_id": skill_id, "downloads": 0, "installs": 0}])
            added = {"downloads": table.downloads + downloads, "installs": table.installs + installs}
            connection.execute(update(skill_counts).where(table.skill_id == skill_id).values(added))
