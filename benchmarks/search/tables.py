"""Hits at rank 1, 5 and 10 of a method, as one cell of a table."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence

from benchmarks.search.collection import Request
from benchmarks.search.methods import Search

DEPTHS = (1, 5, 10)


def asked(search: Search, requests: Sequence[Request]) -> tuple[list[int], list[float]]:
    """The rank of the first right skill for each request (99: not among ten), and the processor seconds each took."""
    ranks, seconds = [], []
    for request in requests:
        started = time.process_time()
        found = search(request.text)
        seconds.append(time.process_time() - started)
        ranks.append(next((at for at, number in enumerate(found) if number in request.right), 99))
    return ranks, seconds


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
