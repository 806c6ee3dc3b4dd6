"""Names that people give to versions of a skill, such as `stable`; `latest` is always the one that serves."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from sqlalchemy import select

from skillyard.database import insert_or_update, skill_tags
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
        hint = f"letters, digits and . _ - without blanks, and not {LATEST}: that is the version that serves"
        raise InvalidInput(f"{tag[:40]!r} is no tag of a version", hint=hint)


class VersionTags:
    """The tags in a database. Its methods block."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def of(self, skill_id: str) -> Mapping[str, str]:
        """The install version that each tag of a skill stands for."""
        return self.all().get(skill_id, {})

    def all(self) -> Mapping[str, Mapping[str, str]]:
        """The tags of every skill that has any, by id."""
        found: dict[str, dict[str, str]] = {}
        with self._database.read() as connection:
            for row in connection.execute(select(skill_tags).order_by(skill_tags.c.tag)):
                found.setdefault(row.skill_id, {})[row.tag] = row.version
        return found

    def put(self, skill_id: str, tag: str, version: str) -> None:
        """Let a tag stand for a version, whatever it stood for before.

        Raises:
            InvalidInput: that is no tag, or there are too many.
        """
        check_tag(tag)
        known = self.of(skill_id)
        if len(known) >= _MOST and tag not in known:
            raise InvalidInput(f"{skill_id} has {_MOST} tags", hint="use one of them")
        with self._database.write() as connection:
            row = {"skill_id": skill_id, "tag": tag, "version": version}
            connection.execute(insert_or_update(connection, skill_tags, row))
