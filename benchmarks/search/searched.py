"""Whole searches by other trees than the ones that are shipped."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.search.methods import ours
from benchmarks.search.sets import CHANGED, Sets
from skillyard.search import ranker

if TYPE_CHECKING:
    from benchmarks.search.train import Fold


def trees_of(folds: Mapping[str, Fold]) -> dict[str, ranker.Ranker]:
    """The trees by the collection that they left out, with the curves that are shipped."""
    from benchmarks.search.train import arrays_of

    shipped = np.load(ranker.RANKER_FILE)
    arrays = {name: arrays_of(one.model, shipped["curve"], shipped["fitting"]) for name, one in folds.items()}
    return {name: ranker.Ranker(one) for name, one in arrays.items()}


@contextmanager
def ranked_by(trees: Mapping[str, ranker.Ranker], collection: str) -> Iterator[None]:
    """Search ranks by the trees that left the collection out, where there are any."""
    from benchmarks.search.train import SMALLER

    shipped: Callable[[], ranker.Ranker] = ranker.ranker
    own = trees.get(collection) or trees.get(SMALLER)
    try:
        if own is not None:
            ranker.ranker = lambda: own  # type: ignore[assignment] # without a cache
        yield
    finally:
        ranker.ranker = shipped  # type: ignore[assignment]


def searched(sets: Sets, kinds: Sequence[str], folds: Mapping[str, Fold]) -> dict[str, list[int]]:
    """By kind the rank of the first right skill of each request in what a search gives, 99 when it is not among ten."""
    trees, result = trees_of(folds), {}
    search = ours(sets.entries)
    in_changed = ours(sets.changed) if not set(kinds).isdisjoint(CHANGED) else search
    for kind in kinds:
        ranks: list[int] = []
        for request in sets.by_kind()[kind]:
            with ranked_by(trees, request.collection):
                found = (in_changed if kind in CHANGED else search)(request.text)
            ranks.append(next((at for at, number in enumerate(found) if number in request.right), 99))
        result[kind] = ranks
    return result
