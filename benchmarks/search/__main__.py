"""Measure search on collections of your own; nothing is downloaded.

    python -m benchmarks.search --natural FILE --top DIR --tasks DIR --queries FILE --core DIR FOLDER...

Every FOLDER is a collection, searched for SKILL.md files; near-copies count once. `--natural` holds requests that authors wrote
for their own skills, as JSON lines `{"query", "skill" (a path below --top), "kind"}`. `--tasks` holds the tasks of SkillsBench
with their skills, `--queries` its short requests, `--core` the folder with `tasks.jsonl` and `relevance.json`. What is left
out is not measured.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence

from benchmarks.search.collection import Entry, Request
from benchmarks.search.methods import METHODS, Method, Search, installed
from benchmarks.search.sets import parse_sets, read_sets

DEPTHS = (1, 5, 10)
KINDS = ("natural", "tasks, long", "tasks, short", "cut out", "typos")


def main() -> None:
    arguments = parse_sets(__doc__ or "")
    sets = read_sets(arguments)
    by_kind = (sets.natural, sets.long, sets.short, sets.cut, sets.typos)
    counted = ", ".join(f"{len(requests)} {kind}" for kind, requests in zip(KINDS, by_kind, strict=True))
    print(f"{len(sets.entries)} skills; requests: {counted}")
    print("hit@1/5/10 in %, [95 % interval of hit@1]\n")
    print(f"| Method | {' | '.join(KINDS)} | ms per request | index s |\n|{'---|' * (len(KINDS) + 3)}")
    for name, (method, needs) in METHODS.items():
        if installed(needs) and (not arguments.only or name in arguments.only):
            print(row(name, method, sets.entries, sets.changed, by_kind), flush=True)


def row(name: str, method: Method, entries: list[Entry], changed: list[Entry], by_kind: tuple[list[Request], ...]) -> str:
    """One line of the table."""
    started = time.perf_counter()
    search = method(entries)
    index_s = time.perf_counter() - started
    cells, took = [], []
    for kind, requests in zip(KINDS, by_kind, strict=True):
        by = method(changed) if kind == "cut out" and requests else search
        ranks, seconds = asked(by, requests)
        cells.append(cell(ranks))
        took += seconds
    return f"| {name} | {' | '.join(cells)} | {1000 * sum(took) / max(len(took), 1):.1f} | {index_s:.1f} |"


def asked(search: Search, requests: Sequence[Request]) -> tuple[list[int], list[float]]:
    """The rank of the first right skill for each request (99: not among ten), and the seconds each took."""
    ranks, seconds = [], []
    for request in requests:
        started = time.perf_counter()
        found = search(request.text)
        seconds.append(time.perf_counter() - started)
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


if __name__ == "__main__":
    main()
