"""Ranking: which skills fit a request, an intent or an event, how sure that is, and because of what.

Confidence, between 0 and 1::

    1                the request is the skill's name, or names it: `$pdf`, `/pdf`, "the pdf skill", `pdf-tools` as it is written
    max(0.9, …)      the words of a declared phrase or intent are in the request together and in order
    max(0.7, …)      the same for a phrase of one word in a request of at most three; unless it is the whole request, only where
                     nothing else is above it: many phrases are as common a word as "design"
    a curve          any other, at most 0.99: how often a skill with such a score was right (docs/search.md has the table)

Everything that is asked for is shown: a match is `sure` from a confidence of 0.5, the others are only the nearest there are.

Skills with nearly the same content are one match: the best of them, with the ids of the others in `duplicates`.

Triggers are the intents, phrases and events for which skills declare themselves. Their scores::

    0.6 x the share of the skill's keywords that the intent contains
    0.3 x the share of the words of its description that the intent contains
    0.1   when a domain is given and it is the skill's
    at least 1 when the intent is a declared intent or phrase, 0.9 when it contains a declared intent, 0.7 a phrase
    0.1 x the skill's priority on top, for skills that match at all; never more than 1

Words are compared whole and in their common form, Chinese, Japanese and Korean text by pairs of characters; `query_weather`
and `query-weather` match prose. The intent must contain what is declared, not the other way round.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from fnmatch import fnmatchcase
from functools import cached_property, partial
from typing import TYPE_CHECKING, Final

from skillyard.errors import InvalidInput
from skillyard.search.matches import Match, Scores
from skillyard.search.pages import DESCRIPTION_LIMIT
from skillyard.search.search_index import SearchIndex
from skillyard.search.words import STOP_WORDS, compounds, in_order, runs, words

if TYPE_CHECKING:
    from skillyard.catalog import Skill


def skill_filter(
    source: str | None = None,
    tag: str | None = None,
    domain: str | None = None,
    *,
    permission: str | None = None,
    permission_of: Callable[[Skill], str] | None = None,
) -> Callable[[Skill], bool] | None:
    """A predicate for the skills that count: all that is given must hold, without regard to case; None when all skills count.

    `permission_of` gives the permission of a skill by the rules.
    """
    criteria = [text.strip().casefold() if text else "" for text in (source, tag, domain, permission)]
    if not any(criteria):
        return None

    def counts(skill: Skill) -> bool:
        return (
            criteria[0] in ("", skill.source)
            and (not criteria[1] or criteria[1] in {one.casefold() for one in (*skill.tags, *skill.keywords)})
            and criteria[2] in ("", skill.domain.casefold())
            and (not criteria[3] or permission_of is None or permission_of(skill) == criteria[3])
        )

    return counts


_BRIEF: Final = 8  # words up to which a request that mentions a name as it is written means that skill
_MENTIONED: Final = 0.7  # what a mention in a longer request adds to a score
_NAME_SAID: Final = 6.0  # what a name adds to the score that a request of one word says, by the share of its words
_PHRASE: Final = 1.5  # what a declared phrase adds that is the whole request
_MOST: Final = 0.4  # share of a request's words from which a declared phrase determines what it is about
SHORT_REQUEST: Final = 3  # words up to which one word of it may be a declared phrase by itself
_LOOKED_AT: Final = 3  # matches for each one requested, among which nearly the same content is looked for
REASONS: Final = 8  # reasons given for one match
QUERY_LIMIT: Final = 20_000  # characters of a request that are read


def search_skills(
    skills: SearchIndex | Iterable[Skill],
    query: str,
    *,
    limit: int = 10,
    min_confidence: float = 0.0,
    only: Callable[[Skill], bool] | None = None,
) -> list[Match]:
    """The `limit` best of `skills` for the request `query`, best first; only usable ones that models may call.

    Skills that have nothing of the request are no matches; with `min_confidence` those below it are left out as well.

    Give a `SearchIndex` when there is more than one request: making it is most of the work. `only` decides which skills count.

    Raises:
        InvalidInput: a limit below 1, or a confidence outside 0 to 1.
    """
    _check_limits(limit, min_confidence)
    index = skills if isinstance(skills, SearchIndex) else SearchIndex(skills)
    request = _Request(index, query[:QUERY_LIMIT], limit=limit, only=only)
    ranked = request.ranked(min_confidence)
    return [request.match(*entry) for entry in request.grouped(ranked, limit)]


def _check_limits(limit: int, min_confidence: float) -> None:
    if limit < 1 or not 0 <= min_confidence <= 1:
        raise InvalidInput(
            f"cannot search with limit {limit} and min_confidence {min_confidence}",
            hint="give a limit of 1 or more and a confidence from 0 to 1",
        )


def named_skills(skills: SearchIndex | Iterable[Skill], request: str) -> tuple[str, ...]:
    """The ids of the skills that `request` names: the argument `named` of `build_index`."""
    index = skills if isinstance(skills, SearchIndex) else SearchIndex(skills)
    request = request[:QUERY_LIMIT]
    return tuple(index.skills[number].id for number in sorted(set.union(*_named(index, request, words(request)))))


class _Request:
    """One request against one index: its words with their weights, and what it names outright."""

    def __init__(self, index: SearchIndex, query: str, *, limit: int, only: Callable[[Skill], bool] | None) -> None:
        self._index, self._query = index, query
        self._words = words(query)
        called, mentioned = _named(index, query, self._words)
        self.named = called | mentioned if len(self._words) <= _BRIEF else called
        self.phrases = self._phrases()
        self._all_words = set(self._words)
        self._added: list[str] = []  # to those that the request says
        self._scores = self._search(query, limit, only)
        self._values = self._raised(mentioned)

    def ranked(self, least: float) -> list[tuple[float, int]]:
        """Confidence and number of each skill that may be a match, best first; confidences never rise."""
        numbers = [number for number in {*self._values, *self.named} if self._counts(number)]
        certain = {number: 1.0 if number in self.named else self._by_phrase(number) for number in numbers}
        first = {number: certain[number] if self._is_clear(number) else 0.0 for number in numbers}
        numbers.sort(key=lambda number: (-first[number], -self._values.get(number, -math.inf), number))
        by_words = self._by_words()
        ranked, last = [], 1.0
        for number in numbers:
            last = min(last, 1.0 if number in self.named else max(min(0.99, by_words.get(number, 0.0)), certain[number]))
            ranked.append((round(last, 4), number))
        return [entry for entry in ranked if entry[0] >= least]

    def grouped(self, ranked: list[tuple[float, int]], limit: int) -> list[tuple[float, int, tuple[int, ...]]]:
        """The first `limit` of them, with those of nearly the same content added to it as duplicates."""
        from skillyard.search.scoring import Sketches

        kept: list[tuple[float, int, tuple[int, ...]]] = []
        sketches = Sketches(self._index)
        for confidence, number in ranked[: _LOOKED_AT * limit]:
            position = self._positions.get(number)
            twin = None if position is None or number in self.named else sketches.twin(position, number)
            if twin is not None:
                at = next(at for at, entry in enumerate(kept) if entry[1] == twin)
                kept[at] = (kept[at][0], twin, (*kept[at][2], number))
            elif len(kept) < limit:
                kept.append((confidence, number, ()))
                if position is not None:
                    sketches.add(position, number)
        return kept

    def match(self, confidence: float, number: int, duplicates: tuple[int, ...]) -> Match:
        """The match for callers."""
        ids = tuple(self._index.skills[one].id for one in duplicates)
        return Match(self._index.skills[number], confidence, ids, self._fitting, partial(self._reasons, number), self._weight)

    @cached_property
    def _fitting(self) -> float:
        """How sure it is that any skill is meant; a name or a phrase that is most of the request leaves no doubt."""
        if self.named or any(self._by_phrase(number) for number in self.phrases) or not self._scores.numbers:
            return 1.0
        from skillyard.search.ranker import ranker

        values = [self._values[number] for number in self._scores.numbers]
        return round(ranker().fitting(values, self._scores.covered, skills=len(self._index), words=len(set(self._words))), 4)

    def _search(self, query: str, limit: int, only: Callable[[Skill], bool] | None) -> Scores:
        self._only = only
        self._positions: dict[int, int] = {}
        if not self._words or not len(self._index) or (self.named and self._index.reading):
            return Scores()  # a name is an answer while the index is being read
        from skillyard.search.ranker import score  # with it comes numpy
        from skillyard.search.scoring import expansion

        extra = expansion(self._index, query, self._words)
        self._added = [word for word, _ in extra]
        self._all_words.update(self._added)
        only_some = self._counts if only else None
        scores = score(self._index, self._words, extra, limit=limit, only=only_some)
        self._positions = dict(zip(scores.numbers, scores.positions, strict=True))
        return scores

    def _counts(self, number: int) -> bool:
        return self._only is None or self._only(self._index.skills[number])

    def _raised(self, mentioned: set[int]) -> dict[int, float]:
        """The scores, raised for skills that the request mentions and for those of which a declared phrase is in it."""
        values = dict(zip(self._scores.numbers, self._scores.values, strict=True))
        if 0 < len(self._words) <= SHORT_REQUEST:
            for number in values:
                name = set(words(self._index.skills[number].name))
                values[number] += _NAME_SAID / len(self._words) * len(name & self._all_words) / max(len(name), 1)
        lowest = min(values.values(), default=0.0)
        for number in mentioned:
            values[number] = values.get(number, lowest) + _MENTIONED
        for number, (share, _) in self.phrases.items():
            values[number] = values.get(number, lowest) + _PHRASE * share
        return values

    def _by_words(self) -> dict[int, float]:
        """The confidence of each skill by its score alone."""
        if not self._scores.numbers:
            return {}
        from skillyard.search.ranker import ranker

        values = [self._values[number] for number in self._scores.numbers]
        confidences = ranker().confidences(values, self._scores.covered, skills=len(self._index), words=len(set(self._words)))
        return dict(zip(self._scores.numbers, confidences, strict=True))

    def _by_phrase(self, number: int) -> float:
        """The confidence that a declared phrase gives by itself, where it is most of the request."""
        if number not in self.phrases:
            return 0.0
        share, written = self.phrases[number]
        if len(words(written)) == 1:
            return 0.7 if share * SHORT_REQUEST >= 1 else 0.0
        return 0.9 if share >= _MOST else 0.0

    def _is_clear(self, number: int) -> bool:
        """Whether a skill comes first whatever the others have: one that is named, or whose phrase leaves no doubt."""
        if number in self.named:
            return True
        share, written = self.phrases.get(number, (0.0, ""))
        return share >= 1 or len(words(written)) > 1

    def _reasons(self, number: int) -> list[tuple[str, str]]:
        """What the request and the skill share, strongest first."""
        skill, requested = self._index.skills[number], self._all_words
        reasons = [("name", skill.name)] if number in self.named else []
        reasons += [("name", word) for word in _words_as_written(skill.name, requested)] if not reasons else []
        reasons += [("phrase", self.phrases[number][1])] if number in self.phrases else []
        reasons += [
            ("keyword", keyword) for keyword in (*skill.keywords, *skill.phrases) if requested.intersection(words(keyword))
        ]
        reasons += [("description", word) for word in _words_as_written(skill.description[:DESCRIPTION_LIMIT], requested)]
        if len(reasons) < REASONS:
            reported = {word for _, written in reasons for word in words(written)}
            reasons += [("text", word) for word in self._in_text(number, reported)]
        return list(dict.fromkeys(reasons))[:REASONS]

    def _in_text(self, number: int, reported: set[str]) -> list[str]:
        """The words of the request that the skill has and that are not `reported` yet, as somebody writes them."""
        from skillyard.search.scoring import as_written, has_words

        position = self._positions.get(number)
        requested = [*dict.fromkeys(self._words), *self._added][:64]
        sought = [word for word in requested if word not in reported]
        if position is None or not sought:
            return []
        return as_written(self._index, self._query, has_words(self._index, position, sought))

    def _weight(self, written: str) -> float:
        """The share of the request's weight that the words `written` have."""
        own = set(words(written)) | set(compounds(written))
        return round(min(1.0, sum(share for word, share in self._shares.items() if word in own)), 3)

    @cached_property
    def _shares(self) -> dict[str, float]:
        from skillyard.search.scoring import shares

        return shares(self._index, self._words)

    def _phrases(self) -> dict[int, tuple[float, str]]:
        """The declared phrases in the request, by skill, with the share of its words that they are."""
        phrases: dict[int, tuple[float, str]] = {}
        distinct, in_request = dict.fromkeys(self._words), in_order(self._words)
        for number, phrase, written in self._index.phrases_with(self._words):
            if in_order(phrase) in in_request:
                phrases[number] = max(phrases.get(number, (0.0, "")), (min(1.0, len(phrase) / len(distinct)), written))
        return phrases


