"""Scores: how well each skill of an index fits the words of a request, and which skills are near-duplicates.

First every skill that has a word of the request gets a BM25 sum over those words. Then the best of them are scored in detail:
how much of the skill's name the request contains, and which words follow each other in the skill as well. Near-duplicates are
recognized by the smallest of their word pairs (bottom-k sketches). docs/search.md describes how the weights were chosen.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from skillyard.search.match import Scores
from skillyard.search.pages import word_number
from skillyard.search.postings import STEP, pairs_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from skillyard.search.index import SearchIndex
    from skillyard.search.postings import Postings


MOST_WORDS: Final = 48  # words of a request that are looked up, the rarest ones
MOST_CLOSE: Final = 100  # skills that are scored in detail
_BACKGROUND: Final = 100  # added to the number of skills, so that no word is common in a small catalog
_IDEAL_WORDS: Final = 10  # words of a request that a perfect skill is expected to have
_FEW: Final = 5  # the rarest words
_COVERED, _COVERED_FEW = 3.0, 2.0  # for having all words of the request, and all of the rarest ones
_NAME_MATCH, _PAIRS, _LONG = 2.2, 4.0, 0.4
_USUAL_LENGTH: Final = 150  # words of a body up to which it is not held back


class _Terms(NamedTuple):
    numbers: NDArray[np.uint32]
    weights: NDArray[np.float64]  # by how many skills have the word at all
    described: NDArray[np.float64]  # by how many have it in name or description


def score(
    index: SearchIndex,
    query_words: Sequence[str],
    extra: Sequence[tuple[str, float]] = (),
    *,
    limit: int = 10,
    only: Callable[[int], bool] | None = None,
    translated: bool = False,
) -> Scores:
    """The best skills for the words `query_words` (in order), at least `limit` of them if there are; `only` decides by number.

    `extra` words count by their factor and may be in no skill. When some of them are `translated`, words of the request itself
    may be in no skill either.
    """
    counts = Counter(map(word_number, query_words))
    if not index.skills or not (counts or extra):
        return Scores()
    own = np.fromiter(counts, np.uint32, len(counts))
    often = np.sqrt(np.fromiter(counts.values(), np.float64, len(counts)))
    terms = _terms(index, own, often, indexed_only=translated)
    numbers = np.array([word_number(word) for word, _ in extra], dtype=np.uint32)
    more = _terms(index, numbers, np.array([factor for _, factor in extra], dtype=np.float64), indexed_only=True)
    everything = np.concatenate([terms.numbers, more.numbers])
    best = np.argsort(-np.concatenate([terms.weights, more.weights]), kind="stable")[:MOST_WORDS]
    all_terms = _Terms(
        everything[best],
        np.concatenate([terms.weights, more.weights])[best],
        np.concatenate([terms.described, more.described])[best],
    )
    ideal = terms if len(own) and not translated else all_terms
    sums, covered = _summed(index, all_terms, ideal)
    positions = np.flatnonzero((covered > 0) & (index.numbers >= 0))
    if only:
        positions = positions[
            np.fromiter((only(number) for number in index.numbers[positions].tolist()), np.bool_, len(positions))
        ]
    if len(positions) > (most := max(MOST_CLOSE, 3 * limit)):
        positions = positions[np.argpartition(-sums[positions], most - 1)[:most]]
    values = sums[positions] + _close_scores(index, positions, all_terms, query_words, ideal)
    numbers = index.numbers[positions]
    order = np.lexsort((numbers, -values))
    share = np.minimum(1.0, covered[positions] / max(float(ideal.weights.sum()), 1e-9))
    return Scores(numbers[order].tolist(), values[order].tolist(), share[order].tolist(), positions[order].tolist())


def has_words(index: SearchIndex, position: int, query_words: Sequence[str]) -> list[str]:
    """Those of the words that the skill at `position` has in any field."""
    postings, local = _postings_of(index, position)
    begin, end = _slices(postings, np.array([word_number(word) for word in query_words], dtype=np.uint32))
    where = [int(one + np.searchsorted(postings.skills[one:two], local)) for one, two in zip(begin, end, strict=True)]
    return [word for word, at, two in zip(query_words, where, end, strict=True) if at < two and postings.skills[at] == local]


def missing(index: SearchIndex, query_words: Sequence[str]) -> bool:
    """Whether one of the words is in no skill."""
    having, _ = _having(index, np.array([word_number(word) for word in query_words], dtype=np.uint32))
    return not having.all()


def shares(index: SearchIndex, query_words: Sequence[str]) -> dict[str, float]:
    """The share of the request's weight that each of its words has."""
    counts = Counter(map(word_number, query_words))
    numbers = {word: word_number(word) for word in query_words}
    often = np.sqrt(np.array([counts[number] for number in numbers.values()], dtype=np.float64))
    terms = _terms(index, np.array(list(numbers.values()), dtype=np.uint32), often)
    whole = max(float(terms.weights.sum()), 1e-9)
    return {word: float(weight) / whole for word, weight in zip(numbers, terms.weights, strict=True)}


