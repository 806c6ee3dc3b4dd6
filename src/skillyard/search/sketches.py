"""Skills with nearly the same content, told by the smallest of their pairs of words.

The pairs of a skill are numbers without meaning, so the smallest of them are a fair sample. Of two skills, the share of the
smallest pairs of both together that both have says how much of their texts is the same (bottom-k sketches).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from skillyard.search.index import SearchIndex

__all__ = ["Sketches"]

_SAMPLE: Final = 64
_LEAST: Final = 24  # pairs below which a text is too short to be called the same as another
_SAME: Final = 0.7  # share of the sample


class Sketches:
    """The samples of skills that were met, to find out whether another is the same as one of them."""

    def __init__(self, index: SearchIndex) -> None:
        self._index = index
        self._met: list[tuple[int, frozenset[int]]] = []

    def add(self, place: int, number: int) -> None:
        """Remember the skill `number` at `place` in the index."""
        sample = self._sample(place)
        if len(sample) >= _LEAST:
            self._met.append((number, sample))

    def twin(self, place: int, number: int) -> int | None:
        """The number of the remembered skill that has nearly the same content; None when there is none."""
        sample = self._sample(place)
        if len(sample) < _LEAST:
            return None
        return next((other for other, met in self._met if other != number and _alike(sample, met)), None)

    def _sample(self, place: int) -> frozenset[int]:
        from skillyard.search.scoring import smallest_pairs

        return frozenset(smallest_pairs(self._index, place, _SAMPLE))


def _alike(one: frozenset[int], two: frozenset[int]) -> bool:
    both = one & two
    if len(both) < _LEAST // 2:
        return False
    smallest = sorted(one | two)[: max(len(one), len(two))]
    return sum(pair in both for pair in smallest) >= _SAME * len(smallest)
