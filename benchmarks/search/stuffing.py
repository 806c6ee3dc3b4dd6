"""Whether a skill stuffed with words wins requests that are not its own.

Into the same pool go skills whose description, name, body or names of files are full of the commonest words of other skills'
descriptions; counted is for how many of 200 natural requests each is first.
"""

from __future__ import annotations

import random
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

from benchmarks.search.collection import Entry, Request
from benchmarks.search.examples import index_of
from skillyard.search import search_skills
from skillyard.search.words import STOP_WORDS, runs

_REQUESTS = 200
_WORDS = (40, 250, 3000, 200)  # of description, long description, body, names of files


def wins(entries: list[Entry], requests: list[Request]) -> dict[str, int]:
    """How many of the requests each stuffed skill is first for."""
    asked = random.Random(4).sample(requests, min(_REQUESTS, len(requests)))
    counts: Counter[str] = Counter()
    for entry in entries:
        counts.update({run.lower() for run in runs(entry.description)} - STOP_WORDS)
    common = [word for word, _ in counts.most_common(_WORDS[2])]
    with tempfile.TemporaryDirectory() as folder:
        stuffed = _stuffed(Path(folder), common)
        index = index_of([*entries, *(replace(one, id=f"stuffed-{at}") for at, one in enumerate(stuffed))])
        first: Counter[str] = Counter()
        for request in asked:
            best = search_skills(index, request.text, limit=1)
            if best and best[0].skill.id.startswith("stuffed-"):
                first[best[0].skill.name] += 1
    return {one.name: first[one.name] for one in stuffed}


def _stuffed(folder: Path, common: list[str]) -> list[Entry]:
    made: list[Entry] = []
    plain = "Helps with many things."
    for name, description, body, files in (
        ("stuffed-description", " ".join(common[: _WORDS[0]]), plain, 0),
        ("stuffed-long-description", " ".join(common[: _WORDS[1]]), plain, 0),
        ("stuffed-body", plain, " ".join(common), 0),
        ("stuffed-files", plain, plain, _WORDS[3]),
        ("stuffed-" + "-".join(common[:8]), plain, plain, 0),
        ("stuffed-everything", " ".join(common[: _WORDS[1]]), " ".join(common), _WORDS[3]),
    ):
        directory = folder / str(len(made))
        directory.mkdir()
        path = directory / "SKILL.md"
        path.write_text(f"---\nname: {name}\ndescription: {description}\n---\n\n{body}\n", encoding="utf-8")
        for word in common[:files]:
            (directory / f"{word}.md").touch()
        made.append(Entry(name, name, description, body, str(directory), str(path), slug=name))
    return made