def _postings_of(index: SearchIndex, position: int) -> tuple[Postings, int]:
    """The postings of the segment that the skill at `position` is in, and its number there."""
    for segment in index.segments:
        if position < segment.postings.count:
            return segment.postings, position
        position -= segment.postings.count
    raise IndexError(position)


def _terms(
    index: SearchIndex, numbers: NDArray[np.uint32], factors: NDArray[np.float64], *, indexed_only: bool = False
) -> _Terms:
    having, described = _having(index, numbers)
    if indexed_only:
        factors = factors * (having > 0)
    return _Terms(numbers, _rarity(index, having) * factors, _rarity(index, described) * factors)


def _rarity(index: SearchIndex, having: NDArray[np.int64]) -> NDArray[np.float64]:
    count = len(index.skills) + _BACKGROUND
    rarity: NDArray[np.float64] = np.log(1 + (np.maximum(count - having, 0) + 0.5) / (having + 0.5))
    return rarity


def _slices(postings: Postings, numbers: NDArray[np.uint32]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where the postings of each word begin and end; nothing for one that is not there."""
    if not len(postings.words):
        empty = np.zeros(len(numbers), np.int64)
        return empty, empty
    at = np.minimum(np.searchsorted(postings.words, numbers), len(postings.words) - 1)
    begin = postings.starts[at]
    return begin, np.where(postings.words[at] == numbers, postings.starts[at + 1], begin)


def _having(index: SearchIndex, numbers: NDArray[np.uint32]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """How many skills have each word, and how many in name or description."""
    having, described = np.zeros(len(numbers), np.int64), np.zeros(len(numbers), np.int64)
    for segment in index.segments:
        begin, end = _slices(segment.postings, numbers)
        having += end - begin
        counted = [np.count_nonzero(segment.postings.described[one:two]) for one, two in zip(begin, end, strict=True)]
        described += np.array(counted, dtype=np.int64)
    return having, described


def _summed(index: SearchIndex, terms: _Terms, ideal: _Terms) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The score of the first step for every skill of every segment, and the weight of the words it has."""
    top = np.sort(ideal.weights)[::-1]
    by_plain = terms.weights * STEP / max(float(top[:_IDEAL_WORDS].sum()), 1e-9)
    by_described = terms.described * STEP / max(float(np.sort(ideal.described)[::-1][:_IDEAL_WORDS].sum()), 1e-9)
    share = terms.weights / max(float(top.sum()), 1e-9)
    few = np.where(terms.weights >= top[:_FEW][-1], terms.weights, 0) / max(float(top[:_FEW].sum()), 1e-9)
    had = _COVERED * share + _COVERED_FEW * few
    sums, covered = [], []
    for segment in index.segments:
        postings = segment.postings
        begin, end = _slices(postings, terms.numbers)
        lengths = end - begin
        chosen = np.repeat(begin - np.concatenate([[0], np.cumsum(lengths)[:-1]]), lengths) + np.arange(int(lengths.sum()))
        skills, described = postings.skills[chosen], postings.described[chosen]
        value = postings.plain[chosen] * np.repeat(by_plain, lengths) + np.repeat(had, lengths)
        value += described * np.repeat(by_described, lengths)
        total = np.bincount(skills, weights=value, minlength=postings.count)
        sums.append(total - _LONG * np.log(np.maximum(postings.lengths, _USUAL_LENGTH) / _USUAL_LENGTH))
        covered.append(np.bincount(skills, weights=np.repeat(terms.weights, lengths), minlength=postings.count))
    return np.concatenate(sums), np.concatenate(covered)


def _close_scores(
    index: SearchIndex, positions: NDArray[np.int64], terms: _Terms, query_words: Sequence[str], ideal: _Terms
) -> NDArray[np.float64]:
    """The score that the second step adds, for each skill at `positions`."""
    weight_of = dict(zip(terms.numbers.tolist(), terms.weights.tolist(), strict=True))
    pairs, worth = _request_pairs(query_words, weight_of)
    worth = worth * (_PAIRS / max(float(np.sort(ideal.weights)[::-1][:_IDEAL_WORDS].sum()), 1e-9))
    names: list[NDArray[np.uint32]] = []
    added = np.zeros(len(positions))
    bounds = np.cumsum([0, *(segment.postings.count for segment in index.segments)])
    segment_of = np.searchsorted(bounds, positions, side="right") - 1
    for number, segment in enumerate(index.segments):
        here = np.flatnonzero(segment_of == number)
        added[here] = _pairs_worth(segment.postings, positions[here] - bounds[number], pairs, worth)
    for position, number in zip(positions.tolist(), segment_of.tolist(), strict=True):
        postings, local = index.segments[number].postings, position - int(bounds[number])
        names.append(postings.names[postings.name_starts[local] : postings.name_starts[local + 1]])
    return added + _NAME_MATCH * _name_shares(index, names, terms)


def _pairs_worth(
    postings: Postings, positions: NDArray[np.int64], pairs: NDArray[np.uint32], worth: NDArray[np.float64]
) -> NDArray[np.float64]:
    """What the pairs that each of the skills at `positions` has are worth together."""
    if not len(pairs) or not len(positions):
        return np.zeros(len(positions))
    begin, lengths = postings.pair_starts[positions], np.diff(postings.pair_starts)[positions]
    chosen = np.repeat(begin - np.concatenate([[0], np.cumsum(lengths)[:-1]]), lengths) + np.arange(int(lengths.sum()))
    owners = np.arange(len(positions), dtype=np.uint64) << np.uint64(32)
    has = np.repeat(owners, lengths) | postings.pairs[chosen]  # sorted: by skill, and within one by pair
    requested = owners[:, None] | pairs[None, :].astype(np.uint64)
    at = np.minimum(np.searchsorted(has, requested.ravel()), max(len(has) - 1, 0))
    hits = (has[at] == requested.ravel()).reshape(requested.shape) if len(has) else np.zeros(requested.shape, np.bool_)
    result: NDArray[np.float64] = hits @ worth
    return result


def _request_pairs(query_words: Sequence[str], weight_of: dict[int, float]) -> tuple[NDArray[np.uint32], NDArray[np.float64]]:
    """The pairs of words that follow each other in the request, and what each is worth."""
    numbers = np.array([word_number(word) for word in query_words], dtype=np.uint32)
    if len(numbers) < 2:
        return np.zeros(0, np.uint32), np.zeros(0)
    weights = np.array([weight_of.get(number, 0.0) for number in numbers.tolist()])
    pairs, first = np.unique(pairs_of(numbers), return_index=True)
    return pairs, np.minimum(weights[:-1], weights[1:])[first]


def _name_shares(index: SearchIndex, names: Sequence[NDArray[np.uint32]], terms: _Terms) -> NDArray[np.float64]:
    """The share of each name, by the weight of its words, that the request contains."""
    lengths = np.array([len(name) for name in names], dtype=np.int64)
    words: Any = np.concatenate([*names, np.zeros(0, np.uint32)])
    unique, back = np.unique(words, return_inverse=True)
    weights = _rarity(index, _having(index, unique)[1])[back]
    owners = np.repeat(np.arange(len(names)), lengths)
    whole = np.bincount(owners, weights=weights, minlength=len(names))
    matched = np.bincount(owners, weights=weights * np.isin(words, terms.numbers), minlength=len(names))
    share: NDArray[np.float64] = matched / np.maximum(whole, 1e-9)
    return share


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
        postings, local = _postings_of(self._index, position)
        begin, end = postings.pair_starts[local : local + 2].tolist()
        return frozenset(postings.pairs[begin : min(begin + _SAMPLE, end)].tolist())


def _alike(one: frozenset[int], two: frozenset[int]) -> bool:
    both = one & two
    if len(both) < _LEAST // 2:
        return False
    smallest = sorted(one | two)[: max(len(one), len(two))]
    return sum(pair in both for pair in smallest) >= _SAME * len(smallest)
