"""The sets of requests by kind, and the pool of skills they are asked in, from a folder of collections."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.search.collection import (
    Entry,
    Request,
    add_copies,
    as_keywords,
    collection_of,
    cut_out,
    natural,
    quoted_out,
    read_collection,
    tasks,
    with_typos,
)

KINDS = ("natural", "tasks, long", "tasks, short", "cut out", "typos", "quoted", "keywords")
CUT_OUT = 700
TINY, MIDDLE = 20, 1500  # skills of the smaller catalogs
CHANGED = ("cut out", "quoted")


@dataclass(frozen=True)
class Sets:
    """A pool of skills, the same with sentences cut out, and the requests by kind."""

    entries: list[Entry]
    changed: list[Entry]
    natural: list[Request]
    long: list[Request]
    short: list[Request]
    cut: list[Request]
    typos: list[Request]
    quoted: list[Request]
    keywords: list[Request]

    def by_kind(self) -> dict[str, list[Request]]:
        """The requests by the name of their kind; those of `CHANGED` are asked among the changed entries."""
        every = (self.natural, self.long, self.short, self.cut, self.typos, self.quoted, self.keywords)
        return dict(zip(KINDS, every, strict=True))


LAYOUT = """
COLLECTIONS is a folder with one folder for each collection of skills. What is found there is measured:

  natural.jsonl                  requests that authors wrote for their own skills: {"query", "skill" (a path there), "kind"}
  */tasks, */data/task_queries.json   the tasks of SkillsBench with their skills, and its short requests
  */tasks.jsonl, */relevance.json     which of its skills are right for each task
  anthropics*                    the skills that names.json is about
"""


@dataclass(frozen=True)
class Places:
    """Where skills and requests are; None, or no folders, for what is not there."""

    top: Path
    folders: tuple[str, ...]
    natural: Path | None
    tasks: Path | None
    queries: Path | None
    core: Path | None
    things: Path | None

    @property
    def missing(self) -> list[str]:
        """What cannot be measured, and what it needs."""
        needs = {
            "every table: no collection of skills": bool(self.folders),
            "natural requests, slips, keywords, left-out collections: natural.jsonl": self.natural is not None,
            "tasks of SkillsBench: tasks, data/task_queries.json, tasks.jsonl and relevance.json": self.has_tasks,
            "short and misspelled names: the skills of anthropics": self.things is not None,
        }
        return [text for text, there in needs.items() if not there]

    @property
    def has_tasks(self) -> bool:
        """Whether everything that the tasks need is there."""
        return None not in (self.tasks, self.queries, self.core)


def find_places(top: Path) -> Places:
    """What there is below a folder of collections."""

    def first(pattern: str) -> Path | None:
        return next(iter(sorted(top.glob(pattern))), None) if top.is_dir() else None

    queries, relevance = first("*/data/task_queries.json"), first("*/relevance.json")
    tasks_folder = queries.parent.parent / "tasks" if queries else None
    core = relevance.parent if relevance and (relevance.parent / "tasks.jsonl").is_file() else None
    return Places(
        top,
        tuple(str(one) for one in sorted(top.iterdir()) if one.is_dir()) if top.is_dir() else (),
        first("natural.jsonl"),
        tasks_folder if tasks_folder and tasks_folder.is_dir() else None,
        queries,
        core,
        first("anthropics*skills*") or first("anthropics*"),
    )


def read_pool(places: Places) -> tuple[list[Entry], dict[str, int]]:
    """Every skill, near-copies once, and the number of each path; the skills of the tasks come first."""
    return read_collection([*([str(places.tasks)] if places.tasks else []), *places.folders])


def make_sets(places: Places, pool: tuple[list[Entry], dict[str, int]], *, skills: int | None) -> Sets:
    """The requests of every kind in a pool of at most so many skills; a copy of a right skill is right as well."""
    entries, number_of = list(pool[0]), pool[1]
    top = str(places.top)
    asked = natural(str(places.natural), number_of, top) if places.natural else []
    long, short = tasks(str(places.tasks), number_of, str(places.queries), str(places.core)) if places.has_tasks else ([], [])
    collections = [""] * len(entries)
    for path, number in number_of.items():
        collections[number] = collections[number] or collection_of(path, [top])
    if skills and skills < len(entries):
        entries, collections = _fewer(entries, collections, [*asked, *long, *short], skills)
    changed, cut = cut_out(entries, collections)
    changed, quoted = quoted_out(entries, changed, collections)
    add_copies(entries, [*asked, *long, *short, *cut, *quoted])
    return Sets(entries, changed, asked, long, short, cut[:CUT_OUT], with_typos(asked)[::2], quoted, as_keywords(asked))


def _fewer(entries: list[Entry], collections: list[str], requests: list[Request], most: int) -> tuple[list[Entry], list[str]]:
    """The skills that are right for a request and others by lot, numbered anew; the requests are changed."""
    needed = {number for request in requests for number in request.right}
    others = [number for number in range(len(entries)) if number not in needed]
    random.Random(5).shuffle(others)
    chosen = sorted(needed | set(others[: max(0, most - len(needed))]))
    new = {number: at for at, number in enumerate(chosen)}
    for request in requests:
        request.right = {new[number] for number in request.right}
    return [replace(entries[number], id=str(at)) for number, at in new.items()], [collections[number] for number in chosen]
