"""The ranker: the score of each candidate of a request, from its features, by trees that were learned once.

`ranker.npz` holds the trees of a gradient-boosted model as arrays, so that numpy alone evaluates it, and the curve of the
confidence. `python -m benchmarks.search.train` learns both from public skills and requests; nothing of their text is in it.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from skillyard.search.features import candidate_features
from skillyard.search.match import Scores
from skillyard.search.scoring import find_candidates, request_terms

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from skillyard.search.index import SearchIndex


RANKER_FILE: Final = Path(__file__).with_name("ranker.npz")


class Ranker:
    """Trees as arrays: node `i` compares feature `feature[i]` with `threshold[i]`, and goes on at `left[i]` or `right[i]`.

    `root` has the first node of each tree. A leaf goes on at itself, and `value` is what it adds. `depth` is that of the
    deepest tree.
    """

    def __init__(self, arrays: dict[str, NDArray[np.generic]]) -> None:
        self._root = arrays["root"].astype(np.int64)
        self._feature = arrays["feature"].astype(np.int64)
        self._threshold = arrays["threshold"].astype(np.float32)
        children = np.stack([arrays["left"], arrays["right"]], axis=1)
        self._children = children.astype(np.int64).ravel()
        self._value = arrays["value"].astype(np.float64)
        self._depth = int(arrays["depth"].astype(np.int64)[0])
        self._curve = arrays["curve"].astype(np.float64) if "curve" in arrays else np.zeros(len(CLUES) + 1)

    def scores(self, features: NDArray[np.float32]) -> NDArray[np.float64]:
        """A score for each row of features; only the order and the distances within one request mean something."""
        rows = np.arange(len(features))[:, None]
        nodes = np.broadcast_to(self._root, (len(features), len(self._root)))
        for _ in range(self._depth):
            beyond = features[rows, self._feature[nodes]] > self._threshold[nodes]
            nodes = self._children[2 * nodes + beyond]
        result: NDArray[np.float64] = self._value[nodes].sum(axis=1)
        return result

    def confidences(self, values: Sequence[float], covered: Sequence[float], *, skills: int, words: int) -> list[float]:
        """How often skills with such scores were right (0 to 1), for the candidates of one request in one catalog.

        `covered` is the share of the request that each has; `skills` are in the catalog, and the request has so many distinct
        `words`.
        """
        rows = clues(np.array(values), np.array(covered), skills=skills, words=words)
        result: list[float] = (1 / (1 + np.exp(-(rows @ self._curve[1:] + self._curve[0])))).tolist()
        return result


CLUES: Final = ("score", "behind", "lead", "covered", "skills", "words")
"""What the confidence is made of."""


def clues(values: NDArray[np.float64], covered: NDArray[np.float64], *, skills: int, words: int) -> NDArray[np.float64]:
    """One row for each candidate of one request, one column for each of `CLUES`."""
    order = np.sort(values)[::-1]
    best, second = float(order[0]), float(order[min(1, len(order) - 1)])
    count = len(values)
    columns = (
        np.clip(values, -8.0, 8.0),
        np.minimum(best - values, 8.0),
        np.where(values >= best, min(best - second, 4.0), 0.0),
        np.minimum(covered, 1.0),
        np.full(count, np.log1p(skills)),
        np.full(count, np.log1p(words)),
    )
    return np.stack(columns, axis=1)


@cache
def ranker() -> Ranker:
    """The ranker that is shipped."""
    with np.load(RANKER_FILE) as stored:
        return Ranker({name: stored[name] for name in stored.files})


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
