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
from typing import Final

from skillyard.document import parse_document
from skillyard.errors import SkillyardError

USE_WHEN = re.compile(r"\buse (?:this skill |this |it )?when\b.*", re.IGNORECASE | re.DOTALL)
WORD = re.compile(r"\w+")
BODY = 20_000
_TELLING = 200  # characters of a body from which an equal one means a copy


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
    status: str = "ok"
    state: str = "automatic"

    @property
    def reference(self) -> str:
        """The word it goes by where its name is not its own."""
        return f"{self.name}#{self.id}"

    @property
    def location(self) -> str:
        """Its folder."""
        return self.directory


@dataclass
class Request:
    """What is asked, the numbers of the skills that are right, of what kind it is, and the collection it comes from."""

    text: str
    right: set[int] = field(default_factory=set)
    kind: str = ""
    collection: str = ""


def read_collection(folders: Iterable[str]) -> tuple[list[Entry], dict[str, int]]:
    """Every SKILL.md below the folders, near-copies once, and the number of each path.

    Copies have the same text behind the front matter, or the same name and description but for case and spaces.
    """
    entries: list[Entry] = []
    seen: dict[bytes, int] = {}
    number_of: dict[str, int] = {}
    for folder in folders:
        for directory, below, files in os.walk(folder):
            below.sort()
            file = next((name for name in ("SKILL.md", "skill.md") if name in files), None)
            if file is None:
                continue
            path = f"{directory}/{file}"
            entry = _entry(path, str(len(entries)))
            if entry is None:
                continue
            marks = _marks(entry)
            number = next((seen[mark] for mark in marks if mark in seen), len(entries))
            if number == len(entries):
                entries.append(entry)
            for mark in marks:
                seen.setdefault(mark, number)
            number_of[path] = number
    return entries, number_of


def _entry(path: str, key: str) -> Entry | None:
    data = Path(path).read_bytes()[:200_000]
    directory = str(Path(path).parent)
    try:
        document = parse_document(data, file="SKILL.md", directory_name=Path(directory).name)
    except SkillyardError:
        return None
    meta, status = document.metadata, Path(path).stat()
    if not meta.name or not meta.description:
        return None
    spoken = (*meta.triggers.intents, *meta.triggers.phrases)
    stamp = (status.st_mode, status.st_size, status.st_mtime_ns, status.st_ino)
    return Entry(
        key, meta.name, meta.description, document.body[:BODY], directory, path,
        meta.search_words, spoken, meta.display_name, stamp, meta.name,
    )  # fmt: skip


def _marks(entry: Entry) -> list[bytes]:
    texts = [f"{entry.name} {entry.description}"] + ([entry.body] if len(entry.body) > _TELLING else [])
    return [hashlib.sha256("".join(WORD.findall(text.lower())).encode("utf-8", "replace")).digest() for text in texts]


def collection_of(path: str, folders: Iterable[str]) -> str:
    """The collection that a path belongs to: the folder right below one of `folders`."""
    for folder in folders:
        if path.startswith(f"{folder}/"):
            return path[len(folder) + 1 :].split("/")[0]
    return ""


def natural(file: str, number_of: dict[str, int], top: str) -> list[Request]:
    """Requests that authors wrote for their own skills: JSON lines `{"query", "skill" (a path below `top`), "kind"}`.

    Lists of scenarios are left out: they describe a conversation, not a request.
    """
    result = []
    for line in Path(file).read_text(encoding="utf-8").splitlines():
        one = json.loads(line)
        number = number_of.get(f"{top}/{one['skill']}")
        if number is not None and one["kind"] != "scenario":
            result.append(Request(one["query"], {number}, "natural", one["skill"].split("/")[0]))
    return result


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
        long.append(Request(task["instruction_text"], set(right[key]), "tasks, long", "SkillsBench"))
        short.append(Request(" ".join(keywords[key]), set(right[key]), "tasks, short", "SkillsBench"))
    return long, short


def cut_out(entries: list[Entry], collections: list[str], *, count: int = 1500) -> tuple[list[Entry], list[Request]]:
    """The "Use when" clause of a description is the request, and gone from the entry."""
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
        requests.append(Request(clause[0], {number}, "cut out", collections[number]))
    return changed, requests


QUOTE: Final = re.compile(r"[\"“]([^\"“”\n]{8,90})[\"”]")


def quoted_out(
    entries: list[Entry], changed: list[Entry], collections: list[str], *, count: int = 700
) -> tuple[list[Entry], list[Request]]:
    """What a description quotes as said by people is the request, and gone from the entry with everything else it quotes.

    Entries that `changed` has changed already are left as they are, and so are those whose body says the same.
    """
    found: list[tuple[int, str]] = []
    seen: set[str] = set()
    for number, entry in enumerate(entries):
        said = [one.strip(" .,!?") for one in QUOTE.findall(entry.description) if 2 <= len(WORD.findall(one)) <= 12]
        new = [one for one in said if one.lower() not in seen and one.lower() not in entry.body.lower()]
        if new and changed[number] is entry:
            seen.update(one.lower() for one in said)
            found.append((number, new[-1]))
    random.Random(6).shuffle(found)
    changed = list(changed)
    requests = []
    for number, text in found[:count]:
        changed[number] = replace(entries[number], description=QUOTE.sub("", entries[number].description))
        requests.append(Request(text, {number}, "quoted", collections[number]))
    return changed, requests


def as_keywords(requests: Iterable[Request], *, most: int = 6, seed: int = 8) -> list[Request]:
    """Every second of the requests as a few keywords: its longest words, two to `most` of them, in their order."""
    draw = random.Random(seed)
    result = []
    for request in list(requests)[::2]:
        long = sorted(
            {word.lower() for word in WORD.findall(request.text) if len(word) > 3}, key=lambda word: (-len(word), word)
        )
        few = set(long[: draw.randint(2, most)])
        kept = list(dict.fromkeys(word for word in WORD.findall(request.text.lower()) if word in few))
        if len(kept) > 1:
            result.append(Request(" ".join(kept), request.right, "keywords", request.collection))
    return result


def with_typos(requests: Iterable[Request], *, seed: int = 3) -> list[Request]:
    """The same requests with one slip in each of the longest two words: a letter left out, doubled, or two swapped."""
    draw = random.Random(seed)
    result = []
    for request in requests:
        words = sorted(set(re.findall(r"[a-z]{5,}", request.text)), key=lambda word: (-len(word), word))[:2]
        text = request.text
        for word in words:
            at = draw.randrange(1, len(word) - 1)
            slips = (
                word[:at] + word[at + 1 :],
                word[:at] + word[at] + word[at:],
                word[:at] + word[at + 1] + word[at] + word[at + 2 :],
            )
            text = re.sub(rf"\b{word}\b", draw.choice(slips), text)
        if words:
            result.append(Request(text, request.right, "typos", request.collection))
    return result


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
