"""One skill in a folder that no root leads to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillyard.catalog.model import Root, Skill
from skillyard.errors import SkillNotFound

if TYPE_CHECKING:
    from pathlib import Path

    from skillyard.document import Profile

__all__ = ["read_installed"]


def read_installed(folder: Path, skill_id: str, profile: Profile = "standard") -> Skill:
    """The skill in `folder` under the id `skill_id`, as if it had been installed there.

    Raises:
        SkillNotFound: there is no SKILL.md that can be read.
    """
    from skillyard.catalog.facts import look_and_read

    (read,) = look_and_read(str(folder.parent), [folder.name], profile)
    if read is None:
        raise SkillNotFound(f"there is no skill in {folder}", hint="delete the folder: it is fetched again")
    found, facts = read
    problem = facts[1]
    root = Root(str(folder.parent), "installed")
    return Skill((skill_id, "broken" if problem else "ok", problem, 0, found, facts), root, profile)
