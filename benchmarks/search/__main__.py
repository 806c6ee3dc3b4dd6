"""Every table of docs/search-measurements.md, from collections of your own; nothing is downloaded.

    python -m benchmarks.search COLLECTIONS [--skills 12000] [--out FILE]

First it says what is missing and not measured. With lightgbm installed every request is ranked by trees that saw neither its
collection nor a skill of the same name; without it by the trees that are shipped, which were learned from public collections.
`--out` writes trees of everything that was read.
"""

from __future__ import annotations

import argparse
import resource
import sys
from pathlib import Path
from typing import Any

from benchmarks.search import names, stuffing
from benchmarks.search.collection import read_collection
from benchmarks.search.examples import index_of
from benchmarks.search.methods import METHODS, installed
from benchmarks.search.sets import CHANGED, KINDS, LAYOUT, Sets, find_places, make_sets, read_pool
from benchmarks.search.tables import asked, cell

_POOL = ("skillyard", "BM25 name + description", "SQLite FTS5 name + description", "BM25 with fields")


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="benchmarks.search", description=f"{__doc__}{LAYOUT}", formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("collections", nargs="?", default="", metavar="COLLECTIONS", help="a folder of collections")
    parser.add_argument("--skills", type=int, default=12_000, help="skills of the main table (default: %(default)s)")
    parser.add_argument("--out", type=Path, help="write trees of everything to this file")
    arguments = parser.parse_args()
    places = find_places(Path(arguments.collections or "no collections are named"))
    for text in [*places.missing, *_packages()]:
        print(f"not measured: {text}", flush=True)
    if not places.folders:
        print(LAYOUT)
        return 1
    pool = read_pool(places)
    sets = make_sets(places, pool, skills=arguments.skills)
    counted = ", ".join(f"{len(requests)} {kind}" for kind, requests in sets.by_kind().items())
    print(f"\n{len(sets.entries)} of {len(pool[0])} skills; requests: {counted}; hit@1/5/10 in %, [95 % interval of hit@1]\n")
    if sets.natural and installed(["lightgbm"]):
        from benchmarks.search import train

        models = train.run(sets, arguments.out)
    else:
        models = {}
        print(f"| | {' | '.join(KINDS)} |\n|{'---|' * (len(KINDS) + 1)}", flush=True)
    for name in METHODS:
        if installed(METHODS[name][1]):
            print(row("skillyard, trees that are shipped" if name == "skillyard" else name, name, sets), flush=True)
    if places.things:
        print(f"\nshort and misspelled names: {names.report(read_collection([str(places.things)])[0])}", flush=True)
    if sets.natural:
        print(
            f"\nfirst of 200 natural requests, when stuffed with words: {stuffing.wins(sets.entries, sets.natural)}", flush=True
        )
    if len(sets.entries) < len(pool[0]):
        whole(make_sets(places, pool, skills=None), models)
    return 0


def _packages() -> list[str]:
    """Methods that are not installed."""
    needed = {"collections left out": ("lightgbm",)} | {name: needs for name, (_, needs) in METHODS.items()}
    called = {"Stemmer": "PyStemmer", "sklearn": "scikit-learn"}
    return [
        f"{name}: pip install {' '.join(called.get(one, one) for one in needs)}"
        for name, needs in needed.items()
        if not installed(needs)
    ]


def row(title: str, name: str, sets: Sets) -> str:
    """One line of the main table: a method by kind of request."""
    method, by_kind = METHODS[name][0], sets.by_kind()
    search = method(sets.entries)
    by_changed = method(sets.changed) if any(by_kind[kind] for kind in CHANGED) else search
    cells = [cell(asked(by_changed if kind in CHANGED else search, many)[0]) for kind, many in by_kind.items()]
    return f"| {title} | {' | '.join(cells)} |"


def whole(sets: Sets, models: dict[str, Any]) -> None:
    """Print what natural requests and tasks find among all skills, with the processor time of a request, and the index."""
    kinds = {kind: many for kind, many in sets.by_kind().items() if many and kind in ("natural", "tasks, long", "tasks, short")}
    print(f"\n| {len(sets.entries)} skills | {' | '.join(kinds)} | ms per request | index, s | index, MB |")
    print("|---" * (len(kinds) + 4) + "|")
    if models:
        from benchmarks.search import train

        train.among_all(index_of(sets.entries), kinds, models)
    for name in _POOL:
        method, needs = METHODS[name]
        if not installed(needs):
            continue
        began, cells, took = _processor_s(), [], []
        search = method(sets.entries)
        index_s = _processor_s() - began
        for many in kinds.values():
            ranks, seconds = asked(search, many)
            cells.append(cell(ranks))
            took += seconds
        size = f"{_index_mb(sets):.0f}" if name == "skillyard" else ""
        title = "skillyard, trees that are shipped" if name == "skillyard" else name
        print(f"| {title} | {' | '.join(cells)} | {1000 * sum(took) / len(took):.1f} | {index_s:.0f} | {size} |", flush=True)


def _index_mb(sets: Sets) -> float:
    segments = index_of(sets.entries).segments
    return float(sum(array.nbytes for one in segments for array in one.postings) / 1e6)


def _processor_s() -> float:
    """Seconds of this process and of those it has waited for."""
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(used.ru_utime + used.ru_stime for used in both)


if __name__ == "__main__":
    sys.exit(main())
