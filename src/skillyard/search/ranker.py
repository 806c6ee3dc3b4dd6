"""The ranker: each candidate of a request as a row of numbers, and its score by trees that were learned once.

Nearly every feature is a share or a ratio, so that a request of three words and one of three hundred, a catalog of ten skills
and one of ten thousand, look alike. `FEATURES` names the columns. `ranker.npz` holds the trees of a gradient-boosted model as
arrays, so that numpy alone evaluates it, and the curve of the confidence. `python -m benchmarks.search.train` learns both from
public skills and requests; nothing of their text is in it.
"""

from __future__ import annotations

from functools import cache
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from zipimport import zipimporter

import numpy as np
from numpy.lib.format import read_array

from skillyard.search.matches import Scores
from skillyard.search.pages import word_number
from skillyard.search.postings import K1, PLACES, STEP, pairs_of
from skillyard.search.scoring import MOST_CLOSE, NAME, find_candidates, name_rarity, name_strengths, ranges, request_terms

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from skillyard.search.postings import Postings
    from skillyard.search.scoring import Candidates, Terms
    from skillyard.search.search_index import SearchIndex


_PAIRS: Final = ("pairs", "pairs_near", "pairs_loose", "pairs_close", "pairs_bare", "pair_best")
_CLAUSES: Final = ("clause", "clause_mostly", "clause_whole", "clauses")
_MEASURES: Final = (
    "sum", "counted", "described", "body", "named", "body_once", "close", "close_described", "either",
    "any", "in_description", "in_body", "in_name", "in_keywords", "in_headings", "in_files", "few",
    "rarest", "rarest_described", "name_share", "near_clear", "close_clear", "heavy_clear", "heavy", *_PAIRS, *_CLAUSES,
)  # fmt: skip
_FORMS: Final = ("share", "of_best", "above_next", "rank")
FEATURES: Final = (
    *(f"{name}_{form}" for form in _FORMS for name in _MEASURES), "name_whole", "request_length", "added"
)  # fmt: skip
"""The columns, in their order. None says how long a skill's texts are: that would tell collections apart, not what fits.

A measure "near" weighs each word by how rare it is among the candidates, one "close" among the first of them, one "heavy" by
the square of its rarity; "clear" is the share of the words that are in name, keywords or description.
"""

RISING: Final = frozenset(FEATURES) - {"request_length", "added"}
"""The columns of which more never makes a candidate worse."""
BASE: Final = FEATURES.index("sum_of_best")
"""The column that the trees correct."""
_IDEAL_WORDS: Final = 10  # words of a request that a perfect skill is expected to have
_FEW: Final = 5  # the rarest words
_CLOSE: Final = 20  # the first candidates
_FARTHEST: Final = 3  # apart are two words of a request at most that make a pair
_CLEAR: Final = PLACES["name"] | PLACES["keywords"]
_EQUAL: Final = 1e-5  # of the best: two values with no more between them have the same rank


