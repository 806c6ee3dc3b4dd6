"""Which skills fit a request: ranked by their words, without any model."""

from __future__ import annotations

from skillyard.search.index import SearchIndex
from skillyard.search.ranking import Match, MatchShape, Reason, named_skills, search_skills

__all__ = ["Match", "MatchShape", "Reason", "SearchIndex", "named_skills", "search_skills"]
