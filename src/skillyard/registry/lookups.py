"""Finding a few of many installed skills: each is a query with an index behind it, whose cost does not grow with the records.

Listing all of them is `Ledger.skills`; that is for who needs all.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import Select, func, or_, select

from skillyard.database import skill_definitions, with_part
from skillyard.registry.rows import skill_of

if TYPE_CHECKING:
    from skillyard.database import Database
    from skillyard.registry.model import InstalledSkill

__all__ = ["find_skill", "near_ids", "page_of_skills", "skills_called"]

_TABLE: Final = skill_definitions
_COMPARED: Final = 5000  # ids that a slip of the pen is held against


def find_skill(database: Database, name: str) -> InstalledSkill | None:
    """The skill with this id, else the first with this name; uninstalled ones too."""
    for column in (_TABLE.c.skill_id, _TABLE.c.name):
        found = _skills(database, select(_TABLE).where(column == name).order_by(_TABLE.c.skill_id).limit(1))
        if found:
            return found[0]
    return None


def skills_called(database: Database, names: Collection[str]) -> tuple[InstalledSkill, ...]:
    """The active skills that have one of these ids or names."""
    if not names:
        return ()
    either = or_(_TABLE.c.skill_id.in_(names), _TABLE.c.name.in_(names))
    return _skills(database, select(_TABLE).where(either, _TABLE.c.is_active).order_by(_TABLE.c.skill_id))


def near_ids(database: Database, name: str) -> list[str]:
    """Ids of active skills that may have been meant: all of a few, of many those that begin with the same letter."""
    ids = select(_TABLE.c.skill_id).where(_TABLE.c.is_active).order_by(_TABLE.c.skill_id).limit(_COMPARED + 1)
    first = name[:1].lower()
    with database.read() as connection:
        found = list(connection.execute(ids).scalars())
        if len(found) > _COMPARED and first.isascii() and first.isalnum():
            found = list(connection.execute(ids.where(_TABLE.c.skill_id >= first)).scalars())
    return found[:_COMPARED]


def page_of_skills(
    database: Database, *, text: str = "", active: bool | None = None, limit: int = 20, offset: int = 0
) -> tuple[tuple[InstalledSkill, ...], int]:
    """So many skills by id, without their SKILL.md, and how many there are; `text` is in id, name or description."""
    columns = [column for column in _TABLE.c if column.name != "skill_md_content"]
    with database.read() as connection:
        wanted = [_TABLE.c.is_active == active] if active is not None else []
        found = with_part(connection, words) if (words := text.strip()) else []
        total = connection.execute(select(func.count()).select_from(_TABLE).where(*wanted, *found)).scalar_one()
        page = select(*columns).where(*wanted, *found).order_by(_TABLE.c.skill_id).limit(limit).offset(offset)
        rows = connection.execute(page).mappings().all()
    return tuple(skill_of({**row, "skill_md_content": None}) for row in rows), total


def _skills(database: Database, query: Select[Any]) -> tuple[InstalledSkill, ...]:
    with database.read() as connection:
        return tuple(map(skill_of, connection.execute(query).mappings()))