def candidate_features(
    index: SearchIndex, candidates: Candidates, terms: Terms, query_words: Sequence[str]
) -> NDArray[np.float32]:
    """One row for each candidate, one column for each of `FEATURES`."""
    described, body, places = candidates.table.described * STEP, candidates.table.body * STEP, candidates.table.places
    names = _names(index, candidates.positions)
    name_lengths = np.array([len(name) for name in names], dtype=np.int64)
    named = (places & PLACES["name"] > 0) * name_strengths(name_lengths)[:, None]
    once = np.minimum(terms.often, 1.0)
    weights = once * terms.rarity
    in_description, in_body, clear = described > 0, body > 0, (described > 0) | (places & _CLEAR > 0)
    anywhere = in_description | in_body | (places > 0)
    by_description, by_body = once * terms.described, once * terms.body
    counted, counted_body = terms.often * terms.described, terms.often * terms.body
    first = np.argsort(-candidates.sums, kind="stable")[:MOST_CLOSE]  # the others are compared with these
    few_first = first[:_CLOSE]
    close, close_body = _among(clear[few_first], once), _among(in_body[few_first], once)
    either = np.maximum(described * by_description, body * by_body).sum(axis=1)
    of_name = NAME * (named @ (terms.often * terms.named))
    few = np.where(weights >= np.sort(weights)[::-1][:_FEW][-1], weights, 0)
    top, best = max(float(weights.max()), 1e-9), max(float(np.sort(weights)[::-1][:_FEW].sum()), 1e-9)
    share = _name_shares(index, names, terms)
    measures = [
        candidates.sums / _ideal(by_description + by_body),
        (described @ counted + body @ counted_body + of_name) / _ideal(counted + counted_body),
        described @ counted / _ideal(counted),
        body @ counted_body / _ideal(counted_body),
        named @ (terms.often * terms.named) / _ideal(terms.often * terms.named),
        body @ by_body / _ideal(by_body),
        (described @ close + body @ close_body) / _ideal(close + close_body),
        described @ close / _ideal(close),
        either / _ideal(np.maximum(by_description, by_body)),
        *(_share(one, weights) for one in (anywhere, in_description, in_body)),
        *(_share(places & PLACES[place] > 0, weights) for place in ("name", "keywords", "headings", "files")),
        _share(anywhere, few),
        *((one * weights).max(axis=1) / top for one in (anywhere, in_description)),
        share,
        _share(clear, _among(clear[first], once)),
        _share(clear, close),
        _share(clear, weights**2),
        _share(anywhere, weights**2),
        *_pairs(index, candidates.positions, first, terms, query_words),
        *(values / best for values in _clauses(index, candidates.positions, terms)),
    ]
    whole = (share > 0.999) & (name_lengths > 0)
    long = np.full(len(share), np.log1p(len(terms.numbers)))
    rest = np.stack([whole, long, _share(anywhere & ~terms.own, weights)])
    table: NDArray[np.float32] = np.concatenate([_forms(np.stack(measures).astype(np.float32), first), rest]).T.astype(
        np.float32
    )
    return table


