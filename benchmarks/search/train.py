"""The learned ranker (`skillyard/search/ranker.npz`): fitted with `lightgbm`, which is no dependency, and measured.

The requests of each of the larger collections are ranked by a model that saw neither that collection nor a skill of the same
name; that also gives the curves of the judgement. `python -m benchmarks.search` prints what comes of it, and writes one model
of everything where it is asked for.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np

from benchmarks.search import judgement
from benchmarks.search.collection import Request
from benchmarks.search.examples import Example, examples_of, index_of
from benchmarks.search.kept import Kept
from benchmarks.search.sets import CHANGED, MIDDLE, TINY, Sets
from skillyard.search import SearchIndex
from skillyard.search.ranker import BASE, FEATURES, RISING

SETTINGS: Final = {
    "objective": "lambdarank", "learning_rate": 0.08, "num_leaves": 12, "min_data_in_leaf": 40, "feature_fraction": 0.35,
    "bagging_fraction": 0.7, "bagging_freq": 1, "lambda_l2": 5.0, "lambdarank_truncation_level": 12, "max_bin": 63,
    "verbose": -1, "num_threads": 1, "seed": 3, "deterministic": True,
    "monotone_constraints": [int(name in RISING) for name in FEATURES],
}  # fmt: skip
TREES: Final = 100
_LEARNED: Final = 50  # of the candidates by the first step, what is learned from beside the right ones
START: Final = 6.0
"""What the sum of the first step, as a share of the best, counts before any tree."""
WEIGHTS: Final = {
    "natural": 2.0,
    "tasks, long": 1.0,
    "tasks, short": 1.0,
    "cut out": 1.0,
    "quoted": 1.0,
    "typos": 0.7,
    "small": 0.7,
}
"""What each kind of request weighs, however many there are of it; "keywords" are never learned from."""
_LARGE: Final = 40  # requests of one kind from which a collection is left out by itself; the others together


def all_examples(sets: Sets) -> tuple[list[Example], list[Example]]:
    """The examples of every kind, and natural ones and tasks with the right skills taken out of the catalog.

    "small" are natural requests in a catalog of nothing but their skills, "tiny" in ones of twenty of those, "middle" in one
    with 1,500.
    """
    whole = index_of(sets.entries)
    by_kind = sets.by_kind()
    examples = examples_of(whole, [one for kind, many in by_kind.items() if kind not in CHANGED for one in many])
    examples += examples_of(index_of(sets.changed), [one for kind in CHANGED for one in by_kind[kind]])
    gone = examples_of(whole, [*sets.natural, *sets.long, *sets.short], without=True)
    for kind, numbers in _catalogs(sets):
        number_of = {number: at for at, number in enumerate(numbers)}
        requests = [one for one in sets.natural if min(one.right) in number_of]
        index = index_of([replace(sets.entries[number], id=str(at)) for number, at in number_of.items()])
        examples += examples_of(index, requests, number_of, kind=kind)
        gone += examples_of(index, requests, number_of, kind=kind, without=True)
    return examples, gone


def _catalogs(sets: Sets) -> list[tuple[str, list[int]]]:
    """Smaller catalogs of skills that natural requests are for: the kind, and the numbers of the skills."""
    needed = sorted({min(request.right) for request in sets.natural})
    draw = random.Random(9)
    mixed = draw.sample(needed, len(needed))
    others = draw.sample(
        sorted(set(range(len(sets.entries))) - set(needed)), max(0, min(MIDDLE, len(sets.entries)) - len(needed))
    )
    few = [("tiny", mixed[at : at + TINY]) for at in range(0, len(mixed), TINY)]
    return [("small", needed), ("middle", sorted([*needed, *others])), *few]


def fit(examples: Sequence[Example]) -> Any:
    """A model of the examples that have a right skill among their candidates; each kind weighs what `WEIGHTS` says."""
    import lightgbm

    used = [one for one in examples if one.kind in WEIGHTS and one.right.any() and not one.right.all()]
    counts = Counter(one.kind for one in used)
    each = [WEIGHTS[one.kind] / counts[one.kind] * len(used) for one in used]
    rows = [np.flatnonzero(one.right | (np.argsort(np.argsort(-one.features[:, 0], kind="stable")) < _LEARNED)) for one in used]
    table = np.concatenate([one.features[some] for one, some in zip(used, rows, strict=True)])
    data = lightgbm.Dataset(
        table,
        label=np.concatenate([one.right[some].astype(int) for one, some in zip(used, rows, strict=True)]),
        group=[len(some) for some in rows],
        weight=np.repeat(each, [len(some) for some in rows]),
        init_score=START * table[:, BASE].astype(float),
        feature_name=list(FEATURES),
    )
    return lightgbm.train(dict(SETTINGS), data, num_boost_round=TREES)


def scores_of(model: Any, example: Example) -> Any:
    """The score of each candidate."""
    return model.predict(example.features) + START * example.features[:, BASE]


class Ranked(NamedTuple):
    """Where the first right skill of one example is, by the trees and by the first step alone; 999 when it is no candidate."""

    kind: str
    by_trees: int
    first: int


class Fold(NamedTuple):
    """A part of the requests: the model of all others, and how it ranks and judges these."""

    model: Any
    ranked: list[Ranked]
    said: list[judgement.Judged]


SMALLER: Final = "smaller ones"
"""The collections that are left out together."""
Examples = tuple[list[Example], list[Example]]


def left_out(sets: Sets, examples: Callable[[], Examples], kept: Kept) -> dict[str, Fold]:
    """By collection what trees that saw neither it nor a skill of the same name make of its requests.

    `examples` is called only if a part of it is not in `kept`.
    """
    counts = Counter((one.collection, kind) for kind, many in sets.by_kind().items() if kind in _OWN for one in many)
    large = list(dict.fromkeys(name for (name, _), count in counts.items() if count >= _LARGE))
    result = {}
    for fold in (SMALLER, *large):
        print(f"collections left out: {fold}", file=sys.stderr, flush=True)
        result[fold] = kept.get(f"fold {fold}", partial(_leave_out, fold, large, sets, examples))
    return result


def _leave_out(fold: str, large: Sequence[str], sets: Sets, examples: Callable[[], Examples]) -> Fold:
    def is_held(one: Example) -> bool:
        return (one.request.collection if one.request.collection in large else SMALLER) == fold

    there, gone = examples()
    held, names = [one for one in there if is_held(one)], [entry.name for entry in sets.entries]
    known = {names[number] for one in held for number in one.request.right}
    rest = [one for one in there if not is_held(one)]
    model = fit([one for one in rest if known.isdisjoint(names[number] for number in one.request.right)])
    scored = [(one, scores_of(model, one)) for one in held]
    said = [judgement.judged(*pair, fold, has=True) for pair in scored if pair[0].kind in _JUDGED]
    said += [judgement.judged(one, scores_of(model, one), fold, has=False) for one in gone if is_held(one)]
    return Fold(model, [ranked(*pair) for pair in scored], said)


_OWN: Final = ("natural", "tasks, long", "cut out", "quoted")  # the kinds that others are made of
_JUDGED: Final = (*judgement.KINDS, "tasks, long", "tasks, short")


def ranked(example: Example, scores: Any) -> Ranked:
    """Where the first right skill of an example is by these scores."""
    orders = [np.argsort(-values, kind="stable") for values in (scores, example.features[:, 0])]
    found = [int(example.right[order].argmax()) if example.right.any() else 999 for order in orders]
    return Ranked(example.kind, *found)


def ranked_in(index: SearchIndex, requests: Sequence[Request], folds: Mapping[str, Fold]) -> list[Ranked]:
    """The requests in another catalog, each by the model that left its collection out."""
    return [
        ranked(one, scores_of(folds.get(one.request.collection, folds[SMALLER]).model, one))
        for one in examples_of(index, requests)
    ]


def arrays_of(model: Any, curve: Any, fitting: Any) -> dict[str, Any]:
    """The trees of a model as arrays, the form that `skillyard.search.ranker` reads."""
    root: list[int] = []
    feature: list[int] = []
    threshold: list[float] = []
    left: list[int] = []
    right: list[int] = []
    value: list[float] = []
    deepest = 0

    def add(node: dict[str, Any], depth: int) -> int:
        nonlocal deepest
        at = len(feature)
        deepest = max(deepest, depth)
        leaf = "leaf_value" in node
        feature.append(0 if leaf else node["split_feature"])
        threshold.append(np.inf if leaf else node["threshold"])
        value.append(node["leaf_value"] if leaf else 0.0)
        left.append(at)
        right.append(at)
        if not leaf:
            left[at] = add(node["left_child"], depth + 1)
            right[at] = add(node["right_child"], depth + 1)
        return at

    root += [add(tree["tree_structure"], 0) for tree in model.dump_model()["tree_info"]]
    return {
        "root": np.array(root, np.int32),
        "feature": np.array(feature, np.uint8),
        "threshold": np.array(threshold, np.float32),
        "left": np.array(left, np.int32),
        "right": np.array(right, np.int32),
        "value": np.array(value, np.float32),
        "depth": np.array([deepest], np.int32),
        "base": np.array([START], np.float64),
        "curve": np.array(curve, np.float64),
        "fitting": np.array(fitting, np.float64),
    }
