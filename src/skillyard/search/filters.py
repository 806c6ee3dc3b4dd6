"""Which skills a search may find at all: by where they come from, their tags, their domain and what the rules say of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skillyard.catalog import Skill

__all__ = ["wanted"]


def wanted(
    source: str | None = None,
    tag: str | None = None,
    domain: str | None = None,
    *,
    permission: str | None = None,
    permission_of: Callable[[Skill], str] | None = None,
) -> Callable[[Skill], bool] | None:
    """What decides whether a skill counts: all that is given must hold, without regard to case; None when all skills count.

    `permission_of` tells the permission of a skill by the rules.
    """
    asked = [text.strip().casefold() if text else "" for text in (source, tag, domain, permission)]
    if not any(asked):
        return None

    def counts(skill: Skill) -> bool:
        return (
            asked[0] in ("", skill.source)
            and (not asked[1] or asked[1] in {one.casefold() for one in (*skill.tags, *skill.keywords)})
            and asked[2] in ("", skill.domain.casefold())
            and (not asked[3] or permission_of is None or permission_of(skill) == asked[3])
        )

    return counts
