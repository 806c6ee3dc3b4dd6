"""The short ways to the room `search`: which skills of a catalog fit a request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from skillyard.library.rooms import Rooms

if TYPE_CHECKING:
    from collections.abc import Collection

    from skillyard.catalog import Permission, Skill
    from skillyard.search import Match, Reranker, SearchIndex

__all__ = ["Searching"]

_RERANKED: Final = 30  # matches that a reranker is shown


class Searching(Rooms):
    """A catalog that can be searched; what is made ready for that is kept until its skills are others."""

    _searched: tuple[tuple[Skill, ...], SearchIndex] | None = None

    def search(
        self,
        text: str,
        limit: int = 10,
        *,
        min_confidence: float = 0.15,
        source: str | None = None,
        tag: str | None = None,
        domain: str | None = None,
        permission: Permission | None = None,
        reranker: Reranker | None = None,
    ) -> list[Match]:
        """The usable skills that fit `text`, best first; each match has `skill`, `confidence` (0 to 1) and what `matched`.

        With `source`, `tag` (or keyword), `domain` and `permission` only skills that have them count. A `reranker` looks at the
        best thirty once more.

        Raises:
            InvalidInput: a limit below 1, or a confidence outside 0 to 1.
        """
        from skillyard.search import rerank, search_skills, wanted

        only = wanted(source, tag, domain, permission=permission, permission_of=self.rules().decide)
        many = limit if reranker is None else max(limit, _RERANKED)
        found = search_skills(self._search_index(), text, limit=many, min_confidence=min_confidence, only=only)
        return rerank(text, found, reranker)[:limit] if reranker else found

    def find_relevant_skills(
        self,
        intent: str,
        *,
        limit: int = 3,
        min_confidence: float = 0.15,
        domain: str | None = None,
        required_keywords: Collection[str] = (),
    ) -> list[Match]:
        """The skills whose declared triggers, keywords and description `intent` meets, the surest first (document 000).

        Unlike `search` this reads nothing but front matter, and its scores are fixed sums: docs/search.md has them.

        Raises:
            InvalidInput: a limit below 1, or a confidence outside 0 to 1.
        """
        from skillyard.search import find_relevant_skills

        return find_relevant_skills(
            self.all(),
            intent,
            limit=limit,
            min_confidence=min_confidence,
            domain=domain,
            required_keywords=required_keywords,
        )

    def match_event(self, event: str, *, limit: int = 10) -> list[Match]:
        """The skills that declare the event type `event` among their triggers, the highest priority first.

        Raises:
            InvalidInput: an empty event, or a limit below 1.
        """
        from skillyard.search import match_event

        return match_event(self.all(), event, limit=limit)

    def _search_index(self) -> SearchIndex:
        """The skills ready to be searched; made again only when they are others."""
        from skillyard.search import SearchIndex

        skills = self.all()  # the same tuple until something has changed
        if self._searched is None or self._searched[0] is not skills:
            before = self._searched[1] if self._searched else None
            self._searched = (skills, SearchIndex(skills, cache=self.search_directory, before=before))
        return self._searched[1]
