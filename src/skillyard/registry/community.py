"""What people add to installed skills: names for versions (tags), stars, and counts of fetches and installs.

The tag `latest` is always the current version.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Literal

from sqlalchemy import delete, func, select, update

from skillyard.database import insert_if_new, insert_or_update, skill_callers, skill_counts, skill_stars, skill_tags
from skillyard.errors import InvalidInput

if TYPE_CHECKING:
    from skillyard.database import Database


LATEST: Final = "latest"
_TAG: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_MOST: Final = 100


def check_tag(tag: str) -> None:
    """Refuse what cannot be a tag.

    Raises:
        InvalidInput: it cannot.
    """
    if tag == LATEST or not _TAG.fullmatch(tag):
        hint = f"letters, digits and . _ - without blanks, and not {LATEST}: that is the current version"
        raise InvalidInput(f"{tag[:40]!r} is not a tag of a version", hint=hint)


class VersionTags:
    """The tags in a database. Its methods block."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def of(self, skill_id: str) -> Mapping[str, str]:
        """The install version that each tag of a skill stands for."""
        return self.all().get(skill_id, {})

    def all(self) -> Mapping[str, Mapping[str, str]]:
        """The tags of every skill that has any, by id."""
        tags: dict[str, dict[str, str]] = {}
        with self._database.read() as connection:
            for row in connection.execute(select(skill_tags).order_by(skill_tags.c.tag)):
                tags.setdefault(row.skill_id, {})[row.tag] = row.version
        return tags

    def put(self, skill_id: str, tag: str, version: str) -> None:
        """Let a tag stand for a version, whatever it stood for before.

        Raises:
            InvalidInput: that is no tag, or there are too many.
        """
        check_tag(tag)
        tags = self.of(skill_id)
        if len(tags) >= _MOST and tag not in tags:
            raise InvalidInput(f"{skill_id} has {_MOST} tags", hint="use one of them")
        with self._database.write() as connection:
            row = {"skill_id": skill_id, "tag": tag, "version": version}
            connection.execute(insert_or_update(connection, skill_tags, row))

    def remove(self, skill_id: str, tag: str) -> None:
        """Let a tag stand for nothing; one that there is not is no error."""
        with self._database.write() as connection:
            connection.execute(delete(skill_tags).where(skill_tags.c.skill_id == skill_id, skill_tags.c.tag == tag))


CountedEvent = Literal["downloads", "installs"]
_DAY_S: Final = 86_400


@dataclass(frozen=True, slots=True)
class PopularityCounts:
    """The stars of a skill, how often its package was fetched, and how often clients reported that they installed it."""

    stars: int = 0
    downloads: int = 0
    installs: int = 0


class Popularity:
    """Stars and counts in a database. Its methods block."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def counts(self) -> Mapping[str, PopularityCounts]:
        """The counts of every skill that has any, by id."""
        with self._database.read() as connection:
            stars = connection.execute(select(skill_stars.c.skill_id, func.count()).group_by(skill_stars.c.skill_id)).all()
            counted = connection.execute(select(skill_counts)).all()
        starred: dict[str, int] = {row[0]: row[1] for row in stars}
        fetched = {row.skill_id: (row.downloads, row.installs) for row in counted}
        return {
            skill_id: PopularityCounts(starred.get(skill_id, 0), *fetched.get(skill_id, (0, 0)))
            for skill_id in starred.keys() | fetched.keys()
        }

    def star(self, skill_id: str, owner: str) -> bool:
        """Give a skill the star of `owner`; whether it did not have it yet."""
        row = {"skill_id": skill_id, "owner": owner, "starred_at": datetime.now(UTC)}
        with self._database.write() as connection:
            mine = select(skill_stars.c.owner).where(skill_stars.c.skill_id == skill_id, skill_stars.c.owner == owner)
            exists = connection.execute(mine).first() is not None
            insert_if_new(connection, skill_stars, [row])
        return not exists

    def unstar(self, skill_id: str, owner: str) -> bool:
        """Take the star of `owner` back; whether the skill had it."""
        with self._database.write() as connection:
            mine = delete(skill_stars).where(skill_stars.c.skill_id == skill_id, skill_stars.c.owner == owner)
            return connection.execute(mine).rowcount > 0

    def count(self, skill_id: str, what: CountedEvent, owner: str) -> None:
        """Count that `owner` has fetched or installed a skill; once a day, however often it is reported."""
        table, callers, today = skill_counts.c, skill_callers.c, int(time.time() // _DAY_S)
        row = {"skill_id": skill_id, "owner": owner, "what": what, "day": 0}
        mine = (callers.skill_id == skill_id, callers.owner == owner, callers.what == what)
        with self._database.write() as connection:
            insert_if_new(connection, skill_callers, [row])
            first = update(skill_callers).where(*mine, callers.day < today).values(day=today)
            if connection.execute(first).rowcount:
                insert_if_new(connection, skill_counts, [{"skill_id": skill_id, "downloads": 0, "installs": 0}])
                one_more = update(skill_counts).where(table.skill_id == skill_id).values({what: table[what] + 1})
                connection.execute(one_more)
