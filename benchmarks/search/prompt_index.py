"""Whether the skill that is meant stands in the index of a prompt, whole, cut or by its name, for requests of each kind.

    python -m benchmarks.search.prompt_index COLLECTIONS [--skills 10000] [--budget 1000 2000 4000]

COLLECTIONS is laid out as for `python -m benchmarks.search`. With lightgbm installed each request is ranked by trees that saw
neither its collection nor a skill of the same name; without it by the trees that are shipped, which may have seen it. The index
is that of `write_index` in the style `compact`: the first one of a conversation.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from benchmarks.search.collection import Entry, Request
from benchmarks.search.examples import index_of
from benchmarks.search.kept import Kept
from benchmarks.search.methods import installed
from benchmarks.search.searched import ranked_by, trees_of
from benchmarks.search.sets import Sets, find_places, make_sets, read_pool
from skillyard.prompt import IndexOptions, write_index
from skillyard.search import SearchIndex, ranker

ASKED = ("natural", "tasks, long", "tasks, short", "keywords")


@dataclass(frozen=True)
class Shown:
    """How much of a right skill one index shows, and how many skills it lists."""

    whole: bool
    described: bool
    named: bool
    lines: int
    whole_lines: int


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("collections", type=Path, help="a folder of collections")
    parser.add_argument("--skills", type=int, default=10_000, help="skills of the catalog (default: %(default)s)")
    parser.add_argument("--budget", type=int, nargs="+", default=[1000, 2000, 4000], help="tokens (default: 1000 2000 4000)")
    given = parser.parse_args()
    places = find_places(given.collections)
    for text in places.missing:
        print(f"not measured: {text}", flush=True)
    sets = make_sets(places, read_pool(places), skills=given.skills)
    rankers: dict[str, ranker.Ranker] = {}
    if sets.natural and installed(["lightgbm"]):
        from benchmarks.search import train

        folds = train.left_out(sets, cache(partial(train.all_examples, sets)), Kept(None))
        rankers = trees_of(folds)
    print_table(sets, rankers, given.budget)
    return 0


def print_table(sets: Sets, trees: Mapping[str, ranker.Ranker], budgets: Sequence[int]) -> None:
    """One line for each kind of request and budget; `trees` are by the collection that each left out."""
    index, by_kind = index_of(sets.entries), sets.by_kind()
    which = "collections left out" if trees else "trees that are shipped"
    print(f"\n{len(sets.entries)} skills, {which}; the right skill is in the index, % of requests\n")
    print("| requests | tokens | whole | described | listed | skills listed, whole |\n|---|---|---|---|---|---|")
    for kind in ASKED:
        for budget in budgets if by_kind[kind] else ():
            shown = [look(index, sets.entries, request, budget, trees) for request in by_kind[kind]]
            share = [100 * statistics.fmean(getattr(one, level) for one in shown) for level in ("whole", "described", "named")]
            middle = [statistics.median(getattr(one, name) for one in shown) for name in ("lines", "whole_lines")]
            cells = " | ".join(f"{one:.1f}" for one in share)
            print(f"| {kind} ({len(shown)}) | {budget} | {cells} | {middle[0]:.0f}, {middle[1]:.0f} |", flush=True)


def look(
    index: SearchIndex, entries: Sequence[Entry], request: Request, budget: int, trees: Mapping[str, ranker.Ranker]
) -> Shown:
    """What the index for one request shows of its right skills."""
    catalog: Any = SimpleNamespace(
        all=lambda: entries, roots=[], project_root=None, configuration=SimpleNamespace(prompt_section=True)
    )
    with ranked_by(trees, request.collection):
        made = write_index(catalog, IndexOptions(budget=budget), request=request.text, search_index=index)
    assert made.tokens <= budget
    right = {entries[number].id for number in request.right}
    levels = {line.id: line.allowance for line in made.lines if line.id in right}
    whole = right & set(made.kept)
    return Shown(bool(whole), any(level != 0 for level in levels.values()), bool(levels), len(made.lines), len(made.kept))


if __name__ == "__main__":
    sys.exit(main())
