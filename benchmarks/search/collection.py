"""Collections of skills for the benchmark, and the requests with the skills that are right for each."""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from skillyard.document import parse_document

USE_WHEN = re.compile(r"\buse (?:this skill |this |it )?when\b.*", re.IGNORECASE | re.DOTALL)
WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Entry:
    """One skill as search sees it; `description` may have lost the clause that is asked for."""

    id: str
    name: str
    description: str
    body: str
    directory: str
    path: str
    keywords: tuple[str, ...] = ()
    phrases: tuple[str, ...] = ()
    display_name: str | None = None
    stamp: tuple[int, int, int, int] = (0, 0, 0, 0)
    slug: str = ""
    offered: bool = True
    usable: bool = True


@dataclass
class Request:
    """What is asked, and the numbers of the skills that are right."""

    key: str
    text: str
    right: set[int] = field(default_factory=set)

    @property
    def half(self) -> int:
        """0 for the half that weights were fitted on, 1 for the half that was kept out."""
        return hashlib.md5(self.key.encode(), usedforsecurity=False).digest()[-1] % 2


def read_collection(folders: Iterable[str]) -> tuple[list[Entry], dict[str, int]]:
    """Every SKILL.md below the folders, each content once, and the number of each path."""
    entries: list[Entry] = []
    seen: dict[str, int] = {}
    number_of: dict[str, int] = {}
    for folder in folders:
        for directory, _, files in os.walk(folder):
            if "SKILL.md" not in files:
                continue
            path = f"{directory}/SKILL.md"
            data = Path(path).read_bytes()
            digest = hashlib.sha256(data).hexdigest()
            if digest not in seen:
                document = parse_document(data, file="SKILL.md", directory_name=Path(directory).name)
                meta, status = document.metadata, Path(path).stat()
                spoken = (*meta.triggers.intents, *meta.triggers.phrases)
                stamp = (status.st_mode, status.st_size, status.st_mtime_ns, status.st_ino)
                seen[digest] = len(entries)
                name = f"{len(entries)}"
                entries.append(
                    Entry(
                        name,
                        meta.name,
                        meta.description,
                        document.body,
                        directory,
                        path,
                        meta.search_words,
                        spoken,
                        meta.display_name,
                        stamp,
                        meta.name,
                    )
                )
            number_of[path] = seen[digest]
    return entries, number_of


def tasks(folder: str, number_of: dict[str, int], queries: str, core: str | None) -> tuple[list[Request], list[Request]]:
    """Set B: the long and the short requests. The right skills are those in `folder/TASK/environment/skills`."""
    right: dict[str, set[int]] = {}
    for path, number in number_of.items():
        if path.startswith(folder + "/") and "/environment/skills/" in path:
            right.setdefault(path[len(folder) + 1 :].split("/")[0], set()).add(number)
    keywords = json.loads(Path(queries).read_text(encoding="utf-8"))
    long: list[Request] = []
    short: list[Request] = []
    lines = Path(f"{core}/tasks.jsonl").read_text(encoding="utf-8").splitlines()
    relevance = json.loads(Path(f"{core}/relevance.json").read_text(encoding="utf-8"))
    for task in map(json.loads, lines):
        key = task["task_id"]
        if task["excluded"] or key not in right or not relevance[key]["core_gt_ids"]:
            continue
        long.append(Request(key, task["instruction_text"], set(right[key])))
        short.append(Request(key, " ".join(keywords[key]), set(right[key])))
    return long, short


def held_out(entries: list[Entry], *, count: int = 1500) -> tuple[list[Entry], list[Request]]:
    """Set C: the "Use when" clause of a description is the request, and gone from the entry."""
    found: list[tuple[int, re.Match[str]]] = []
    seen: set[str] = set()
    for number, entry in enumerate(entries):
        clause = USE_WHEN.search(entry.description)
        if clause and clause.start() > 40 < len(clause[0]) and clause[0].isascii() and entry.description[:80] not in seen:
            seen.add(entry.description[:80])
            found.append((number, clause))
    random.Random(1).shuffle(found)
    changed = list(entries)
    requests = []
    for number, clause in found[:count]:
        changed[number] = replace(entries[number], description=entries[number].description[: clause.start()])
        requests.append(Request(str(number), clause[0], {number}))
    return changed, requests


def add_copies(entries: list[Entry], requests: Iterable[Request], *, least: float = 0.6) -> None:
    """Near-copies of a right skill are right as well: at least `least` of all runs of five words of both bodies are shared."""
    asked = [request for request in requests if request.right]
    wanted = set().union(*(request.right for request in asked))
    shingles = {number: _shingles(entries[number].body) for number in wanted}
    owners: dict[int, list[int]] = {}
    for number, some in shingles.items():
        for one in some:
            owners.setdefault(one, []).append(number)
    copies: dict[int, set[int]] = {number: {number} for number in wanted}
    for other, entry in enumerate(entries):
        some = _shingles(entry.body)
        shared = Counter(number for one in some for number in owners.get(one, ()))
        for number, count in shared.items():
            if count >= least * (len(some) + len(shingles[number]) - count):
                copies[number].add(other)
    for request in asked:
        request.right = set().union(*(copies[number] for number in request.right))


def _shingles(text: str) -> set[int]:
    found = WORD.findall(text.lower())[:3000]
    return {hash(tuple(found[at : at + 5])) for at in range(max(1, len(found) - 4))}
