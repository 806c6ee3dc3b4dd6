"""Sketches: which skills have nearly the same content, by the smallest of their word pairs (bottom-k)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from skillyard.search.scoring import postings_of

if TYPE_CHECKING:
    from skillyard.search.index import SearchIndex


_SAMPLE: Final = 64
_LEAST: Final = 24  # a text with fewer pairs is too short to be compared
_SAME: Final = 0.7  # share of the sample


class Sketches:
    """The samples of the skills added so far, to recognize another with nearly the same content."""

    def __init__(self, index: SearchIndex) -> None:
        self._index = index
        self._samples: list[tuple[int, frozenset[int]]] = []

    def add(self, position: int, number: int) -> None:
        """Remember the skill `number` at `position` in the index."""
        sample = self._sample(position)
        if len(sample) >= _LEAST:
            self._samples.append((number, sample))

    def twin(self, position: int, number: int) -> int | None:
        """The number of the remembered skill that has nearly the same content; None when there is none."""
        sample = self._sample(position)
        if len(sample) < _LEAST:
            return None
        return next((other for other, earlier in self._samples if other != number and _alike(sample, earlier)), None)

    def _sample(self, position: int) -> frozenset[int]:
        postings, local = postings_of(self._index, position)
        begin, end = postings.pair_starts[local : local + 2].tolist()
        return frozenset(postings.pairs[begin : min(begin + _SAMPLE, end)].tolist())


def _alike(one: frozenset[int], two: frozenset[int]) -> bool:
    both = one & two
    if len(both) < _LEAST // 2:
        return False
    smallest = sorted(one | two)[: max(len(one), len(two))]
    return sum(pair in both for pair in smallest) >= _SAME * len(smallest)
