"""Differences between two folders of a skill: files added, removed and changed, and unified diffs of text files.

Lines are matched by patience diff (Bram Cohen), and between those by Myers' greedy algorithm ("An O(ND) Difference Algorithm
and Its Variations", 1986) with a bounded number of steps; after that the rest counts as replaced.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from pathlib import Path
from typing import Final, Literal

from skillyard.errors import WorkMemoryExceeded, WorkTimedOut
from skillyard.packages.digest import file_digests
from skillyard.paths import read_inside
from skillyard.wire import WireForm

_STEPS: Final = 200_000
"""Of the greedy algorithm for one file: some 0.1 s."""
_CONTEXT: Final = 3


def unified_diff(old: Sequence[str], new: Sequence[str], before: str, after: str) -> Iterator[str]:
    """The unified diff of two texts in lines without their ends; `before` and `after` are the names in its head."""
    matcher: SequenceMatcher[str] = SequenceMatcher(None, (), ())
    matcher.opcodes = _opcodes(_LineMatcher(old, new).pairs(), len(old), len(new))  # type: ignore[attr-defined] # not in its stubs
    yield f"--- {before}"
    yield f"+++ {after}"
    for group in matcher.get_grouped_opcodes(_CONTEXT):
        first, last = group[0], group[-1]
        yield f"@@ -{_range(first[1], last[2])} +{_range(first[3], last[4])} @@"
        for tag, old_from, old_to, new_from, new_to in group:
            if tag == "equal":
                yield from (f" {line}" for line in old[old_from:old_to])
                continue
            yield from (f"-{line}" for line in old[old_from:old_to])
            yield from (f"+{line}" for line in new[new_from:new_to])


def _range(start: int, stop: int) -> str:
    """A range as the format writes it: counted from 1, without a length of 1; an empty one names the line before it."""
    length = stop - start
    return f"{start + 1}" if length == 1 else f"{start + 1 if length else start},{length}"


def _opcodes(pairs: list[tuple[int, int]], old: int, new: int) -> list[tuple[str, int, int, int, int]]:
    """What `difflib` calls opcodes, from the pairs of equal lines in order."""
    codes: list[tuple[str, int, int, int, int]] = []
    i = j = 0
    for a, b in [*pairs, (old, new)]:
        if i < a or j < b:
            codes.append(("replace" if i < a and j < b else "delete" if i < a else "insert", i, a, j, b))
        if (a, b) != (old, new):
            if codes and codes[-1][0] == "equal":
                codes[-1] = ("equal", codes[-1][1], a + 1, codes[-1][3], b + 1)
            else:
                codes.append(("equal", a, a + 1, b, b + 1))
        i, j = a + 1, b + 1
    return codes


class _LineMatcher:
    """The equal lines of two texts; lines are compared as numbers, and steps are counted over the whole."""

    def __init__(self, old: Sequence[str], new: Sequence[str]) -> None:
        numbers: dict[str, int] = {}
        self._old = [numbers.setdefault(line, len(numbers)) for line in old]
        self._new = [numbers.setdefault(line, len(numbers)) for line in new]
        self._left = _STEPS

    def pairs(self) -> list[tuple[int, int]]:
        """Pairs of indexes of equal lines, both rising."""
        old, new = self._old, self._new
        head, tail, least = 0, 0, min(len(old), len(new))
        while head < least and old[head] == new[head]:
            head += 1
        while tail < least - head and old[-1 - tail] == new[-1 - tail]:
            tail += 1
        pairs = [(index, index) for index in range(head)]
        last_a, last_b = head, head
        ends = len(old) - tail, len(new) - tail
        for a, b in [*self._anchors(head, *ends), ends]:
            pairs += self._between(last_a, a, last_b, b)
            if (a, b) != ends:
                pairs.append((a, b))
            last_a, last_b = a + 1, b + 1
        return pairs + [(ends[0] + index, ends[1] + index) for index in range(tail)]

    def _anchors(self, begin: int, old_end: int, new_end: int) -> list[tuple[int, int]]:
        """Lines that each side has once, in the longest order that both keep."""
        once_old, once_new = Counter(self._old[begin:old_end]), Counter(self._new[begin:new_end])
        there = {line: index for index, line in enumerate(self._new[begin:new_end], begin) if once_new[line] == 1}
        both = [
            (a, there[line]) for a, line in enumerate(self._old[begin:old_end], begin) if once_old[line] == 1 and line in there
        ]
        tails: list[int] = []  # the least end of a rising row of each length
        rows: list[int] = []
        for _, b in both:
            position = bisect_left(tails, b)
            tails[position : position + 1] = [b]
            rows.append(position)
        chosen: list[tuple[int, int]] = []
        remaining = len(tails) - 1
        for pair, length in zip(reversed(both), reversed(rows), strict=True):
            if length == remaining and (not chosen or pair[1] < chosen[-1][1]):
                chosen.append(pair)
                remaining -= 1
        return chosen[::-1]

    def _between(self, a: int, a_end: int, b: int, b_end: int) -> list[tuple[int, int]]:
        """The equal lines of two stretches, by Myers' greedy algorithm; none when it takes more steps than are left."""
        size, other = a_end - a, b_end - b
        if not size or not other:
            return []
        reached, rounds = {1: 0}, []
        for differing in range(size + other + 1):
            rounds.append(dict(reached))
            self._left -= len(reached)
            for diagonal in range(-differing, differing + 1, 2):
                down = diagonal == -differing or (diagonal != differing and reached[diagonal - 1] < reached[diagonal + 1])
                x = reached[diagonal + 1] if down else reached[diagonal - 1] + 1
                while x < size and x - diagonal < other and self._old[a + x] == self._new[b + x - diagonal]:
                    x += 1
                    self._left -= 1
                reached[diagonal] = x
                if x >= size and x - diagonal >= other:
                    return [(a + i, b + j) for i, j in _backwards(rounds, size, other)]
            if self._left < 0:
                return []
        return []


