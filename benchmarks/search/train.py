"""Fit the learned ranker (`skillyard/search/ranker.npz`); needs `lightgbm`, which is no dependency.

    python -m benchmarks.search.train --natural FILE --top DIR --tasks DIR --queries FILE --core DIR --out FILE FOLDER...

Arguments as for `python -m benchmarks.search`. First the requests of each of the larger collections are ranked by a model that
saw neither that collection nor a skill of the same name; what comes of it is printed and gives the curve of the confidence.
Then one model of everything is written.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.search.collection import Entry, Request
from benchmarks.search.examples import Example, examples_of, index_of
from skillyard.search.ranker import CLUES, FEATURES, RISING, clues

SETTINGS: Final = {
    "objective": "lambdarank", "learning_rate": 0.08, "num_leaves": 12, "min_data_in_leaf": 40, "feature_fraction": 0.5,
    "bagging_fraction": 0.7, "bagging_freq": 1, "lambda_l2": 5.0, "lambdarank_truncation_level": 12, "max_bin": 63,
    "verbose": -1, "num_threads": 1, "seed": 7, "deterministic": True,
    "monotone_constraints": [int(name in RISING) for name in FEATURES],
}  # fmt: skip
TREES: Final = 100
WEIGHTS: Final = {
    "natural": 2.0,
    "tasks, long": 1.0,
    "tasks, short": 1.0,
    "cut out": 1.0,
    "typos": 0.7,
    "small": 0.7,
}
"""What each kind of request weighs, however many there are of it."""
_LARGE: Final = 40  # natural requests from which a collection is left out by itself; the others together
_CUT_OUT: Final = 700
_DEPTHS: Final = (1, 5, 10)


def all_examples(
    entries: list[Entry],
    changed: list[Entry],
    natural: list[Request],
    tasks: list[Request],
    cut: list[Request],
    typos: list[Request],
) -> list[Example]:
    """The examples of every kind; "small" are the natural ones in a catalog of nothing but their skills."""
    examples = examples_of(index_of(entries), [*natural, *tasks, *typos])
    needed = sorted({min(request.right) for request in [*natural, *tasks]})
    number_of = {number: at for at, number in enumerate(needed)}
    few = index_of([replace(entries[number], id=str(at)) for number, at in number_of.items()])
    examples += examples_of(few, [replace(request, kind="small") for request in natural], number_of)
    return examples + examples_of(index_of(changed), cut[:_CUT_OUT])


def fit(examples: Sequence[Example]) -> Any:
    """A model of the examples that have a right skill among their candidates; each kind weighs what `WEIGHTS` says."""
    import lightgbm

    used = [one for one in examples if one.right.any() and not one.right.all()]
    counts = Counter(one.request.kind for one in used)
    each = [WEIGHTS[one.request.kind] / counts[one.request.kind] * len(used) for one in used]
    data = lightgbm.Dataset(
        np.concatenate([one.features for one in used]),
        label=np.concatenate([one.right.astype(int) for one in used]),
        group=[len(one.right) for one in used],
        weight=np.repeat(each, [len(one.right) for one in used]),
        feature_name=list(FEATURES),
    )
    return lightgbm.train(dict(SETTINGS), data, num_boost_round=TREES)


def left_out(examples: Sequence[Example], names: Sequence[str]) -> list[tuple[Example, Any]]:
    """Each example with the scores of a model that saw neither its collection nor a skill of the same name."""
    counts = Counter(one.request.collection for one in examples if one.request.kind == "natural")
    large = {name for name, count in counts.items() if count >= _LARGE} | {"SkillsBench"}
    folds: dict[str, list[Example]] = defaultdict(list)
    for one in examples:
        folds[one.request.collection if one.request.collection in large else "others"].append(one)
    result = []
    for fold, held in folds.items():
        known = {names[number] for one in held for number in one.request.right}
        rest = [one for other, many in folds.items() if other != fold for one in many]
        model = fit([one for one in rest if known.isdisjoint(names[number] for number in one.request.right)])
        scored = [(one, model.predict(one.features)) for one in held]
        print(f"without {fold}: {hits([pair for pair in scored if pair[0].request.kind == 'natural'])}", flush=True)
        result += scored
    for kind in WEIGHTS:
        print(f"{kind}: {hits([pair for pair in result if pair[0].request.kind == kind])}", flush=True)
    return result


def hits(scored: Sequence[tuple[Example, Any]]) -> str:
    """Hits at rank 1 / 5 / 10 in %, of the ranker and of the first step alone, and how many requests there are."""
    both = []
    for at in (0, 1):
        ranks = []
        for example, scores in scored:
            order = np.argsort(-(scores if at == 0 else example.features[:, 0]), kind="stable")
            ranks.append(int(example.right[order].argmax()) if example.right.any() else 999)
        both.append("/".join(f"{100 * np.mean(np.array(ranks) < depth):.1f}" for depth in _DEPTHS) if ranks else "")
    return f"{both[0]} (words alone {both[1]}), {len(scored)} requests"


def confidence_curve(scored: Sequence[tuple[Example, Any]], *, skills: int, few: int) -> Any:
    """The weights of the clues, after a constant: how often the best are right, with the right ones gone for a third."""
    rows, truth = [], []
    for at, (example, scores) in enumerate(scored):
        if example.request.kind not in ("natural", "small", "tasks, long", "tasks, short"):
            continue
        gone = at % 3 == 0
        stays = ~example.right if gone else np.ones(len(scores), np.bool_)
        if not stays.any():
            continue
        column = FEATURES.index("any")
        words = round(float(np.expm1(example.features[0, FEATURES.index("request_length")])))
        size = few if example.request.kind == "small" else skills
        found = clues(scores[stays], example.features[stays][:, column].astype(float), skills=size, words=words)
        best = np.argsort(-scores[stays], kind="stable")[:5]
        rows.append(found[best])
        truth.append(example.right[stays][best])
    return _logistic(np.concatenate(rows), np.concatenate(truth).astype(float))


def _logistic(rows: Any, truth: Any) -> Any:
    """Newton's method for a logistic regression, a constant first."""
    table = np.concatenate([np.ones((len(rows), 1)), rows], axis=1)
    weights = np.zeros(len(CLUES) + 1)
    for _ in range(30):
        chance = 1 / (1 + np.exp(-table @ weights))
        slope = table.T @ (truth - chance) - 0.1 * weights
        bend = (table * (chance * (1 - chance))[:, None]).T @ table + 0.1 * np.eye(len(weights))
        weights = weights + np.linalg.solve(bend, slope)
    return weights


