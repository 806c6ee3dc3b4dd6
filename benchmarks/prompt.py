"""How often the right skill is in the index of a prompt with a description, and how long the index takes.

    python -m benchmarks.prompt --tasks TASKS --queries QUERIES.json --others FOLDER --others FOLDER

`TASKS` holds a folder for each task with its right skills below it; `QUERIES.json` maps the task's name to a list of words.
Skills of the other folders are mixed in until as many are installed as `--sizes` says, always the same ones. Each request is
asked for by itself, and then all of them one after the other as the turns of one conversation. Nothing is downloaded.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from skillyard.catalog import Skill, SkillCatalog
from skillyard.prompt import Index, IndexOptions, write_index
from skillyard.search import SearchIndex


def main() -> None:
    """Read the folders, then print one line for each size and way of asking."""
    parser = argparse.ArgumentParser(description="how often the right skill is in the index with a description")
    parser.add_argument("--tasks", type=Path, required=True, help="a folder for each task, its right skills below it")
    parser.add_argument("--queries", type=Path, required=True, help='JSON: {"task": ["some words", ...]}')
    parser.add_argument("--others", action="append", default=[], help="a folder of other skills; may be given several times")
    parser.add_argument("--sizes", type=int, nargs="+", default=[1000, 10_000])
    parser.add_argument("--budget", type=int, default=2000)
    given = parser.parse_args()
    right = {task: found(given.tasks / task) for task in json.loads(given.queries.read_text("utf-8"))}
    queries = {task: ", ".join(said) for task, said in json.loads(given.queries.read_text("utf-8")).items() if right[task]}
    gold = {slug: skill for skills in right.values() for slug, skill in skills.items()}
    others = [skill for slug, skill in found(*given.others).items() if slug not in gold]
    random.Random(7).shuffle(others)
    print("installed        asked described %  whole % ms median  ms max tokens  kept")
    for size in given.sizes:
        skills = [*gold.values(), *others[: max(size - len(gold), 0)]]
        for turns in (False, True):
            print(line(skills, queries, {task: set(right[task]) for task in queries}, given.budget, turns=turns))


def found(*folders: Path | str) -> dict[str, Skill]:
    """The usable skills below the folders, by slug."""
    with tempfile.TemporaryDirectory() as home:
        catalog = SkillCatalog.discover(roots=[str(folder) for folder in folders], home=home, cache=False)
        return {skill.slug: skill for skill in catalog.all() if skill.offered}


def line(skills: Sequence[Skill], queries: dict[str, str], right: dict[str, set[str]], budget: int, *, turns: bool) -> str:
    """Ask every request and say how it went."""
    catalog: Any = SimpleNamespace(all=lambda: skills, roots=[], project_root=None)
    search_index, slugs = SearchIndex(skills), {skill.id: skill.slug for skill in skills}
    described, whole, taken, kept, most = 0, 0, [], [], 0
    previous: Index | None = None
    for task, query in queries.items():
        started = time.perf_counter()
        index = write_index(catalog, IndexOptions(budget=budget, previous=previous), request=query, search_index=search_index)
        taken.append((time.perf_counter() - started) * 1000)
        levels = [shown.allowance for shown in index.lines if slugs[shown.id] in right[task]]
        described += any(level != 0 for level in levels)
        whole += -1 in levels
        most = max(most, index.tokens)
        kept += [index.unchanged / len(previous.text)] if previous else []
        previous = index if turns else None
    share = [100 * number / len(queries) for number in (described, whole)]
    asked = "in turns" if turns else "by itself"
    same = f"{mean(kept):5.0%}" if kept else "    -"
    times = f"{statistics.median(taken):9.1f} {max(taken):7.1f}"
    return f"{len(skills):9,} {asked:>12} {share[0]:11.1f} {share[1]:8.1f} {times} {most:6} {same}"


def mean(values: Iterable[float]) -> float:
    """The average."""
    return statistics.fmean(values)


if __name__ == "__main__":
    main()
