"""Which skills fit a request: ranked by their words, without any model."""

from __future__ import annotations

from skillyard.search.collisions import Collision, CollisionShape, find_collisions
from skillyard.search.evaluation import (
    Evaluation,
    EvaluationShape,
    TriggerCase,
    evaluate_triggers,
    read_trigger_cases,
)
from skillyard.search.filters import wanted
from skillyard.search.index import SearchIndex
from skillyard.search.ranking import Match, MatchShape, Reason, named_skills, search_skills
from skillyard.search.triggers import find_relevant_skills, match_event

__all__ = [
    "Collision",
    "CollisionShape",
    "Evaluation",
    "EvaluationShape",
    "Match",
    "MatchShape",
    "Reason",
    "SearchIndex",
    "TriggerCase",
    "evaluate_triggers",
    "find_collisions",
    "find_relevant_skills",
    "match_event",
    "named_skills",
    "read_trigger_cases",
    "search_skills",
    "wanted",
]