def _backwards(rounds: list[dict[int, int]], x: int, y: int) -> list[tuple[int, int]]:
    """The equal lines on the way that the rounds of the greedy algorithm found to the end."""
    path = []
    for differing in range(len(rounds) - 1, -1, -1):
        reached, diagonal = rounds[differing], x - y
        down = diagonal == -differing or (diagonal != differing and reached[diagonal - 1] < reached[diagonal + 1])
        before = diagonal + 1 if down else diagonal - 1
        from_x = reached[before] if differing else 0
        from_y = from_x - before if differing else 0
        while x > from_x and y > from_y:
            x, y = x - 1, y - 1
            path.append((x, y))
        x, y = from_x, from_y
    return path[::-1]


_LARGEST: Final = 256 * 1024  # bytes of a file whose lines are compared
_MOST_LINES: Final = 5_000  # of a file that is compared
_SHOWN: Final = 64 * 1024  # characters of the lines of one file
_ALL_SHOWN: Final = 512 * 1024  # characters of all files together

_TRUNCATED: Final = "there are more lines; read the files themselves"
_TOO_LONG: Final = "comparing its lines took too long; read the files themselves"
_INLINE_LIMIT: Final = 64 * 1024
"""Of changed files, in bytes: less is compared in this process, in the bounded steps of `unified_diff`."""
_SECONDS: Final = 10.0
_MEMORY_MB: Final = 512


@dataclass(frozen=True, slots=True)
class FileDifference(WireForm):
    """One file that is not the same: its sizes in bytes (None where it is not there), and what its `lines` are now and were.

    `lines` are a unified diff; `unshown` says why there are none, or not all.
    """

    path: str
    change: Literal["added", "removed", "changed"]
    before: int | None
    after: int | None
    lines: str = ""
    unshown: str | None = None


@dataclass(frozen=True, slots=True)
class FolderDifference(WireForm):
    """Every file that is not the same, by path, and how many are."""

    files: tuple[FileDifference, ...]
    unchanged: int


def compare_trees(before: str | os.PathLike[str], after: str | os.PathLike[str]) -> FolderDifference:
    """The changes of files from the folder `before` to the folder `after`; the right to execute counts as content.

    Raises:
        OSError: a folder cannot be read.
    """
    old, new = file_digests(before), file_digests(after)
    same = sum(digest == new.get(path) for path, digest in old.items())
    trees = (Path(before).absolute(), Path(after).absolute(), old, new)
    plain = compare_files(*trees, room=0)
    if sum((file.before or 0) + (file.after or 0) for file in plain) <= _INLINE_LIMIT:
        return FolderDifference(compare_files(*trees), same)
    from skillyard.offload import WorkLimits, run_in_helper

    try:
        limits = WorkLimits(seconds=_SECONDS, memory_mb=_MEMORY_MB)
        return FolderDifference(run_in_helper(compare_files, *trees, subject="a comparison", limits=limits), same)
    except (WorkTimedOut, WorkMemoryExceeded):
        return FolderDifference(tuple(replace(file, unshown=_TOO_LONG) for file in plain), same)


def compare_files(
    before: Path, after: Path, old: Mapping[str, str], new: Mapping[str, str], room: int = _ALL_SHOWN
) -> tuple[FileDifference, ...]:
    """The files of two folders whose digests are not the same, with at most `room` characters of their lines."""
    return tuple(_file_differences(before, after, old, new, room))


def _file_differences(
    before: Path, after: Path, old: Mapping[str, str], new: Mapping[str, str], room: int
) -> Iterator[FileDifference]:
    for path in sorted(old.keys() | new.keys()):
        if old.get(path) == new.get(path):
            continue
        change: Literal["added", "removed", "changed"] = (
            "added" if path not in old else "removed" if path not in new else "changed"
        )
        was = _size(before, path) if path in old else None
        now = _size(after, path) if path in new else None
        lines, unshown = _line_difference(before, after, path, (was, now)) if room > 0 else ("", _TRUNCATED)
        if len(lines) > min(_SHOWN, room):
            lines, unshown = lines[: min(_SHOWN, room)], _TRUNCATED
        room -= len(lines)
        yield FileDifference(path, change, was, now, lines, unshown)


def _line_difference(before: Path, after: Path, path: str, sizes: tuple[int | None, int | None]) -> tuple[str, str | None]:
    if any(size is not None and size > _LARGEST for size in sizes):
        return "", f"it is over {_LARGEST >> 10} kB"
    texts = [_text(root, path) if size is not None else [] for root, size in zip((before, after), sizes, strict=True)]
    if None in texts:
        return "", "it is not text"
    old, new = (text or [] for text in texts)
    if max(len(old), len(new)) > _MOST_LINES:
        return "", f"it has over {_MOST_LINES:,} lines"
    if old == new:
        return "", "only the right to execute it is another" if None not in sizes else None
    marked = unified_diff(old, new, f"a/{path}", f"b/{path}")
    return "\n".join(marked) + "\n", None


def _text(root: Path, path: str) -> list[str] | None:
    """The lines of a file; None when it is not text."""
    data = read_inside(root, path, limit=_LARGEST)
    if b"\0" in data:
        return None
    try:
        return data.decode("utf-8").split("\n")
    except UnicodeDecodeError:
        return None


def _size(root: Path, path: str) -> int:
    return (root / path).lstat().st_size