def _among(has: NDArray[np.bool_], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """The weight of each word times how rare it is among these candidates."""
    count = has.sum(axis=0)
    rarity: NDArray[np.float64] = np.log(1 + (len(has) - count + 0.5) / (count + 0.5))
    return rarity * weights


def _share(has: NDArray[np.bool_], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """The share of the weight that the words of each candidate have."""
    share: NDArray[np.float64] = has @ weights / max(float(weights.sum()), 1e-9)
    return share


def _ideal(weights: NDArray[np.float64]) -> float:
    """The score of a skill that has the heaviest words as strongly as can be."""
    return _largest(weights) * (K1 + 1)


def _largest(weights: NDArray[np.float64]) -> float:
    return max(float(np.sort(weights)[::-1][:_IDEAL_WORDS].sum()), 1e-9)


def _forms(measures: NDArray[np.float32], first: NDArray[np.int64]) -> NDArray[np.float32]:
    """Each measure as it is, as a share of the best, how far it is above the best of the others, and by its rank (1, 1/2, …).

    All that is compared with is the `first` candidates, so that it is the same with more of the others.
    """
    ordered = np.sort(measures[:, first], axis=1)
    best, second = ordered[:, -1:], ordered[:, -2:-1] if len(first) > 1 else np.zeros_like(ordered)
    whole = np.maximum(best, np.float32(1e-9))
    other = np.where(measures >= best, second, best)
    above = [
        len(first) - one.searchsorted(values + _EQUAL * most, side="right")
        for one, values, most in zip(ordered, measures, best[:, 0], strict=True)
    ]
    rank = np.where(measures > 0, 1 / (1 + np.stack(above)), 0)
    return np.concatenate([measures, measures / whole, (measures - other) / whole, rank])


def _names(index: SearchIndex, positions: NDArray[np.int64]) -> list[NDArray[np.uint32]]:
    """The different words of the name of each candidate."""
    names: list[NDArray[np.uint32]] = [np.zeros(0, np.uint32)] * len(positions)
    for postings, here, local in parts_of(index, positions):
        for row, number in zip(here.tolist(), local.tolist(), strict=True):
            own = postings.names[postings.name_starts[number] : postings.name_starts[number + 1]].tolist()
            names[row] = np.array(sorted({*own}), np.uint32)  # `np.unique` would import masked arrays, for 15 ms
    return names


def parts_of(index: SearchIndex, positions: NDArray[np.int64]) -> list[tuple[Postings, NDArray[np.int64], NDArray[np.int64]]]:
    """The positions by segment: its postings, which of the positions are there, and their numbers in it."""
    bounds = np.cumsum([0, *(segment.postings.skill_count for segment in index.segments)])
    where = np.searchsorted(bounds, positions, side="right") - 1
    result = []
    for number, segment in enumerate(index.segments):
        here = np.flatnonzero(where == number)
        if len(here):
            result.append((segment.postings, here, positions[here] - bounds[number]))
    return result


def _name_shares(index: SearchIndex, names: Sequence[NDArray[np.uint32]], terms: Terms) -> NDArray[np.float64]:
    """The share of each name, by the weight of its words, that the request contains."""
    lengths = np.array([len(name) for name in names], dtype=np.int64)
    words: Any = np.concatenate([*names, np.zeros(0, np.uint32)])
    unique, back = np.unique(words, return_inverse=True)
    weights = name_rarity(index, unique)[back]
    owners = np.repeat(np.arange(len(names)), lengths)
    whole = np.bincount(owners, weights=weights, minlength=len(names))
    said = terms.numbers[terms.often > 0]
    matched = np.bincount(owners, weights=weights * np.isin(words, said), minlength=len(names))
    share: NDArray[np.float64] = matched / np.maximum(whole, 1e-9)
    return share


def _pairs(
    index: SearchIndex, positions: NDArray[np.int64], first: NDArray[np.int64], terms: Terms, query_words: Sequence[str]
) -> list[NDArray[np.float64]]:
    """What the texts of each skill have of the pairs of words of the request, a number for each of `_PAIRS`.

    The weight of the pairs that follow each other in both; the same by how few of the `first` have each; that of all pairs
    with at most two words between them in the request, in either order; the same by how few of the very first have each, and
    by nothing but how few have each; the weightiest.
    """
    numbers = np.array([word_number(word) for word in query_words], dtype=np.uint32)
    if len(numbers) < 2:
        return [np.zeros(len(positions)) for _ in _PAIRS]
    weight_of = dict(zip(terms.numbers.tolist(), terms.rarity.tolist(), strict=True))
    weights = np.array([weight_of.get(number, 0.0) for number in numbers.tolist()])
    pairs, worth, adjacent = _asked_pairs(numbers, weights)
    has = np.zeros((len(positions), len(pairs)), np.bool_)
    for postings, here, local in parts_of(index, positions):
        owners, owned = _owned_pairs(postings, local, pairs)
        has[here[owners], owned] = True
    known = has[first].any(axis=0)
    has, worth, adjacent, few = has[:, known], worth[known], adjacent[known], first[:_CLOSE]
    bare = _among(has[first], np.ones(len(worth)))
    rare, close = bare * worth, _among(has[few], worth * has[few].any(axis=0))
    whole = _largest(rare)
    return [
        has @ (worth * adjacent) / _largest(terms.rarity),
        has @ (rare * adjacent) / whole,
        has @ rare / whole,
        has @ close / _largest(close),
        has @ bare / len(pairs),
        (has * rare).max(axis=1, initial=0) / max(float(rare.max(initial=0)), 1e-9),
    ]


def _asked_pairs(
    numbers: NDArray[np.uint32], weights: NDArray[np.float64]
) -> tuple[NDArray[np.uint32], NDArray[np.float64], NDArray[np.bool_]]:
    """The different pairs of a request with the weight of the lighter word, and whether its words follow each other so."""
    pairs, worth = [], []
    for gap in range(1, min(_FARTHEST, len(numbers) - 1) + 1):
        one, two, lighter = numbers[:-gap], numbers[gap:], np.minimum(weights[:-gap], weights[gap:])
        pairs += [pairs_of(np.stack(both, axis=1).ravel())[::2] for both in ((one, two), (two, one))]
        worth += [lighter, lighter]
    unique, first = np.unique(np.concatenate(pairs), return_index=True)
    return unique, np.concatenate(worth)[first], first < len(numbers) - 1


_LOW: Final = np.uint32(0xFFFF)


def _owned_pairs(
    postings: Postings, local: NDArray[np.int64], pairs: NDArray[np.uint32]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Which of the skills has which of the pairs, both by their place in the list."""
    begin, end = postings.pair_starts[local], postings.pair_starts[local + 1]
    owned = np.concatenate([postings.pairs[one:two] for one, two in zip(begin.tolist(), end.tolist(), strict=True)])
    likely = np.zeros(_LOW + 1, np.bool_)  # by the lower bits of a pair: most of them are none of these
    likely[pairs & _LOW] = True
    found = np.flatnonzero(likely[owned & _LOW])
    at = np.minimum(np.searchsorted(pairs, owned[found]), len(pairs) - 1)
    (hits,) = np.nonzero(pairs[at] == owned[found])
    return np.searchsorted(np.cumsum(end - begin), found[hits], side="right"), at[hits]


_ADDED: Final = 0.6  # what a word counts in a clause that the request does not say itself
_ALL: Final = 0.99  # share of a clause's weight that is all of it
_BEST_CLAUSES: Final = 3


def _clauses(index: SearchIndex, positions: NDArray[np.int64], terms: Terms) -> list[NDArray[np.float64]]:
    """What the clauses of each description have of the request, four numbers for each of the candidates.

    A clause is worth the weight of the words that the request says, times the share of its own weight that they are: the best
    clause; the best with that share squared; the best that the request says whole; the three best together. The second and
    third are of clauses of two words or more.
    """
    result = [np.zeros(len(positions)) for _ in _CLAUSES]
    order = np.argsort(terms.numbers)
    asked, factors = terms.numbers[order], np.where(terms.own, 1.0, _ADDED)[order]
    for postings, here, local in parts_of(index, positions):
        begin, lengths = postings.said_starts[local], postings.said_starts[local + 1] - postings.said_starts[local]
        said = postings.said[ranges(begin, lengths)]
        ends = said == 0
        clause = np.cumsum(ends) - ends
        owner = here[np.repeat(np.arange(len(local)), lengths)[ends]]
        words, clause = said[~ends], clause[~ends]
        if not len(words):
            continue
        unique, back = np.unique(words, return_inverse=True)
        at = np.minimum(np.searchsorted(asked, unique), len(asked) - 1)
        rarity = name_rarity(index, unique)
        had = np.where(asked[at] == unique, factors[at], 0.0) * rarity
        whole = np.bincount(clause, weights=rarity[back], minlength=len(owner))
        weight = np.bincount(clause, weights=had[back], minlength=len(owner))
        several = np.bincount(clause, minlength=len(owner)) > 1
        share = weight / np.maximum(whole, 1e-9)
        worth = weight * share
        np.maximum.at(result[0], owner, worth)
        np.maximum.at(result[1], owner, np.where(several, worth * share, 0.0))
        np.maximum.at(result[2], owner, np.where(several & (share > _ALL), weight, 0.0))
        best = np.lexsort((-worth, owner))
        first = np.searchsorted(owner[best], owner[best])
        best = best[np.arange(len(best)) - first < _BEST_CLAUSES]
        result[3] += np.bincount(owner[best], weights=worth[best], minlength=len(positions))
    return result


RANKER_FILE: Final = Path(__file__).with_name("ranker.npz")
_NODES: Final = ("feature", "threshold", "left", "right", "value")
_ARRAYS: Final = (*_NODES, "root", "base", "curve", "fitting")


_EVERY_LEAF: Final = -1  # all bits; trees have at most 53 leaves, as `_bit_number` goes by floats


class _Tree:
    """One tree: its comparisons as feature, threshold, and a bit for each leaf that remains when a row is beyond; its leaves.

    Leaves are numbered from left to right.
    """

    def __init__(self, nodes: dict[str, list[Any]], root: int) -> None:
        self.compared: list[tuple[int, float, int]] = []
        self.values: list[float] = []
        self._nodes = nodes
        self._add(root)

    def _add(self, node: int) -> None:
        left = self._nodes["left"][node]
        if left == node:
            self.values.append(self._nodes["value"][node])
            return
        first = len(self.values)
        self._add(left)
        gone = (1 << len(self.values)) - (1 << first)
        self.compared.append((self._nodes["feature"][node], self._nodes["threshold"][node], ~gone))
        self._add(self._nodes["right"][node])


def _bit_number(bits: NDArray[np.int64]) -> NDArray[np.int64]:
    """Which bit each number has, of which each has one."""
    number: NDArray[np.int64] = np.frexp(bits.astype(np.float64))[1].astype(np.int64) - 1
    return number


class Ranker:
    """Trees, read from arrays: node `i` compares `feature[i]` with `threshold[i]` and goes on at `left[i]` or `right[i]`.

    `root` has the first node of each tree. A leaf goes on at itself, and `value` is what it adds. To the trees comes the sum of
    the first step, as a share of the best, times `base`: where nothing was learned, the order is that of the first step.
    """

    def __init__(self, arrays: dict[str, NDArray[np.generic]]) -> None:
        nodes = {name: arrays[name].tolist() for name in _NODES}
        trees = [_Tree(nodes, int(root)) for root in arrays["root"].astype(np.int64)]
        most = max(1, *(len(tree.compared) for tree in trees))
        self._compared = np.zeros((len(trees), most), np.int64)
        self._threshold = np.full((len(trees), most), np.inf, np.float32)
        self._right_of = np.full((len(trees), most), _EVERY_LEAF, np.min_scalar_type(-(1 << (most + 1))))
        self._values = np.zeros((len(trees), most + 1))
        for row, tree in enumerate(trees):
            count = len(tree.compared)
            self._compared[row, :count] = [feature for feature, _, _ in tree.compared]
            self._threshold[row, :count] = [threshold for _, threshold, _ in tree.compared]
            self._right_of[row, :count] = [leaves for _, _, leaves in tree.compared]
            self._values[row, : len(tree.values)] = tree.values
        self._base = float(arrays["base"].astype(np.float64)[0])
        self._curve = arrays["curve"].astype(np.float64)
        self._fitting = arrays["fitting"].astype(np.float64)

    def scores(self, features: NDArray[np.float32]) -> NDArray[np.float64]:
        """A score for each row of features; only the order and the distances within one request mean something.

        All comparisons of all trees are made at once. Each that goes to the right leaves the leaves on its left out; the first
        leaf that is left is where the row ends.
        """
        beyond = np.ascontiguousarray(features.T)[self._compared] > self._threshold[:, :, None]
        left = np.where(beyond, self._right_of[:, :, None], _EVERY_LEAF)
        ends = np.bitwise_and.reduce(left, axis=1)
        values = self._values[np.arange(len(ends))[:, None], _bit_number(ends & -ends)]
        result: NDArray[np.float64] = np.ascontiguousarray(values.T).sum(axis=1) + self._base * features[:, BASE]
        return result

    def confidences(self, values: Sequence[float], covered: Sequence[float], *, skills: int, words: int) -> list[float]:
        """How often skills with such scores were right (0 to 1), for the candidates of one request in one catalog.

        `covered` is the share of the request that each has; `skills` are in the catalog, and the request has so many distinct
        `words`.
        """
        return _chances(clues(np.array(values), np.array(covered), skills=skills, words=words), self._curve)

    def fitting(self, values: Sequence[float], covered: Sequence[float], *, skills: int, words: int) -> float:
        """How often a catalog had the skill that was meant when the scores of the best were such (0 to 1); as `confidences`."""
        return _chances(answer_clues(np.array(values), np.array(covered), skills=skills, words=words)[None], self._fitting)[0]


def _chances(rows: NDArray[np.float64], weights: NDArray[np.float64]) -> list[float]:
    chances: list[float] = (1 / (1 + np.exp(-(rows @ weights[1:] + weights[0])))).tolist()
    return chances


CLUES: Final = ("score", "behind", "lead", "covered", "skills", "words")
"""What the confidence of one candidate is made of."""
ANSWER_CLUES: Final = ("best", "lead", "fifth", "tenth", "covered", "covered_most", "skills", "words")
"""What the judgement whether any skill fits is made of."""
_LITTLE: Final = 3.0  # about the score of a candidate that has little of the request


def clues(values: NDArray[np.float64], covered: NDArray[np.float64], *, skills: int, words: int) -> NDArray[np.float64]:
    """One row for each candidate of one request, one column for each of `CLUES`."""
    best, second = _nth(values, 0), _nth(values, 1)
    count = len(values)
    columns = (
        np.clip(values, -8.0, 16.0),
        np.minimum(best - values, 8.0),
        np.where(values >= best, min(best - second, 4.0), 0.0),
        np.minimum(covered, 1.0),
        np.full(count, np.log1p(skills)),
        np.full(count, np.log1p(words)),
    )
    return np.stack(columns, axis=1)


def answer_clues(values: NDArray[np.float64], covered: NDArray[np.float64], *, skills: int, words: int) -> NDArray[np.float64]:
    """What the candidates of one request say together, a number for each of `ANSWER_CLUES`."""
    best = _nth(values, 0)
    behind = [min(best - _nth(values, at), 8.0) for at in (1, 4, 9)]
    most = (float(covered[int(np.argmax(values))]), float(covered.max()))
    return np.array([np.clip(best, -8.0, 16.0), *behind, *np.minimum(most, 1.0), np.log1p(skills), np.log1p(words)])


def _nth(values: NDArray[np.float64], at: int) -> float:
    """The value at this rank, from 0. Where there are fewer, it is that of a skill with little of the request."""
    if at < len(values):
        return float(np.sort(values)[::-1][at])
    return min(_LITTLE, float(values.min()))


@cache
def ranker() -> Ranker:
    """The ranker that is shipped."""
    stored = zipimporter(str(RANKER_FILE))  # `np.load` imports a reader of archives for as long as a search takes
    return Ranker({name: read_array(BytesIO(stored.get_data(f"{name}.npy"))) for name in _ARRAYS})


def score(
    index: SearchIndex,
    query_words: Sequence[str],
    extra: Sequence[tuple[str, float]] = (),
    *,
    limit: int = 10,
    only: Callable[[int], bool] | None = None,
) -> Scores:
    """The best skills for the words `query_words` (in order), at least `limit` of them if there are; `only` decides by number.

    `extra` words count by their factor and may be in no skill.
    """
    if not index.skills or not (query_words or extra):
        return Scores()
    terms = request_terms(index, query_words, extra)
    candidates = find_candidates(index, terms, limit=limit, only=only)
    if not len(candidates.positions):
        return Scores()
    values = ranker().scores(candidate_features(index, candidates, terms, query_words))
    numbers = index.numbers[candidates.positions]
    order = np.lexsort((numbers, -candidates.sums, -values))
    share = candidates.covered / max(float((terms.rarity * terms.own).sum()), 1e-9)
    return Scores(
        numbers[order].tolist(),
        values[order].tolist(),
        np.minimum(1.0, share[order]).tolist(),
        candidates.positions[order].tolist(),
    )
