"""The words that are taken for no slip of another (`skillyard/search/common_words.npy`), counted in public collections.

    python -m benchmarks.search.common_words COLLECTION... [--out FILE]

Each COLLECTION is a folder of skills of one source. A word is common when at least three skills in at least three of them have
it; near-copies count once. What is written are checksums of the words, so no text of anybody.
"""

from __future__ import annotations

import argparse
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.search.collection import collection_of, read_collection
from skillyard.search.scoring import COMMON_WORDS_FILE, word_checksum
from skillyard.search.words import runs, words

_SKILLS = _COLLECTIONS = 3
_SHORTEST, _LONGEST = 3, 24  # letters of the words that are counted


def common_words(folders: Sequence[str]) -> set[str]:
    """The common words of the collections, in the form of `words`."""
    parents = sorted({str(Path(folder).parent) for folder in folders})
    skills: Counter[str] = Counter()
    collections: defaultdict[str, set[str]] = defaultdict(set)
    for entry in read_collection(folders)[0]:
        written = {
            run for run in runs(f"{entry.description} {entry.body}") if run.isascii() and run.isalpha() and run.islower()
        }
        used = {word for run in written if _SHORTEST <= len(run) <= _LONGEST for word in words(run)}
        skills.update(used)
        for word in used:
            collections[word].add(collection_of(entry.path, parents))
    return {word for word, count in skills.items() if count >= _SKILLS and len(collections[word]) >= _COLLECTIONS}


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.search.common_words", description=__doc__.split("\n")[0])
    parser.add_argument("collections", nargs="+", metavar="COLLECTION", help="a folder of skills of one source")
    parser.add_argument(
        "--out", type=Path, default=COMMON_WORDS_FILE, help="where the list is written (default: where it is read)"
    )
    arguments = parser.parse_args()
    common = common_words(arguments.collections)
    np.save(arguments.out, np.array(sorted(map(word_checksum, common)), dtype=np.uint32))
    print(f"{len(common)} common words of {len(arguments.collections)} collections: {arguments.out}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
