"""Hits at rank 1, 5 and 10 of a method, as one cell of a table."""

from __future__ import annotations

import random
import resource
import time
from collections.abc import Sequence
from typing import NamedTuple

from benchmarks.search.methods import Method
from benchmarks.search.sets import CHANGED, Sets

DEPTHS = (1, 5, 10)


class Asked(NamedTuple):
    """The rank of the first right skill for each request by kind (99: not among ten), and the processor time that it took."""

    ranks: dict[str, list[int]]
    ms: float
    index_s: float

    @property
    def times(self) -> str:
        """Two more cells of a table: milliseconds a request, seconds for the index."""
        return f" {self.ms:.1f} | {self.index_s:.0f} |"


def ask(method: Method, sets: Sets, kinds: Sequence[str]) -> Asked:
    """What a method finds for the requests of these kinds."""
    began = _processor_s()
    search = method(sets.entries)
    index_s, spent = _processor_s() - began, 0.0
    ranks: dict[str, list[int]] = {}
    by_changed = method(sets.changed) if any(sets.by_kind()[kind] for kind in kinds if kind in CHANGED) else search
    for kind in kinds:
        ranks[kind] = []
        for request in sets.by_kind()[kind]:
            started = time.process_time()
            found = (by_changed if kind in CHANGED else search)(request.text)
            spent += time.process_time() - started
            ranks[kind].append(next((at for at, number in enumerate(found) if number in request.right), 99))
    return Asked(ranks, 1000 * spent / max(sum(len(one) for one in ranks.values()), 1), index_s)


def _processor_s() -> float:
    """Seconds of this process and of those it has waited for."""
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(used.ru_utime + used.ru_stime for used in both)


def head(*titles: str) -> str:
    """The first two lines of a table."""
    return f"| {' | '.join(titles)} |\n|{'---|' * len(titles)}"


def cell(ranks: Sequence[int]) -> str:
    """What one method reached with one kind of request."""
    if not ranks:
        return ""
    low, high = interval(ranks)
    return f"{'/'.join(f'{share(ranks, depth):.1f}' for depth in DEPTHS)} [{low:.0f}–{high:.0f}]"


def share(ranks: Sequence[int], depth: int) -> float:
    return 100 * sum(rank < depth for rank in ranks) / max(len(ranks), 1)


def interval(ranks: Sequence[int], *, rounds: int = 1000) -> tuple[float, float]:
    """The 95 % interval of hit@1 by drawing the requests anew (bootstrap)."""
    draw = random.Random(7)
    shares = sorted(share(draw.choices(ranks, k=len(ranks)), 1) for _ in range(rounds))
    return shares[rounds // 40], shares[-rounds // 40]