def _words_as_written(text: str, requested: set[str]) -> list[str]:
    """The words of `text`, as they are written there, that mean one of `requested`."""
    return list(
        dict.fromkeys(
            run.lower() for run in runs(text) if requested.intersection(words(run)) or requested.intersection(compounds(run))
        )
    )


_SIGIL: Final = re.compile(r"(?<![\w/.:`'\"(])[$/@](?!\d+\b)([\w.:-]*\w)(?![\w/])")
_QUOTED: Final = re.compile(r"`([^`\n]{1,100})`")
_WRITTEN: Final = re.compile(r"(?<![A-Za-z0-9])[A-Za-z0-9]++(?:[-_:][A-Za-z0-9]++)++")
_CALLED: Final = re.compile(
    r"(?<![\w.:-])([\w.:-]*\w)[`\"'”]?\s*(?:\bskill\b|技能)|\bskill\s+(?:named\s+|called\s+)?[`\"'“]?([\w.:-]*\w)",
    re.IGNORECASE,
)


def _named(index: SearchIndex, query: str, request_words: Sequence[str]) -> tuple[set[int], set[int]]:
    """The skills that `query` calls (`$pdf`, "the pdf skill", or nothing but the name), and those that it mentions besides.

    A mention is a name in quotes or with hyphens: long requests quote and hyphenate much that is no name.
    """
    called = _matching_names(index, (_SIGIL, _CALLED), query, query.strip().casefold())
    mentioned = _matching_names(index, (_QUOTED, _WRITTEN), query)
    return called or (set() if mentioned else set(index.named(request_words))), mentioned


