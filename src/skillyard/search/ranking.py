"""Ranking: which skills fit a request, how sure that is, and because of what.

Confidence, between 0 and 1 (`r` is a skill's score divided by what a skill would score that had each of the request's eight
most telling words once)::

    1                the request is the skill's name, or names it: `$pdf`, `/pdf`, "the pdf skill", `pdf-tools` as it is written
    max(0.9, …)      the words of a declared phrase or intent stand in the request together and in order
    max(0.7, …)      the same for a phrase of one word in a request of at most four
    1 - exp(-r)      any other, at most 0.99

A skill is a match only if it has a word of the request and reaches the least confidence asked for, 0.15 by default.
"""

from __future__ import annotations

import heapq
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypedDict

from skillyard.errors import InvalidInput
from skillyard.search.index import DESCRIPTION_LIMIT, SearchIndex
from skillyard.search.words import STOP_WORDS, compounds, runs, words

if TYPE_CHECKING:
    from skillyard.catalog import Skill

__all__ = ["Match", "MatchShape", "named_skills", "search_skills"]

TELLING: Final = 8  # words of a request that a perfect skill is expected to have
MOST_WORDS: Final = 64  # words of a request that are looked up, the most telling ones
SHORT_REQUEST: Final = 4  # words up to which one word of it may be a declared phrase by itself
REASONS: Final = 8  # reasons given for one match
QUERY_LIMIT: Final = 20_000  # characters of a request that are read


class MatchShape(TypedDict):
    """A match as plain data, an entry of `skillyard search --json`."""

    id: str
    name: str
    confidence: float
    matched: list[str]


@dataclass(frozen=True, slots=True)
class Match:
    """A skill that fits a request, how sure that is (0 to 1), and because of what.

    Reasons are `name:`, `phrase:`, `keyword:` or `description:` and the word or phrase that the skill and the request share.
    """

    skill: Skill
    confidence: float
    matched: tuple[str, ...]

    def to_dict(self) -> MatchShape:
        """The match as plain data: `{"id", "name", "confidence", "matched"}`."""
        return {
            "id": self.skill.id,
            "name": self.skill.name,
            "confidence": self.confidence,
            "matched": list(self.matched),
        }


def search_skills(
    skills: SearchIndex | Iterable[Skill], query: str, *, limit: int = 10, min_confidence: float = 0.15
) -> list[Match]:
    """At most `limit` of `skills` that fit the request `query`, best first; only usable ones that models may call.

    Give a `SearchIndex` when there is more than one request: making it is most of the work.

    Raises:
        InvalidInput: a limit below 1, or a confidence outside 0 to 1.
    """
    if limit < 1 or not 0 <= min_confidence <= 1:
        raise InvalidInput(
            f"cannot search with limit {limit} and min_confidence {min_confidence}",
            hint="give a limit of 1 or more and a confidence from 0 to 1",
        )
    index = skills if isinstance(skills, SearchIndex) else SearchIndex(skills)
    request = _Request(index, query[:QUERY_LIMIT])
    scores = request.scores()
    best = heapq.nlargest(limit, scores, key=lambda number: (scores[number], -number))
    ranked = [
        (request.confidence(number, scores.get(number, 0.0)), number) for number in {*best, *request.named, *request.phrases}
    ]
    ranked = [(confidence, number) for confidence, number in ranked if confidence >= min_confidence and confidence > 0]
    ranked.sort(key=lambda pair: (-pair[0], -scores.get(pair[1], 0.0), pair[1]))
    return [Match(index.skills[number], confidence, request.reasons(number)) for confidence, number in ranked[:limit]]


def named_skills(skills: SearchIndex | Iterable[Skill], request: str) -> tuple[str, ...]:
    """The ids of the skills that `request` asks for by name: what `build_index` wants to know as `named`."""
    index = skills if isinstance(skills, SearchIndex) else SearchIndex(skills)
    return tuple(index.skills[number].id for number in sorted(_named(index, request[:QUERY_LIMIT])))


