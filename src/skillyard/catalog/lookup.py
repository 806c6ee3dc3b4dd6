"""Find the one skill that an id or a name means (C-8)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from skillyard.errors import AmbiguousSkill, SkillNotFound
from skillyard.text import nearest

if TYPE_CHECKING:
    from skillyard.catalog.model import Skill

__all__ = ["by_id", "find_skill"]

_SHORTEST_PART: Final = 2
_Test = Callable[["Skill", str], bool]

# The order of C-8; the slug, which is half of the id, counts as a name too.
_STAGES: Final[tuple[_Test, ...]] = (
    lambda skill, wanted: wanted in (skill.id, skill.reference),
    lambda skill, wanted: folder_name(skill) == wanted or skill.directory == wanted,
    lambda skill, wanted: skill.name == wanted,
    lambda skill, wanted: skill.display_name == wanted,
    lambda skill, wanted: skill.slug == wanted.lower() or skill.name.lower() == wanted.lower(),
    lambda skill, wanted: len(wanted) >= _SHORTEST_PART and wanted.lower() in skill.name.lower(),
)
_GROUPS: Final = (("ok",), ("disabled", "denied"), ("broken", "shadowed"))


def find_skill(skills: Sequence[Skill], wanted: str) -> Skill:
    """The skill of that id, folder, name or display name, or the only one whose name holds it, whatever its status.

    A usable skill comes before one that is not: a shadowed namesake never makes a name ambiguous.

    Raises:
        SkillNotFound: `details["candidates"]` lists ids of near names.
        AmbiguousSkill: more than one fits equally well; `details["candidates"]` lists their ids.
    """
    wanted = wanted.strip()
    for fits in _STAGES:
        if matches := [skill for skill in skills if fits(skill, wanted)]:
            return _only(matches, wanted)
    raise _not_found(skills, wanted)


def by_id(skills: Sequence[Skill]) -> dict[str, Skill]:
    """The skills by their id; an id that two have is left out."""
    index = {skill.id: skill for skill in skills}
    return index if len(index) == len(skills) else {}


def folder_name(skill: Skill) -> str:
    """The name of the skill's folder; the version link of an installed skill goes by its parent's name."""
    head, _, name = skill.directory.rpartition("/")
    return head.rpartition("/")[2] if name == "current" and skill.source == "installed" else name


def _only(matches: list[Skill], wanted: str) -> Skill:
    for statuses in _GROUPS:
        group = [skill for skill in matches if skill.status in statuses]
        named = [skill for skill in group if skill.name == wanted]
        if len(group) == 1:
            return group[0]
        if len(named) == 1:
            return named[0]
        if group and statuses[0] == "ok":
            raise _ambiguous(group, wanted)
    raise _ambiguous(matches, wanted)


def _ambiguous(matches: Sequence[Skill], wanted: str) -> AmbiguousSkill:
    candidates = [skill.id for skill in matches]
    shown = ", ".join(candidates[:5]) + (", …" if len(candidates) > 5 else "")
    return AmbiguousSkill(f"{wanted!r} fits {len(matches)} skills: {shown}", hint="give one of the ids", candidates=candidates)


def _not_found(skills: Iterable[Skill], wanted: str) -> SkillNotFound:
    offered = {name: skill.id for skill in skills if skill.usable for name in (skill.name, skill.id)}
    candidates = list(dict.fromkeys(offered[name] for name in nearest(wanted, offered, limit=6)))[:3]
    hint = f"did you mean {' or '.join(candidates)}?" if candidates else "`skillyard list` shows every skill"
    return SkillNotFound(f"there is no skill {wanted!r}", hint=hint, candidates=candidates)
