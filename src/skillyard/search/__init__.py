"""Which skills fit a request: ranked by their words, without any model."""

from __future__ import annotations

from skillyard.search.filters import wanted
from skillyard.search.index import SearchIndex
from skillyard.search.ranking import Match, MatchShape, Reason, named_skills, search_skills
from skillyard.search.triggers import find_relevant_skills, match_event

__all__ = [
    "Match",
    "MatchShape",
    "Reason",
    "SearchIndex",
    "find_relevant_skills",
    "match_event",
    "named_skills",
    "search_skills",
    "wanted",
]
