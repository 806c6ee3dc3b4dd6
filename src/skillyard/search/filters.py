"""Which skills a search may find at all: by where they come from, their tags and their domain."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skillyard.catalog import Skill

__all__ = ["wanted"]


def wanted(source: str | None = None, tag: str | None = None, domain: str | None = None) -> Callable[[Skill], bool] | None:
    """What decides whether a skill counts: all that is given must hold, without regard to case; None when all skills count."""
    asked = [text.strip().casefold() if text else "" for text in (source, tag, domain)]
    if not any(asked):
        return None

    def counts(skill: Skill) -> bool:
        return (
            asked[0] in ("", skill.source)
            and (not asked[1] or asked[1] in {one.casefold() for one in (*skill.tags, *skill.keywords)})
            and asked[2] in ("", skill.domain.casefold())
        )

    return counts
