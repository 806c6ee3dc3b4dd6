"""Which skills fit a request: ranked by their words, without any model; a reranker may be given."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillyard.lazy_exports import lazy_exports
from skillyard.search.matches import (
    RERANKED,
    EmbeddingReranker,
    JudgeReranker,
    Match,
    Reason,
    Reranker,
    chat_address,
    embeddings_address,
    rerank,
)
from skillyard.search.ranking import find_relevant_skills, match_event, named_skills, search_skills, skill_filter
from skillyard.search.search_index import SearchIndex

if TYPE_CHECKING:
    from skillyard.search.evaluation import (
        Collision,
        DescriptionChange,
        Evaluation,
        TriggerCase,
        TriggerResult,
        evaluate_triggers,
        evaluation_of,
        find_collisions,
        read_trigger_cases,
        skill_trigger_cases,
        suggest_descriptions,
        try_trigger,
    )


__all__ = [
    "RERANKED",
    "Collision",
    "DescriptionChange",
    "EmbeddingReranker",
    "Evaluation",
    "JudgeReranker",
    "Match",
    "Reason",
    "Reranker",
    "SearchIndex",
    "TriggerCase",
    "TriggerResult",
    "chat_address",
    "embeddings_address",
    "evaluate_triggers",
    "evaluation_of",
    "find_collisions",
    "find_relevant_skills",
    "match_event",
    "named_skills",
    "read_trigger_cases",
    "rerank",
    "search_skills",
    "skill_filter",
    "skill_trigger_cases",
    "suggest_descriptions",
    "try_trigger",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "evaluation": (
            "Collision",
            "DescriptionChange",
            "Evaluation",
            "TriggerCase",
            "TriggerResult",
            "evaluate_triggers",
            "evaluation_of",
            "find_collisions",
            "read_trigger_cases",
            "skill_trigger_cases",
            "suggest_descriptions",
            "try_trigger",
        ),
    },
)
