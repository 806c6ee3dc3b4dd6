"""The index of one catalog, for the request at hand when it is known."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Final

from skillyard.prompt.index import DEFAULT_BUDGET, DEFAULT_DESCRIPTION, build_index
from skillyard.search import SearchIndex, named_skills, search_skills

if TYPE_CHECKING:
    from skillyard.catalog import Catalog, Skill
    from skillyard.prompt.forms import Style
    from skillyard.prompt.report import Index

__all__ = ["write_index"]

_RANKED: Final = 200  # more than a prompt has room for: what comes after these keeps its order


def write_index(
    catalog: Catalog,
    *,
    style: Style = "compact",
    budget: int | None = DEFAULT_BUDGET,
    description_chars: int | None = DEFAULT_DESCRIPTION,
    request: str | None = None,
    named: Collection[str] = (),
    pinned: Collection[str] = (),
    search_index: SearchIndex | None = None,
    previous: Index | None = None,
    installed: Collection[str] | None = None,
) -> Index:
    """The index of the skills of `catalog`, at most `budget` tokens (None: no limit).

    Without a `request` the order is the catalog's, so that prompt caches hold. With the text of a request the skills it names
    come first, then those that fit it best. `named` skills, then `pinned` ones, are served before the others. `search_index`
    holds the catalog's usable skills; left out, it is made when it is needed. With the `previous` index of a conversation what
    it showed stays where it is (see `build_index`).

    Raises:
        InvalidInput: unknown style, or a negative limit.
    """
    skills: Sequence[Skill] = catalog.all()
    if request:
        index = search_index or SearchIndex(skills)
        skills = _best_first(skills, index, request)
        named = (*named, *named_skills(index, request))
    return build_index(
        skills,
        style=style,
        budget=budget,
        description_chars=description_chars,
        named=named,
        pinned=pinned,
        ranked=bool(request),
        roots=[root.location for root in catalog.roots if root.scanned],
        project_root=catalog.project_root,
        previous=previous,
        installed=installed,
    )


def _best_first(skills: Sequence[Skill], index: SearchIndex, request: str) -> list[Skill]:
    best = [match.skill for match in search_skills(index, request, limit=_RANKED)]
    first = {skill.id for skill in best}
    return best + [skill for skill in skills if skill.id not in first]