def _matching_names(index: SearchIndex, patterns: Sequence[re.Pattern[str]], query: str, *more: str) -> set[int]:
    """The skills whose names the patterns find."""
    candidates = set(more)
    for pattern in patterns:
        for hit in pattern.finditer(query):
            candidates |= {group.strip().casefold() for group in hit.groups() or (hit[0],) if group}
    return index.written_as(candidates - STOP_WORDS - {""})


_KEYWORDS, _DESCRIPTION, _DOMAIN, _PRIORITY = 0.6, 0.3, 0.1, 0.1
_EQUAL, _INTENT, _DECLARED_PHRASE = 1.0, 0.9, 0.7


def find_relevant_skills(
    skills: Iterable[Skill],
    intent: str,
    *,
    limit: int = 3,
    min_confidence: float = 0.15,
    domain: str | None = None,
    required_keywords: Collection[str] = (),
) -> list[Match]:
    """At most `limit` of the offered `skills` that `intent` triggers, the surest first, then by priority and order.

    With `required_keywords` only skills that have all of them among their keywords. A domain alone makes no match.

    Raises:
        InvalidInput: a limit below 1, or a confidence outside 0 to 1.
    """
    _check_limits(limit, min_confidence)
    request_words = words(intent[:QUERY_LIMIT])
    required = [" ".join(words(keyword)) for keyword in required_keywords]
    matches = [
        (confidence, skill, matched)
        for skill in skills
        if skill.offered and _has_all(skill, required)
        for confidence, matched in [_triggered(skill, request_words, domain)]
        if matched and confidence >= min_confidence
    ]
    matches.sort(key=lambda entry: (-entry[0], -entry[1].priority))
    return [Match(skill, confidence, _why=partial(list, matched)) for confidence, skill, matched in matches[:limit]]


