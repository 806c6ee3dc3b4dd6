"""The sets of requests by kind, and the pool of skills they are asked in, as the command line names them."""

from __future__ import annotations

import argparse
import random
from dataclasses import dataclass, replace

from benchmarks.search.collection import (
    Entry,
    Request,
    add_copies,
    collection_of,
    cut_out,
    natural,
    read_collection,
    tasks,
    with_typos,
)


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


def parse_sets(description: str, *, out: bool = False) -> argparse.Namespace:
    """The arguments that say where skills and requests are."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", help="collections of skills, one folder each")
    parser.add_argument("--natural", help="requests that authors wrote for their own skills, as JSON lines")
    parser.add_argument("--top", default="", help="the folder that the paths in --natural start from")
    parser.add_argument("--tasks", help="the tasks of SkillsBench with their skills")
    parser.add_argument("--queries", help="its short requests")
    parser.add_argument("--core", help="the folder with tasks.jsonl and relevance.json")
    parser.add_argument("--skills", type=int, help="at most so many skills: all that are right, and others by lot")
    parser.add_argument("--only", action="append", help="names of methods to run")
    if out:
        parser.add_argument("--out", required=True, help="the file that is written")
    return parser.parse_args()


def read_sets(arguments: argparse.Namespace) -> Sets:
    """Read the pool, each near-copy once, and the requests; a copy of a right skill is right as well."""
    folders = [*([arguments.tasks] if arguments.tasks else []), *arguments.folders]
    entries, number_of = read_collection(folders)
    asked = natural(arguments.natural, number_of, arguments.top.rstrip("/")) if arguments.natural else []
    long, short = tasks(arguments.tasks, number_of, arguments.queries, arguments.core) if arguments.tasks else ([], [])
    collections = [""] * len(entries)
    for path, number in number_of.items():
        collections[number] = collections[number] or collection_of(path, [arguments.top.rstrip("/"), *folders])
    if arguments.skills and arguments.skills < len(entries):
        entries, collections = _fewer(entries, collections, [*asked, *long, *short], arguments.skills)
    changed, cut = cut_out(entries, collections)
    add_copies(entries, [*asked, *long, *short, *cut])
    return Sets(entries, changed, asked, long, short, cut, with_typos(asked))


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
