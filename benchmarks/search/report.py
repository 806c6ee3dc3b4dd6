"""The tables that `python -m benchmarks.search` prints, in the form that the documentation has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.search import judgement
from benchmarks.search.examples import index_of
from benchmarks.search.kept import Kept
from benchmarks.search.methods import METHODS, installed
from benchmarks.search.searched import searched
from benchmarks.search.sets import KINDS, MIDDLE, TINY, Sets
from benchmarks.search.tables import DEPTHS, Asked, ask, cell, head, share

if TYPE_CHECKING:
    from benchmarks.search.train import Fold, Ranked

OURS = "skillyard"
_LARGE = ("natural", "tasks, long", "tasks, short")  # what is asked among all skills
_NO_CANDIDATE = 999


class Mine(NamedTuple):
    """What is found with collections left out: by whole searches; by kind the ranks by trees alone and by the first step."""

    searched: Asked
    ordered: dict[str, tuple[list[int], list[int]]]


def counted(sets: Sets, every: Sets, kinds: Sequence[str] = KINDS) -> str:
    """How many skills and requests there are."""
    requests = ", ".join(f"{len(many)} {kind}" for kind, many in sets.by_kind().items() if many and kind in kinds)
    wanted = len({min(request.right) for request in sets.natural})
    return f"{len(sets.entries):,} of {len(every.entries):,} skills; requests: {requests} (natural: for {wanted} skills)"


def by_kind(sets: Sets, folds: Mapping[str, Fold], kept: Kept, ours: Kept) -> None:
    """The main table: every method by kind of request."""
    print(f"\n{head('', *KINDS)}", flush=True)
    some = [one for fold in folds.values() for one in fold.ranked]
    kinds = {kind: len(many) for kind, many in sets.by_kind().items()}
    mine = {kind: _padded([one for one in some if one.kind == kind], count) for kind, count in kinds.items()}
    whole = ours.get("kinds searched", partial(searched, sets, KINDS, folds)) if folds else None
    _rows(sets, KINDS, Mine(whole, mine) if whole else None, kept, ours, "kinds", timed=False)


def by_collection(folds: Mapping[str, Fold]) -> None:
    """Natural requests by the collection that was left out."""
    print(f"\n{head('left out', 'requests', OURS, 'first step alone')}")
    for name, fold in folds.items():
        own = [one for one in fold.ranked if one.kind == "natural"]
        if own:
            print(f"| {name.replace('+', '/')} | {len(own)} | {_both(own)} |", flush=True)


def by_size(sets: Sets, folds: Mapping[str, Fold]) -> None:
    """Natural requests by the number of skills in the catalog, and how sure the answers are there."""
    wanted, every = len({min(request.right) for request in sets.natural}), len(sets.entries)
    sizes = {"natural": every, "middle": min(MIDDLE, every), "small": wanted, "tiny": TINY}
    print(f"\n{head('skills', OURS, 'first step alone')}")
    for kind in reversed(judgement.KINDS):
        own = [one for fold in folds.values() for one in fold.ranked if one.kind == kind]
        print(f"| {sizes[kind]:,} | {_both(own)} |", flush=True)
    said = [one for fold in folds.values() for one in fold.said]
    judgement.report(said, {kind: f"{sizes[kind]:,}" for kind in judgement.KINDS})


def among_all(sets: Sets, folds: Mapping[str, Fold], kept: Kept, learned: Kept, ours: Kept, name: str) -> None:
    """Natural requests and tasks among all these skills, with the processor time of a request and of an index."""
    many = {kind: sets.by_kind()[kind] for kind in _LARGE if sets.by_kind()[kind]}
    print(f"\n{counted(sets, sets, list(many))}\n\n{head('', *many, 'ms a request', 'index, s')}", flush=True)
    mine = None
    if folds:
        asked = learned.get(f"{name} left out", partial(_asked_in, sets, list(many), folds))
        whole = ours.get(f"{name} searched", partial(searched, sets, list(many), folds))
        mine = Mine(whole, {kind: _padded(asked[kind], len(many[kind])) for kind in many})
    _rows(sets, list(many), mine, kept, ours, name, timed=True)


def _asked_in(sets: Sets, kinds: Sequence[str], folds: Mapping[str, Fold]) -> dict[str, list[Ranked]]:
    from benchmarks.search.train import ranked_in

    index = index_of(sets.entries)
    return {kind: ranked_in(index, sets.by_kind()[kind], folds) for kind in kinds}


def _rows(
    sets: Sets, kinds: Sequence[str], mine: Mine | None,
    kept: Kept, ours: Kept, name: str, *, timed: bool,
) -> None:  # fmt: skip
    """One line for each method, and how far ours is ahead of the best other one; by shipped trees where nothing is `mine`."""
    asked = {OURS: mine.searched} if mine else {}
    for title, (method, needs) in METHODS.items():
        if installed(needs) and title not in asked:
            keeping = ours if title == OURS else kept
            asked[title] = keeping.get(f"{name} {title}", partial(ask, method, sets, kinds))
    blank = " | |" if timed else ""
    for title, one in asked.items():
        written = f"**{OURS}**, {'collections left out' if mine else 'trees that are shipped'}" if title == OURS else title
        print(f"| {written} | {_cells(one.ranks)} |{one.times if timed else ''}")
        if mine and title == OURS:
            for part, at in (("the order of its trees", 0), ("its first step", 1)):
                print(f"| {part} alone | {_cells({kind: both[at] for kind, both in mine.ordered.items()})} |{blank}")
            among = " | ".join(f"{share(ranks, _NO_CANDIDATE):.1f}" if ranks else "" for ranks, _ in mine.ordered.values())
            print(f"| among its candidates | {among} |{blank}")
    ahead = []
    for kind in kinds:
        others = [one.ranks[kind] for title, one in asked.items() if title != OURS]
        best = [max((share(ranks, depth) for ranks in others), default=0.0) for depth in DEPTHS]
        points = [f"{share(asked[OURS].ranks[kind], depth) - one:+.1f}" for depth, one in zip(DEPTHS, best, strict=True)]
        ahead.append("/".join(points) if sets.by_kind()[kind] else "")
    print(f"| ahead of the best other, points | {' | '.join(ahead)} |{blank}", flush=True)


def _cells(ranks: Mapping[str, Sequence[int]]) -> str:
    return " | ".join(cell(one) for one in ranks.values())


def _both(some: Sequence[Ranked]) -> str:
    return f"{cell([one.by_trees for one in some])} | {cell([one.first for one in some])}"


def _padded(some: Sequence[Ranked], count: int) -> tuple[list[int], list[int]]:
    """The ranks by trees and by the first step; requests that no skill has a word of are no examples, and found nothing."""
    nothing = [_NO_CANDIDATE] * (count - len(some))
    return [one.by_trees for one in some] + nothing, [one.first for one in some] + nothing
