"""Whole searches by other trees than the ones that are shipped."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.search.collection import Entry
from benchmarks.search.methods import Search, ours
from benchmarks.search.sets import Sets
from benchmarks.search.tables import Asked, ask
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


def searched(sets: Sets, kinds: Sequence[str], folds: Mapping[str, Fold]) -> Asked:
    """What whole searches find, each by the trees that left the collection of its request out."""
    trees = trees_of(folds)

    def asked_by(entries: Sequence[Entry]) -> Search:
        search = ours(entries)

        def find(text: str) -> list[int]:
            with ranked_by(trees, collection_of[text]):
                return search(text)

        return find

    collection_of = {request.text: request.collection for kind in kinds for request in sets.by_kind()[kind]}
    return ask(asked_by, sets, kinds)
