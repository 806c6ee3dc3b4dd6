"""Every table about the order of search in docs/, from collections of your own; nothing is downloaded.

    python -m benchmarks.search COLLECTIONS [--also FOLDER] [--skills 12000] [--keep FOLDER] [--out FILE]

First it says what is missing and not measured. With lightgbm installed every request is ranked by trees that saw neither its
collection nor a skill of the same name; without it by the trees that are shipped, which were learned from public collections.
Each table of methods has every one that is installed. With `--keep` a run that was stopped goes on where it was, and a second
one takes what is kept. `--also` is another folder of collections, whose natural requests are asked among its own skills, by
the same trees. `--out` writes trees of everything in COLLECTIONS.
"""

from __future__ import annotations

import argparse
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.search import judgement, names, report, stuffing
from benchmarks.search.collection import read_collection
from benchmarks.search.kept import Kept, state_of
from benchmarks.search.methods import METHODS, installed
from benchmarks.search.sets import LAYOUT, Places, Sets, find_places, make_sets, read_pool

if TYPE_CHECKING:
    from benchmarks.search.train import Fold

_HERE = Path(__file__).parent
_SKILLYARD = _HERE.parents[1] / "src" / "skillyard"
_READ = (_HERE / "collection.py", _HERE / "sets.py", _SKILLYARD / "document")
_NUMBERS = ("pages", "postings", "ranker", "scoring", "search_index", "tokenizer", "words")
_RANKED = (*(_SKILLYARD / "search" / f"{name}.py" for name in _NUMBERS), _SKILLYARD / "text.py", _HERE / "examples.py")
_LEARNED = (_HERE / "train.py", _HERE / "judgement.py")
_ASKED = (_HERE / "methods.py", _HERE / "tables.py")
_SEARCHED = (_SKILLYARD / "search", _HERE / "searched.py")


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="benchmarks.search", description=f"{__doc__}{LAYOUT}", formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("collections", nargs="?", default="", metavar="COLLECTIONS", help="a folder of collections")
    parser.add_argument("--also", type=Path, metavar="FOLDER", help="another folder of collections, asked by the same trees")
    parser.add_argument("--skills", type=int, default=12_000, help="skills of the main table (default: %(default)s)")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep what each step gives here, and use what is kept")
    parser.add_argument("--out", type=Path, help="write trees of everything to this file")
    arguments = parser.parse_args()
    places = find_places(Path(arguments.collections or "no collections are named"))
    for text in [*places.missing, *_packages()]:
        print(f"not measured: {text}", flush=True)
    if not places.folders:
        print(LAYOUT)
        return 1
    every, sets, kept = _sets(places, arguments.keep, arguments.skills)
    learned = kept.after(*_RANKED).after(*_LEARNED)
    folds = _folds(sets, learned, arguments.out) if sets.natural and installed(["lightgbm"]) else {}
    print(f"\n{report.counted(sets, every)}; hits at rank 1/5/10 in %, [95 % interval of the first]", flush=True)
    asked, searched = kept.after(*_ASKED), learned.after(*_ASKED, *_SEARCHED)
    report.by_kind(sets, folds, asked, searched)
    if folds:
        report.by_collection(folds)
        report.by_size(sets, folds)
    if places.things:
        print(f"\nshort and misspelled names: {names.report(read_collection([str(places.things)])[0])}", flush=True)
    if sets.natural:
        searching = kept.after(*_RANKED, *_SEARCHED, _HERE / "stuffing.py")
        wins = searching.get("stuffed", lambda: stuffing.wins(sets.entries, sets.natural))
        print(f"\nfirst of 200 natural requests, when stuffed with words: {wins}", flush=True)
    if arguments.also:
        others, _, of_others = _sets(find_places(arguments.also), arguments.keep, None)
        report.among_all(others, folds, of_others.after(*_ASKED), learned.beside(of_others), searched.beside(of_others), "also")
    if len(sets.entries) < len(every.entries):
        report.among_all(every, folds, asked, learned, searched, "all")
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


def _sets(places: Places, keep: Path | None, skills: int | None) -> tuple[Sets, Sets, Kept]:
    """The requests among all skills, and among so many of them, with what is kept of these skills."""
    state = state_of(places.folders, (places.natural, places.queries)) if keep else ""
    kept = Kept(keep, state, str(places.top), skills).after(*_READ)
    pool = cache(lambda: read_pool(places))
    every = kept.get("every", lambda: make_sets(places, pool(), skills=None))
    few = skills and skills < len(every.entries)
    return every, kept.get("sets", lambda: make_sets(places, pool(), skills=skills)) if few else every, kept


def _folds(sets: Sets, learned: Kept, out: Path | None) -> dict[str, Fold]:
    """What trees make of the requests that they did not see; those of everything are written to `out`."""
    from benchmarks.search import train

    examples = cache(lambda: learned.get("examples", lambda: train.all_examples(sets)))
    folds = train.left_out(sets, examples, learned)
    if out is not None:
        said = [one for fold in folds.values() for one in fold.said]
        curves = judgement.confidence_curve(said), judgement.fitting_curve(said)
        np.savez_compressed(out, **train.arrays_of(train.fit(examples()[0]), *curves))
    return folds


if __name__ == "__main__":
    sys.exit(main())
