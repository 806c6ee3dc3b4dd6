"""Measure search on collections of your own; nothing is downloaded.

    python -m benchmarks.search --tasks DIR --queries FILE --core DIR FOLDER...

Every FOLDER is searched for SKILL.md files; each content counts once. `--tasks` holds the tasks of SkillsBench with their
skills, `--queries` its short requests, `--core` the folder with `tasks.jsonl` and `relevance.json`; without them only set C is
measured.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Sequence

from benchmarks.search.collection import Entry, Request, add_copies, held_out, read_collection, tasks
from benchmarks.search.methods import METHODS, Method, Search, installed

DEPTHS = (1, 5, 10)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+")
    parser.add_argument("--tasks")
    parser.add_argument("--queries")
    parser.add_argument("--core")
    parser.add_argument("--only", action="append", help="names of methods to run")
    arguments = parser.parse_args()
    folders = [*([arguments.tasks] if arguments.tasks else []), *arguments.folders]
    entries, number_of = read_collection(folders)
    changed, clauses = held_out(entries)
    long, short = tasks(arguments.tasks, number_of, arguments.queries, arguments.core) if arguments.tasks else ([], [])
    add_copies(entries, [*long, *short, *clauses])
    print(f"{len(entries)} skills; {len(long)} long and {len(short)} short requests of set B, {len(clauses)} of set C")
    print("hit@1/5/10 in %, [95 % interval of hit@1], then hit@1 of the half weights were fitted on | the half kept out\n")
    print("| Method | B long | B short | C | ms per request | index s |\n|---|---|---|---|---|---|")
    for name, (method, needs) in METHODS.items():
        if installed(needs) and (not arguments.only or name in arguments.only):
            print(row(name, method, entries, changed, (long, short, clauses)), flush=True)


def row(name: str, method: Method, entries: list[Entry], changed: list[Entry], sets: tuple[list[Request], ...]) -> str:
    """One line of the table."""
    started = time.perf_counter()
    search = method(entries)
    index_s = time.perf_counter() - started
    cells, took = [], []
    for requests, by in zip(sets, (search, search, method(changed)), strict=True):
        ranks, seconds = asked(by, requests)
        cells.append(cell(requests, ranks))
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


def cell(requests: Sequence[Request], ranks: Sequence[int]) -> str:
    if not ranks:
        return ""
    hits = "/".join(f"{share(ranks, depth):.1f}" for depth in DEPTHS)
    low, high = interval(ranks)
    halves = [[rank for request, rank in zip(requests, ranks, strict=True) if request.half == half] for half in (0, 1)]
    return f"{hits} [{low:.0f}–{high:.0f}] {share(halves[0], 1):.1f} \\| {share(halves[1], 1):.1f}"


def share(ranks: Sequence[int], depth: int) -> float:
    return 100 * sum(rank < depth for rank in ranks) / max(len(ranks), 1)


def interval(ranks: Sequence[int], *, rounds: int = 1000) -> tuple[float, float]:
    """The 95 % interval of hit@1 by drawing the requests anew (bootstrap)."""
    draw = random.Random(7)
    shares = sorted(share(draw.choices(ranks, k=len(ranks)), 1) for _ in range(rounds))
    return shares[rounds // 40], shares[-rounds // 40]


if __name__ == "__main__":
    main()
