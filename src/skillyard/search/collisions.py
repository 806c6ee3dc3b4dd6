"""Collisions: skills that a model would mix up, on which words, and how to tell them apart.

A model picks by names and descriptions. Two skills collide when the weight of the words they share there, each word weighted by
how few skills have it, is most of the weight of either. Only skills that share a telling word are compared.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypedDict

from skillyard.errors import SkillyardError
from skillyard.search.words import runs, words

if TYPE_CHECKING:
    from skillyard.catalog import Skill


_ALIKE: Final = 0.5  # share of the weight of both
_COMMON: Final = 0.02  # share of all skills from which a word tells nothing, and
_FEW: Final = 25  # so many skills at least
_SHOWN: Final = 6
_DESCRIPTION: Final = 2_000  # characters


class CollisionShape(TypedDict):
    """A collision as plain data."""

    skills: list[str]
    alike: float
    shared: list[str]
    apart: dict[str, list[str]]
    advice: str


@dataclass(frozen=True, slots=True)
class Collision:
    """Two skills that a model would mix up.

    `alike` is the share (0 to 1) of the weight of their words that both have; `shared` the most telling of those; `apart` has
    for each of the two, by id, words of its own text that the other does not have anywhere: what a description could say.
    """

    first: Skill
    second: Skill
    alike: float
    shared: tuple[str, ...]
    apart: Mapping[str, tuple[str, ...]]

    @property
    def advice(self) -> str:
        """How to tell the two apart."""
        says = [f"{skill.name!r} that it is for {', '.join(self.apart[skill.id])}" for skill in (self.first, self.second)
                if self.apart[skill.id]]  # fmt: skip
        if not says:
            return "their texts do not differ: remove one, or disable it"
        return f"say in the description of {', and of '.join(says)}"

    def to_dict(self) -> CollisionShape:
        """The collision as plain data."""
        return {
            "skills": [self.first.id, self.second.id],
            "alike": self.alike,
            "shared": list(self.shared),
            "apart": {key: list(value) for key, value in self.apart.items()},
            "advice": self.advice,
        }


def find_collisions(skills: Iterable[Skill]) -> list[Collision]:
    """The pairs of offered skills that a model would mix up, the most alike first."""
    offered = [skill for skill in skills if skill.offered]
    told = [Counter(words(f"{skill.name} {skill.description[:_DESCRIPTION]}")) for skill in offered]
    having = Counter(word for one in told for word in one)
    weight = {word: math.log(1 + len(offered) / count) for word, count in having.items()}
    found = [
        (alike, one, two) for one, two in _candidates(told, having) if (alike := _alike(told[one], told[two], weight)) >= _ALIKE
    ]
    found.sort(key=lambda entry: (-entry[0], entry[1], entry[2]))
    return [_collision(offered[one], offered[two], alike, told[one], told[two], weight) for alike, one, two in found]


def _candidates(told: Sequence[Counter[str]], having: Counter[str]) -> Iterable[tuple[int, int]]:
    """The pairs that share words few others have, at least a third of those of the shorter one."""
    owners: dict[str, list[int]] = defaultdict(list)
    most = max(_FEW, int(_COMMON * len(told)))
    for number, one in enumerate(told):
        for word in one:
            if 1 < having[word] <= most:
                owners[word].append(number)
    shared: Counter[tuple[int, int]] = Counter()
    for numbers in owners.values():
        shared.update((one, two) for at, one in enumerate(numbers) for two in numbers[at + 1 :])
    return [pair for pair, count in shared.items() if 3 * count >= min(len(told[pair[0]]), len(told[pair[1]]))]


def _alike(one: Counter[str], two: Counter[str], weight: Mapping[str, float]) -> float:
    both = sum(weight[word] for word in one.keys() & two.keys())
    return round(both / (sum(weight[word] for word in one.keys() | two.keys()) or 1.0), 3)


def _collision(
    first: Skill, second: Skill, alike: float, one: Counter[str], two: Counter[str], weight: Mapping[str, float]
) -> Collision:
    shared = sorted(one.keys() & two.keys(), key=lambda word: (-weight[word], word))[:_SHOWN]
    texts = [_text(first), _text(second)]
    stems = [set(words(text)) for text in texts]
    apart = {first.id: _own(texts[0], stems[1]), second.id: _own(texts[1], stems[0])}
    written = {stem: run.lower() for run in runs(f"{first.name} {first.description}") for stem in words(run)}
    return Collision(first, second, alike, tuple(written.get(word, word) for word in shared), apart)


def _text(skill: Skill) -> str:
    """Name, description and instructions; only the first two when the file cannot be read."""
    told = f"{skill.name} {skill.description[:_DESCRIPTION]}"
    try:
        return f"{told}\n{skill.document().body}"
    except (OSError, SkillyardError):
        return told


def _own(text: str, other: set[str]) -> tuple[str, ...]:
    """The words of `text`, as written, that it says most often and `other` does not have."""
    counts: Counter[str] = Counter()
    for run in runs(text):
        stems = words(run)
        if stems and len(run) > 2 and not run.isdigit() and other.isdisjoint(stems):
            counts[run.lower()] += 1
    return tuple(word for word, _ in sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))[:_SHOWN])
