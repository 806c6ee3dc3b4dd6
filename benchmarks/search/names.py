"""Whether short and misspelled names of things find the skill that is for them.

    python -m benchmarks.search.names FOLDER

FOLDER holds the skills that `names.json` is about: for each, by its name, what people call its things. Every second request is
for development; the others are only counted. Printed is for how many the skill is among the first and the first three.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.search.collection import Entry, read_collection
from benchmarks.search.examples import index_of
from skillyard.search import SearchIndex, search_skills


def ranks(index: SearchIndex, names: dict[str, list[str]]) -> dict[str, int]:
    """The rank of the right skill from 0 for each request, 99 when it is not among ten; a few names are of two skills."""
    right: dict[str, set[str]] = {}
    for skill, requests in names.items():
        for request in requests:
            right.setdefault(request, set()).add(skill)
    found = {request: [match.skill.name for match in search_skills(index, request)] for request in right}
    return {request: next((at for at, name in enumerate(found[request]) if name in right[request]), 99) for request in right}


def report(entries: Sequence[Entry]) -> str:
    """For how many requests of each half the skill is among the first, and among the first three."""
    names: dict[str, list[str]] = json.loads(Path(__file__).with_name("names.json").read_text(encoding="utf-8"))
    index = index_of(entries)
    halves = []
    for title, first in (("development", 0), ("kept back", 1)):
        found = ranks(index, {skill: requests[first::2] for skill, requests in names.items()})
        shares = [100 * sum(rank < depth for rank in found.values()) / len(found) for depth in (1, 3)]
        halves.append(f"{title}: {len(found)} requests, hit@1/3 {shares[0]:.1f}/{shares[1]:.1f}")
    return f"{len(entries)} skills; {'; '.join(halves)}"


if __name__ == "__main__":
    print(report(read_collection(sys.argv[1:])[0]))