def match_event(skills: Iterable[Skill], event: str, *, limit: int = 10, internal: bool = False) -> list[Match]:
    """The offered `skills` that declare the event type, the highest priority first; a declared `abp.*` means every event below.

    With `internal` also those of that kind, which no model may call.

    Raises:
        InvalidInput: an empty event, or a limit below 1.
    """
    if not event.strip() or limit < 1:
        raise InvalidInput(
            f"cannot search for skills of the event {event!r} with limit {limit}",
            hint="give the type of an event, such as abp.tool_request, and a limit of 1 or more",
        )
    requested = event.strip().casefold()
    matches = []
    for skill in skills:
        if not (skill.offered or (internal and skill.status == "ok" and skill.kind == "internal")):
            continue
        declared = next((kind for kind in skill.event_types if _is_event(kind, requested)), None)
        if declared is not None:
            exact = declared.strip().casefold() == requested
            matches.append((exact, skill.priority, skill, declared))
    matches.sort(key=lambda entry: (not entry[0], -entry[1]))
    return [
        Match(skill, _EQUAL if exact else _INTENT, _why=partial(list, [("event", declared)]))
        for exact, _, skill, declared in matches[:limit]
    ]


def _is_event(declared: str, requested: str) -> bool:
    kind = declared.strip().casefold()
    if kind.endswith(".*"):
        return requested.startswith(kind[:-1]) and fnmatchcase(requested, kind)
    return kind == requested