def reliability(scored: Sequence[tuple[Example, Any]], curve: Any, *, skills: int, few: int) -> None:
    """Print, for bands of the confidence that the best match would show, how often it is right."""
    said: dict[str, list[tuple[float, bool]]] = defaultdict(list)
    for example, scores in scored:
        if example.request.kind not in ("natural", "small"):
            continue
        covered = example.features[:, FEATURES.index("any")].astype(float)
        words = round(float(np.expm1(example.features[0, FEATURES.index("request_length")])))
        size = few if example.request.kind == "small" else skills
        chance = 1 / (1 + np.exp(-(clues(scores, covered, skills=size, words=words) @ curve[1:] + curve[0])))
        best = int(np.argmax(scores))
        said[example.request.kind].append((float(chance[best]), bool(example.right[best])))
    for kind, pairs in said.items():
        for low, high in ((0, 0.15), (0.15, 0.3), (0.3, 0.5), (0.5, 0.7), (0.7, 0.85), (0.85, 1.01)):
            inside = [right for chance, right in pairs if low <= chance < high]
            print(f"{kind} {low}–{high}: {len(inside)} requests, right {np.mean(inside) if inside else 0:.2f}")


def write(model: Any, out: Path, curve: Any) -> None:
    """The trees of a model as arrays, the form that `skillyard.search.ranker` reads."""
    root: list[int] = []
    feature, threshold, left, right, value = [], [], [], [], []
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
    np.savez_compressed(
        out,
        root=np.array(root, np.int32),
        feature=np.array(feature, np.uint8),
        threshold=np.array(threshold, np.float32),
        left=np.array(left, np.int32),
        right=np.array(right, np.int32),
        value=np.array(value, np.float32),
        depth=np.array([deepest], np.int32),
        curve=np.array(curve, np.float64),
    )


def main() -> None:
    from benchmarks.search.sets import parse_sets, read_sets

    arguments = parse_sets(__doc__ or "", out=True)
    sets = read_sets(arguments)
    examples = all_examples(sets.entries, sets.changed, sets.natural, [*sets.long, *sets.short], sets.cut, sets.typos[::2])
    scored = left_out(examples, [entry.name for entry in sets.entries])
    sizes = {"skills": len(sets.entries), "few": len({min(request.right) for request in sets.natural})}
    curve = confidence_curve(scored, **sizes)
    reliability(scored, curve, **sizes)
    write(fit(examples), Path(arguments.out), curve)


if __name__ == "__main__":
    main()
