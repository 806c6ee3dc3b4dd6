"""Triggers: what skills declare about when they want to be picked, and how well an intent or an event meets it.

The scores are those of ApexBridge's index (rows 000-13 and C-26), without what made it pick unrelated skills (defect D-16)::

    0.6 x the share of the skill's keywords that the intent says
    0.3 x the share of the words of its description that the intent says
    0.1   when a domain is asked for and it is the skill's
    at least 1 when the intent is a declared intent or phrase, 0.9 when a declared intent stands in it, 0.7 a phrase
    0.1 x the skill's priority on top, for skills that match at all; never more than 1

Words are compared whole and in their common form, Chinese, Japanese and Korean text by pairs of characters; `query_weather`
and `query-weather` match prose. What is declared must stand in the intent, not the other way round.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from fnmatch import fnmatchcase
from functools import partial
from typing import TYPE_CHECKING

from skillyard.errors import InvalidInput
from skillyard.search.match import Match
from skillyard.search.ranking import QUERY_LIMIT
from skillyard.search.words import in_order, words

if TYPE_CHECKING:
    from skillyard.catalog import Skill


_KEYWORDS, _DESCRIPTION, _DOMAIN, _PRIORITY = 0.6, 0.3, 0.1, 0.1
_EQUAL, _INTENT, _PHRASE = 1.0, 0.9, 0.7


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
    if limit < 1 or not 0 <= min_confidence <= 1:
        raise InvalidInput(
            f"cannot look for skills with limit {limit} and min_confidence {min_confidence}",
            hint="give a limit of 1 or more and a confidence from 0 to 1",
        )
    spoken = words(intent[:QUERY_LIMIT])
    required = [" ".join(words(keyword)) for keyword in required_keywords]
    found = [
        (confidence, skill, matched)
        for skill in skills
        if skill.offered and _has_all(skill, required)
        for confidence, matched in [_triggered(skill, spoken, domain)]
        if matched and confidence >= min_confidence
    ]
    found.sort(key=lambda entry: (-entry[0], -entry[1].priority))
    return [Match(skill, confidence, (), partial(list, matched)) for confidence, skill, matched in found[:limit]]


def match_event(skills: Iterable[Skill], event: str, *, limit: int = 10) -> list[Match]:
    """The offered `skills` that declare the event type, the highest priority first; a declared `abp.*` means every event below.

    Raises:
        InvalidInput: an empty event, or a limit below 1.
    """
    if not event.strip() or limit < 1:
        raise InvalidInput(
            f"cannot look for skills of the event {event!r} with limit {limit}",
            hint="give the type of an event, such as abp.tool_request, and a limit of 1 or more",
        )
    asked = event.strip().casefold()
    found = []
    for skill in skills:
        declared = next((kind for kind in skill.event_types if skill.offered and _is_event(kind, asked)), None)
        if declared is not None:
            exact = declared.strip().casefold() == asked
            found.append((exact, skill.priority, skill, declared))
    found.sort(key=lambda entry: (not entry[0], -entry[1]))
    return [
        Match(skill, _EQUAL if exact else _INTENT, (), partial(list, [("event", declared)]))
        for exact, _, skill, declared in found[:limit]
    ]


def _is_event(declared: str, asked: str) -> bool:
    kind = declared.strip().casefold()
    if kind.endswith(".*"):
        return asked.startswith(kind[:-1]) and fnmatchcase(asked, kind)
    return kind == asked


def _has_all(skill: Skill, required: Sequence[str]) -> bool:
    if not required:
        return True
    own = {" ".join(words(keyword)) for keyword in skill.keywords}
    return own.issuperset(required)


def _triggered(skill: Skill, spoken: Sequence[str], domain: str | None) -> tuple[float, list[tuple[str, str]]]:
    """How surely the words of an intent trigger the skill, and because of what."""
    asked, said = set(spoken), in_order(spoken)
    keywords = [keyword for keyword in skill.keywords if _stands_in(words(keyword), said)]
    told = set(words(skill.description))
    shared = sorted(told & asked)
    declared, triggers = _declared(skill, spoken)
    matched = [*triggers, *(("keyword", keyword) for keyword in keywords), *(("description", word) for word in shared)]
    confidence = _KEYWORDS * len(keywords) / max(len(skill.keywords), 1) + _DESCRIPTION * len(shared) / max(len(told), 1)
    if domain and domain.strip().casefold() == skill.domain.casefold():
        confidence += _DOMAIN
    confidence = max(confidence, declared) + (_PRIORITY * skill.priority if matched else 0.0)
    return round(min(1.0, confidence), 4), matched


def _declared(skill: Skill, spoken: Sequence[str]) -> tuple[float, list[tuple[str, str]]]:
    """The best score of the declared intents and phrases, and those that match."""
    best, found = 0.0, []
    intents, said = set(skill.intents), in_order(spoken)
    for text in skill.phrases:
        own = words(text)
        if not _stands_in(own, said):
            continue
        kind, score = ("intent", _INTENT) if text in intents else ("phrase", _PHRASE)
        best = max(best, _EQUAL if own == list(spoken) else score)
        found.append((kind, text))
    return best, found


def _stands_in(own: Sequence[str], spoken: str) -> bool:
    """Whether the words stand in what was said (as `in_order` writes it), together and in order."""
    return bool(own) and in_order(own) in spoken
