"""The index: for each word, the skills that have it and how strongly, so that a request only looks at skills with its words.

The strength of a word in a skill is BM25 over three fields (name, keywords, description), each with its own weight and usual
length. Usual lengths are fixed numbers, so that adding a skill changes nothing about the others.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from skillyard.search.words import compounds, words

if TYPE_CHECKING:
    from skillyard.catalog import Skill

__all__ = ["SearchIndex"]

DESCRIPTION_LIMIT: Final = 2000  # characters of a description that count
_K1: Final = 1.2  # how fast repeating a word stops counting
_B: Final = 0.75  # how much long texts are held back
_BACKGROUND: Final = 100  # skills imagined besides the real ones, so that few skills make no word common
_FIELDS: Final = {"name": (1.0, 3.0), "keywords": (0.6, 8.0), "description": (1.0, 30.0)}  # weight, usual length in words


class SearchIndex:
    """The skills a model may see, ready to be searched; build it once and use it for many requests.

    With `everyone` also those that no model may call, for a host that picks by itself.
    """

    def __init__(self, skills: Iterable[Skill], *, everyone: bool = False) -> None:
        # `phrases` by their first word, `names` by all their words, `known` by name, slug and id as written, without case.
        self.skills = tuple(skill for skill in skills if skill.offered or (everyone and skill.usable))
        self.phrases: dict[str, list[tuple[int, tuple[str, ...], str]]] = {}
        self.names: dict[tuple[str, ...], list[int]] = {}
        self.known: dict[str, list[int]] = {}
        self._postings: dict[str, tuple[array[int], array[float]]] = {}
        for number, skill in enumerate(self.skills):
            self._add(number, skill)

    def __len__(self) -> int:
        return len(self.skills)

    def postings(self, word: str) -> tuple[array[int], array[float]] | None:
        """The skills that have `word`, by number, and how strongly; None when no skill has it."""
        return self._postings.get(word)

    def weight(self, word: str) -> float:
        """How much `word` tells: the rarer among the skills, the more; a word that no skill has tells most."""
        found = self._postings.get(word)
        having = len(found[0]) if found else 0
        return math.log(1 + (len(self.skills) + _BACKGROUND - having + 0.5) / (having + 0.5))

    def _add(self, number: int, skill: Skill) -> None:
        name = name_words(skill)
        if name:
            self.names.setdefault(tuple(name), []).append(number)
        for written in {skill.name.casefold(), skill.slug, skill.id.casefold()}:
            self.known.setdefault(written, []).append(number)
        strengths: dict[str, float] = {}
        _strengthen(strengths, [*name, *compounds(skill.name)], "name")
        _strengthen(strengths, words(skill.description[:DESCRIPTION_LIMIT]), "description")
        if skill.keywords or skill.phrases:
            _strengthen(strengths, [word for text in (*skill.keywords, *skill.phrases) for word in words(text)], "keywords")
            self._add_phrases(number, skill.phrases)
        for word, strength in strengths.items():
            numbers, values = self._postings.get(word) or self._postings.setdefault(word, (array("L"), array("f")))
            numbers.append(number)
            values.append(strength)

    def _add_phrases(self, number: int, phrases: Sequence[str]) -> None:
        for phrase in phrases:
            if spoken := tuple(words(phrase)):
                self.phrases.setdefault(spoken[0], []).append((number, spoken, phrase))


def name_words(skill: Skill) -> list[str]:
    """The words of a skill's name; those of its slug when the name has none, and of its display name when that says more."""
    own = words(skill.name) or words(skill.slug)
    if skill.display_name and skill.display_name != skill.name:
        own += [word for word in words(skill.display_name) if word not in own]
    return own


def _strengthen(strengths: dict[str, float], found: Sequence[str], field: str) -> None:
    """Add what the words `found` in `field` are worth (BM25)."""
    weight, usual = _FIELDS[field]
    held_back = _K1 * (1 - _B + _B * len(found) / usual)
    for word, count in Counter(found).items():
        strengths[word] = strengths.get(word, 0.0) + weight * count * (_K1 + 1) / (count + held_back)
