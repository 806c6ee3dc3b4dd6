"""The learned ranker (`skillyard/search/ranker.npz`): fitted with `lightgbm`, which is no dependency, and measured.

First the requests of each of the larger collections are ranked by a model that saw neither that collection nor a skill of the
same name; what comes of it is printed, and gives the curves of the judgement. Then one model of everything is written, where it
is asked for. `python -m benchmarks.search` does both.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.search import judgement
from benchmarks.search.collection import Request
from benchmarks.search.examples import Example, examples_of, index_of
from benchmarks.search.sets import CHANGED, KINDS, Sets
from benchmarks.search.tables import cell
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
_TINY, _MIDDLE = 20, 1500  # skills of the other catalogs


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
        sorted(set(range(len(sets.entries))) - set(needed)), max(0, min(_MIDDLE, len(sets.entries)) - len(needed))
    )
    few = [("tiny", mixed[at : at + _TINY]) for at in range(0, len(mixed), _TINY)]
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


def left_out(
    examples: Sequence[Example], gone: Sequence[Example], names: Sequence[str]
) -> tuple[list[tuple[Example, Any]], list[judgement.Judged], dict[str, Any]]:
    """Each example with the scores of a model that saw neither its collection nor a skill of the same name; what is judged.

    Last are the models by collection; "others" is that of those that are left out together.
    """
    counts = Counter((one.request.collection, one.kind) for one in examples if one.kind in _OWN)
    large = {name for (name, _), count in counts.items() if count >= _LARGE}
    folds: dict[str, tuple[list[Example], list[Example]]] = defaultdict(lambda: ([], []))
    for at, some in enumerate((examples, gone)):
        for one in some:
            folds[one.request.collection if one.request.collection in large else "others"][at].append(one)
    result, said, models = [], [], {}
    for fold, (held, without) in folds.items():
        known = {names[number] for one in held for number in one.request.right}
        rest = [one for other, (many, _) in folds.items() if other != fold for one in many]
        models[fold] = model = fit([one for one in rest if known.isdisjoint(names[number] for number in one.request.right)])
        scored = [(one, scores_of(model, one)) for one in held]
        said += [judgement.judged(*pair, fold, has=True) for pair in scored if pair[0].kind in _JUDGED]
        said += [judgement.judged(one, scores_of(model, one), fold, has=False) for one in without]
        own = [pair for pair in scored if pair[0].kind == "natural"]
        if own:
            print(f"| {fold} | {len(own)} | {cell(ranks(own))} | {cell(ranks(own, first=True))} |", flush=True)
        result += scored
    return result, said, models


_OWN: Final = ("natural", "tasks, long", "cut out", "quoted")  # the kinds that others are made of
_JUDGED: Final = (*judgement.KINDS, "tasks, long", "tasks, short")


def ranks(scored: Sequence[tuple[Example, Any]], *, first: bool = False) -> list[int]:
    """The rank of the first right skill for each, 999 when it is no candidate; with `first` in the order of the first step."""
    result = []
    for example, scores in scored:
        order = np.argsort(-(example.features[:, 0] if first else scores), kind="stable")
        result.append(int(example.right[order].argmax()) if example.right.any() else 999)
    return result


def compare(scored: Sequence[tuple[Example, Any]]) -> None:
    """Print natural requests by the size of the catalog, then the head and the first rows of the table of all kinds."""
    print("\n| natural requests, skills | collections left out | first step alone |\n|---|---|---|")
    for kind, title in judgement.KINDS.items():
        own = [pair for pair in scored if pair[0].kind == kind]
        print(f"| {title} | {cell(ranks(own))} | {cell(ranks(own, first=True))} |", flush=True)
    print(f"\n| | {' | '.join(KINDS)} |\n|{'---|' * (len(KINDS) + 1)}")
    for title, first in (("skillyard, collections left out", False), ("its first step alone", True)):
        cells = [cell(ranks([pair for pair in scored if pair[0].kind == kind], first=first)) for kind in KINDS]
        print(f"| {title} | {' | '.join(cells)} |", flush=True)


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


def run(sets: Sets, out: Path | None) -> dict[str, Any]:
    """Print everything that is measured with collections left out, and return the models by the collection that each left out.

    `out` is where the model of everything is written.
    """
    examples, gone = all_examples(sets)
    print("| left out | requests | skillyard | first step alone |\n|---|---|---|---|")
    scored, said, models = left_out(examples, gone, [entry.name for entry in sets.entries])
    judgement.report(said)
    if out is not None:
        arrays = arrays_of(fit(examples), judgement.confidence_curve(said), judgement.fitting_curve(said))
        np.savez_compressed(out, **arrays)
    compare(scored)
    return models


def among_all(index: SearchIndex, kinds: dict[str, list[Request]], models: dict[str, Any]) -> None:
    """Print two rows of the table of all skills: each request by the model that left its collection out, and the first step."""
    scored = {
        kind: [
            (one, scores_of(models[one.request.collection if one.request.collection in models else "others"], one))
            for one in examples_of(index, many)
        ]
        for kind, many in kinds.items()
    }
    for title, first in (("skillyard, collections left out", False), ("its first step alone", True)):
        print(f"| {title} | {' | '.join(cell(ranks(some, first=first)) for some in scored.values())} | | | |", flush=True)
