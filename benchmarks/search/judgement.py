"""How sure an answer is: the curves of the confidence and of "nothing fits", fitted and measured with collections left out.

Every request is asked twice in each catalog, with its right skills and without them. A third of the weight is on the second.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np

from benchmarks.search.examples import Example
from benchmarks.search.tables import head
from skillyard.search.ranker import FEATURES, answer_clues, clues

KINDS: Final = ("natural", "middle", "small", "tiny")
"""The catalogs that natural requests are asked in, by their size."""
BANDS: Final = (0, 0.15, 0.3, 0.5, 0.7, 0.85, 1.01)
THRESHOLDS: Final = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7)
_LOOKED_AT: Final = 5  # of the best candidates, what the curve of the confidence is fitted on


class Judged(NamedTuple):
    """One request in one catalog: what its five best and the whole answer look like, and what is true of them."""

    kind: str
    fold: str
    has: bool
    rows: Any
    right: Any
    answer: Any


def judged(example: Example, scores: Any, fold: str, *, has: bool) -> Judged:
    """What the judgement sees of one example and its scores; `has` says that the right skill is in the catalog."""
    covered = example.features[:, FEATURES.index("any_share")].astype(float)
    words = round(float(np.expm1(example.features[0, FEATURES.index("request_length")])))
    best = np.argsort(-scores, kind="stable")[:_LOOKED_AT]
    rows = clues(scores, covered, skills=example.skills, words=words)[best]
    answer = answer_clues(scores, covered, skills=example.skills, words=words)
    return Judged(example.kind, fold, has, rows, example.right[best], answer)


def confidence_curve(some: Sequence[Judged]) -> Any:
    """The weights of the clues, after a constant: how often a candidate is right."""
    rows = np.concatenate([one.rows for one in some])
    truth = np.concatenate([one.right for one in some]).astype(float)
    return _logistic(rows, truth, np.repeat([_weight(one) for one in some], [len(one.rows) for one in some]))


def fitting_curve(some: Sequence[Judged]) -> Any:
    """The weights of the clues of an answer, after a constant: how often the right skill is in the catalog."""
    rows, truth = np.stack([one.answer for one in some]), np.array([float(one.has) for one in some])
    return _logistic(rows, truth, np.array([_weight(one) for one in some]))


def _weight(one: Judged) -> float:
    return 1.0 if one.has else 0.5


def _logistic(rows: Any, truth: Any, weights: Any) -> Any:
    """Newton's method for a logistic regression with weighted rows, a constant first."""
    table = np.concatenate([np.ones((len(rows), 1)), rows], axis=1)
    found = np.zeros(table.shape[1])
    for _ in range(30):
        chance = 1 / (1 + np.exp(-table @ found))
        slope = table.T @ (weights * (truth - chance)) - 0.1 * found
        bend = (table * (weights * chance * (1 - chance))[:, None]).T @ table + 0.1 * np.eye(table.shape[1])
        found = found + np.linalg.solve(bend, slope)
    return found


def report(every: Sequence[Judged], sizes: Mapping[str, str]) -> None:
    """Print both tables; each request is judged by curves fitted without its collection. `sizes` are those of the catalogs."""
    said: dict[str, list[tuple[float, bool, float]]] = {kind: [] for kind in sizes}
    fits: dict[str, list[tuple[float, bool]]] = {kind: [] for kind in sizes}
    for fold in sorted({one.fold for one in every}):
        rest = [one for one in every if one.fold != fold]
        confidence, fitting = confidence_curve(rest), fitting_curve(rest)
        for one in every:
            if one.fold == fold and one.kind in KINDS:
                said[one.kind].append((_chance(one.rows[0], confidence), bool(one.right[0]), _weight(one)))
                fits[one.kind].append((_chance(one.answer, fitting), one.has))
    _print_reliability(said, sizes)
    _print_nothing_fits(fits, sizes)


def _chance(row: Any, weights: Any) -> float:
    return float(1 / (1 + np.exp(-(row @ weights[1:] + weights[0]))))


def _print_reliability(said: dict[str, list[tuple[float, bool, float]]], sizes: Mapping[str, str]) -> None:
    """By what the best match said: how often, the mean, and the share that was right, without the right skill for a third."""
    print(f"\n{head('confidence', *_titles(sizes, 'requests, mean confidence, share right'))}")
    errors = dict.fromkeys(said, 0.0)
    for low, high in pairwise(BANDS):
        cells = []
        for kind, every in said.items():
            inside = np.array([one for one in every if low <= one[0] < high] or [(0.0, False, 1e-9)])
            chance, right = np.average(inside[:, :2], axis=0, weights=inside[:, 2])
            cells.append(f"{inside[:, 2].sum():.0f}, {chance:.2f}, {right:.2f}")
            errors[kind] += abs(chance - right) * inside[:, 2].sum() / sum(weight for *_, weight in every)
        title = f"{low}–{high}" if low > 0 and high < 1 else f"above {low}" if low else f"below {high}"
        print(f"| {title} | {' | '.join(cells)} |")
    print(f"| mean error, points | {' | '.join(f'{100 * error:.1f}' for error in errors.values())} |", flush=True)


def _print_nothing_fits(fits: dict[str, list[tuple[float, bool]]], sizes: Mapping[str, str]) -> None:
    """By threshold: the share of requests told that none may fit, without and with the right skill there."""
    print(f"\n{head('below', *_titles(sizes, 'without, with'))}")
    for threshold in THRESHOLDS:
        cells = []
        for pairs in fits.values():
            shares = [100 * np.mean([chance < threshold for chance, has in pairs if has is there]) for there in (False, True)]
            cells.append(f"{shares[0]:.0f}, {shares[1]:.0f}")
        print(f"| {threshold} | {' | '.join(cells)} |")
    print(f"| area under the curve | {' | '.join(f'{_area(pairs):.3f}' for pairs in fits.values())} |", flush=True)


def _titles(sizes: Mapping[str, str], meaning: str) -> list[str]:
    """The size of each catalog; the first title says what the cells are."""
    return [f"{size} skills" + (f": {meaning}" if at == 0 else "") for at, size in enumerate(sizes.values())]


def _area(pairs: Sequence[tuple[float, bool]]) -> float:
    """How often an answer with the right skill is judged above one without."""
    order = np.argsort([chance for chance, _ in pairs], kind="stable")
    has = np.array([there for _, there in pairs])[order]
    ranks = np.flatnonzero(has) + 1
    return float((ranks.sum() - len(ranks) * (len(ranks) + 1) / 2) / max(len(ranks) * (~has).sum(), 1))