def _has_all(skill: Skill, required: Sequence[str]) -> bool:
    return not required or {" ".join(words(keyword)) for keyword in skill.keywords}.issuperset(required)


def _triggered(skill: Skill, request_words: Sequence[str], domain: str | None) -> tuple[float, list[tuple[str, str]]]:
    """How surely the words of an intent trigger the skill, and because of what."""
    requested, in_request = set(request_words), in_order(request_words)
    keywords = [keyword for keyword in skill.keywords if _contains(in_request, words(keyword))]
    description = set(words(skill.description))
    shared = sorted(description & requested)
    declared, triggers = _declared(skill, request_words)
    matched = [*triggers, *(("keyword", keyword) for keyword in keywords), *(("description", word) for word in shared)]
    confidence = _KEYWORDS * len(keywords) / max(len(skill.keywords), 1) + _DESCRIPTION * len(shared) / max(len(description), 1)
    if domain and domain.strip().casefold() == skill.domain.casefold():
        confidence += _DOMAIN
    confidence = max(confidence, declared) + (_PRIORITY * skill.priority if matched else 0.0)
    return round(min(1.0, confidence), 4), matched


def _declared(skill: Skill, request_words: Sequence[str]) -> tuple[float, list[tuple[str, str]]]:
    """The best score of the declared intents and phrases, and those that match."""
    best, matches = 0.0, []
    intents, in_request = set(skill.intents), in_order(request_words)
    for text in skill.phrases:
        own = words(text)
        if not _contains(in_request, own):
            continue
        kind, score = ("intent", _INTENT) if text in intents else ("phrase", _DECLARED_PHRASE)
        best = max(best, _EQUAL if own == list(request_words) else score)
        matches.append((kind, text))
    return best, matches


def _contains(in_request: str, own: Sequence[str]) -> bool:
    """Whether the request (as `in_order` writes it) contains the words together and in order."""
    return bool(own) and in_order(own) in in_request