class _Request:
    """One request against one index: its words with their weights, and what it names outright."""

    def __init__(self, index: SearchIndex, query: str) -> None:
        self._index = index
        self._spoken = words(query)
        unique = dict.fromkeys(self._spoken)
        self._weights = {word: index.weight(word) for word in unique}
        self._ideal = sum(heapq.nlargest(TELLING, self._weights.values()))
        # Words that may be written as one in a skill: "front-end" or "front end" for frontend.
        joined = [*compounds(query), *(f"{one}{two}" for one, two in zip(self._spoken, self._spoken[1:], strict=False))]
        self._joined = {word: index.weight(word) for word in joined if word not in unique and index.postings(word)}
        self.named = _named(index, query)
        self.phrases = self._phrases()

    def scores(self) -> dict[int, float]:
        """The score of each skill that has a word of the request."""
        scores: dict[int, float] = {}
        weights = {word: weight for word, weight in self._weights.items() if self._index.postings(word)} | self._joined
        for word in heapq.nlargest(MOST_WORDS, weights, key=weights.__getitem__):
            weight = weights[word]
            for number, strength in zip(*self._index.postings(word) or ((), ()), strict=True):
                scores[number] = scores.get(number, 0.0) + weight * strength
        return scores

    def confidence(self, number: int, score: float) -> float:
        """How sure it is that the skill fits."""
        if number in self.named:
            return 1.0
        by_words = 1 - math.exp(-score / self._ideal) if self._ideal else 0.0
        return round(min(0.99, max(by_words, self.phrases.get(number, (0.0, ""))[0])), 4)

    def reasons(self, number: int) -> tuple[str, ...]:
        """What of the skill the request speaks of, strongest first."""
        skill = self._index.skills[number]
        asked = {*self._weights, *self._joined}
        found = [f"name:{skill.name}"] if number in self.named else []
        found += [f"name:{word}" for word in _spoken_as(skill.name, asked)] if not found else []
        found += [f"phrase:{self.phrases[number][1]}"] if number in self.phrases else []
        found += [f"keyword:{keyword}" for keyword in (*skill.keywords, *skill.phrases) if asked.intersection(words(keyword))]
        found += [f"description:{word}" for word in _spoken_as(skill.description[:DESCRIPTION_LIMIT], asked)]
        return tuple(dict.fromkeys(found))[:REASONS]

    def _phrases(self) -> dict[int, tuple[float, str]]:
        """The declared phrases that stand in the request, by skill, with the confidence they give."""
        found: dict[int, tuple[float, str]] = {}
        for at, word in enumerate(self._spoken):
            for number, phrase, written in self._index.phrases.get(word, ()):
                long_enough = len(phrase) > 1 or len(self._weights) <= SHORT_REQUEST
                if long_enough and tuple(self._spoken[at : at + len(phrase)]) == phrase:
                    found[number] = max(found.get(number, (0.0, "")), (0.9 if len(phrase) > 1 else 0.7, written))
        return found


def _spoken_as(text: str, asked: set[str]) -> list[str]:
    """The words of `text`, as they are written there, that mean one of `asked`."""
    return list(
        dict.fromkeys(run.lower() for run in runs(text) if asked.intersection(words(run)) or asked.intersection(compounds(run)))
    )


_SIGIL: Final = re.compile(r"(?<![\w/.:])[$/@]([\w.:-]*\w)")
_QUOTED: Final = re.compile(r"[`\"'“‘「『]([^`\"'”’」』\n]{1,100})[`\"'”’」』]")
_WRITTEN: Final = re.compile(r"[A-Za-z0-9]+(?:[-_:][A-Za-z0-9]+)+")
_CALLED: Final = re.compile(
    r"([\w.:-]*\w)[`\"'”]?\s*(?:\bskill\b|技能)|\bskill\s+(?:named\s+|called\s+)?[`\"'“]?([\w.:-]*\w)", re.IGNORECASE
)


def _named(index: SearchIndex, query: str) -> set[int]:
    """The skills that `query` is the name of, or names in a way that is not by accident."""
    candidates = {query.strip().casefold()}
    for pattern in (_SIGIL, _QUOTED, _WRITTEN, _CALLED):
        for found in pattern.finditer(query):
            candidates |= {group.strip().casefold() for group in found.groups() or (found[0],) if group}
    numbers = {number for candidate in candidates if candidate not in STOP_WORDS for number in index.known.get(candidate, ())}
    return numbers or set(index.names.get(tuple(words(query)), ()))
