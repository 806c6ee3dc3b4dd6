"""How the SDKs of model services call a skill: `skill_` and its id here."""

from __future__ import annotations

from typing import Final

from skillyard.errors import SkillNotFound
from skillyard.registry import InstalledSkill
from skillyard.server.offered import one_offered
from skillyard.server.service import Service

__all__ = ["id_of", "named", "own_id"]

_PREFIX: Final = "skill_"


def id_of(skill: InstalledSkill) -> str:
    """The id that a client knows the skill by."""
    return f"{_PREFIX}{skill.skill_id}"


def own_id(skill_id: str) -> str:
    """The id here, of the one that a client knows.

    Raises:
        SkillNotFound: that is no such id.
    """
    if not skill_id.startswith(_PREFIX):
        raise SkillNotFound(f"there is no skill {skill_id!r}", hint=f"ids begin with {_PREFIX}")
    return skill_id.removeprefix(_PREFIX)


def named(service: Service, skill_id: str) -> InstalledSkill:
    """The skill that a client means.

    Raises:
        SkillNotFound: there is none.
        PermissionDenied: a rule denies it.
    """
    return one_offered(service, own_id(skill_id))
