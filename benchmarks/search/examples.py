"""Examples for the learned ranker: requests of every kind, the features of their candidates, and which of these are right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.search.collection import Entry, Request
from skillyard.search import SearchIndex
from skillyard.search.ranker import candidate_features
from skillyard.search.scoring import expansion, find_candidates, request_terms
from skillyard.search.words import words


@dataclass(frozen=True)
class Example:
    """One request against one index of so many skills: the skill of each row of `features`, and whether it is right.

    `kind` is that of the request, or of the catalog when it is not the whole pool.
    """

    request: Request
    kind: str
    skills: int
    numbers: Any
    features: Any
    right: Any


def index_of(entries: Sequence[Entry]) -> SearchIndex:
    index = SearchIndex(entries)  # type: ignore[arg-type] # entries have what search asks of a skill
    len(index.numbers)
    return index


def examples_of(
    index: SearchIndex,
    requests: Sequence[Request],
    number_of: dict[int, int] | None = None,
    *,
    kind: str = "",
    without: bool = False,
) -> list[Example]:
    """The examples of `requests`; `number_of` gives the number in the index for those in `right` (None: the same).

    With `without` the right skills are taken out of the catalog.
    """
    result = []
    for request in requests:
        text = request.text[:20_000]
        query_words = words(text)
        extra = expansion(index, text, query_words)
        if not query_words and not extra:
            continue
        right = request.right if number_of is None else {number_of[one] for one in request.right if one in number_of}
        terms = request_terms(index, query_words, extra)
        others = set(range(len(index))).difference(right).__contains__ if without else None
        candidates = find_candidates(index, terms, only=others)
        if not len(candidates.positions):
            continue
        features = candidate_features(index, candidates, terms, query_words)
        numbers = index.numbers[candidates.positions]
        skills = len(index) - len(right) if without else len(index)
        result.append(Example(request, kind or request.kind, skills, numbers, features, np.isin(numbers, list(right))))
    return result
