"""What `skillyard eval triggers --suggest` does for skills whose authors wrote requests, judged by requests it never saw.

    python -m benchmarks.search.suggest FOLDER REQUESTS [--skills 200]

FOLDER holds the skills, all of which are searched; REQUESTS are lines of JSON with `query` and `skill`, the path of its
SKILL.md below FOLDER. Of each skill with five requests or more four are given to `--suggest` (which holds out two of them
again); all others judge. The suggestions are taken over together, and the judging requests asked before and after.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.search.collection import Entry, read_collection
from benchmarks.search.examples import index_of
from skillyard.search import SearchIndex, search_skills
from skillyard.search.evaluation import TriggerCase, suggest_descriptions

_GIVEN = 4  # requests of one skill: fewer get no suggestion


def ranks(index: SearchIndex, cases: Sequence[TriggerCase]) -> dict[str, int]:
    """The rank of the right skill from 0 for each request, 99 when it is not among ten."""
    found = {case.prompt: [match.skill.id for match in search_skills(index, case.prompt)] for case in cases}
    return {case.prompt: next((at for at, key in enumerate(found[case.prompt]) if key in case.expected), 99) for case in cases}


def requests_of(file: Path, folder: str, number_of: Mapping[str, int], most: int) -> dict[int, list[str]]:
    """The requests of each skill, each once, of at most so many skills."""
    asked: dict[int, list[str]] = defaultdict(list)
    for line in file.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        number = number_of.get(f"{folder}/{row['skill']}")
        if number is not None and row["query"] not in asked[number]:
            asked[number].append(row["query"])
    return dict(list(asked.items())[:most])


def main() -> None:
    """Suggest, take over, ask."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("requests", type=Path)
    parser.add_argument("--skills", type=int, default=200)
    arguments = parser.parse_args()
    folder = str(arguments.folder)
    entries, number_of = read_collection([folder])
    asked = requests_of(arguments.requests, folder, number_of, arguments.skills)
    given, judging = list[TriggerCase](), list[TriggerCase]()
    for number, texts in asked.items():
        first = _GIVEN if len(texts) > _GIVEN else 0
        given += [TriggerCase(text, (entries[number].id,)) for text in texts[:first]]
        judging += [TriggerCase(text, (entries[number].id,)) for text in texts[first:]]
    index = index_of(entries)
    suggestions = suggest_descriptions(given, entries, search_skills, index=index)  # type: ignore[arg-type]
    described = {one.skill: one.description for one in suggestions}
    before = ranks(index, judging)
    after = ranks(index_of(_with(entries, asked, described)), judging)
    own = {entries[number].id for number in asked if entries[number].name in described}
    print(f"{len(entries)} skills, {len(asked)} with requests: {len(given)} given, {len(judging)} judge")
    print(f"{len(suggestions)} suggestions; of the requests that --suggest held out: ", end="")
    print(f"{sum(one.before for one in suggestions)} first before, {sum(one.after for one in suggestions)} after")
    for title, mine in (("skills with a suggestion", True), ("their neighbours", False)):
        these = [case.prompt for case in judging if (case.expected[0] in own) is mine]
        lost = sum(before[text] == 0 < after[text] for text in these)
        won = sum(after[text] == 0 < before[text] for text in these)
        shares = [f"{sum(of[text] < depth for text in these)}" for of in (before, after) for depth in (1, 3)]
        print(
            f"{title}: {len(these)} requests, hit@1/3 {shares[0]}/{shares[1]} before, {shares[2]}/{shares[3]} after; ", end=""
        )
        print(f"{won} became first, {lost} no longer are")


def _with(entries: Sequence[Entry], asked: Mapping[int, object], described: Mapping[str, str]) -> list[Entry]:
    return [
        replace(one, description=described[one.name]) if number in asked and one.name in described else one
        for number, one in enumerate(entries)
    ]


if __name__ == "__main__":
    main()
