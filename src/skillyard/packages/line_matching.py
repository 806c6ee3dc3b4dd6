"""Which lines two texts have in common, found within a number of steps that is known beforehand.

Lines that occur once on either side are matched first, in the longest order that both keep (patience diff, by Bram Cohen); what
lies between two of them is compared by the greedy algorithm of Myers ("An O(ND) Difference Algorithm and Its Variations", 1986)
as long as there are steps left. After that the rest counts as replaced: longer than need be, and true.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Final

__all__ = ["unified"]

_STEPS: Final = 200_000
"""Of the greedy algorithm for one file: some 0.1 s."""
_CONTEXT: Final = 3


def unified(old: Sequence[str], new: Sequence[str], before: str, after: str) -> Iterator[str]:
    """The unified diff of two texts in lines without their ends; `before` and `after` are the names in its head."""
    matcher: SequenceMatcher[str] = SequenceMatcher(None, (), ())
    matcher.opcodes = _opcodes(_Matching(old, new).pairs(), len(old), len(new))  # type: ignore[attr-defined] # not in its stubs
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


class _Matching:
    """The equal lines of two texts; lines are compared as numbers, and steps are counted over the whole."""

    def __init__(self, old: Sequence[str], new: Sequence[str]) -> None:
        numbers: dict[str, int] = {}
        self._old = [numbers.setdefault(line, len(numbers)) for line in old]
        self._new = [numbers.setdefault(line, len(numbers)) for line in new]
        self._left = _STEPS

    def pairs(self) -> list[tuple[int, int]]:
        """Pairs of places of equal lines, both rising."""
        old, new = self._old, self._new
        head, tail, least = 0, 0, min(len(old), len(new))
        while head < least and old[head] == new[head]:
            head += 1
        while tail < least - head and old[-1 - tail] == new[-1 - tail]:
            tail += 1
        found = [(place, place) for place in range(head)]
        last_a, last_b = head, head
        ends = len(old) - tail, len(new) - tail
        for a, b in [*self._anchors(head, *ends), ends]:
            found += self._between(last_a, a, last_b, b)
            if (a, b) != ends:
                found.append((a, b))
            last_a, last_b = a + 1, b + 1
        return found + [(ends[0] + place, ends[1] + place) for place in range(tail)]

    def _anchors(self, begin: int, old_end: int, new_end: int) -> list[tuple[int, int]]:
        """Lines that each side has once, in the longest order that both keep."""
        once_old, once_new = Counter(self._old[begin:old_end]), Counter(self._new[begin:new_end])
        there = {line: place for place, line in enumerate(self._new[begin:new_end], begin) if once_new[line] == 1}
        both = [
            (a, there[line]) for a, line in enumerate(self._old[begin:old_end], begin) if once_old[line] == 1 and line in there
        ]
        tails: list[int] = []  # the least end of a rising row of each length
        rows: list[int] = []
        for _, b in both:
            place = bisect_left(tails, b)
            tails[place : place + 1] = [b]
            rows.append(place)
        chosen: list[tuple[int, int]] = []
        wanted = len(tails) - 1
        for pair, length in zip(reversed(both), reversed(rows), strict=True):
            if length == wanted and (not chosen or pair[1] < chosen[-1][1]):
                chosen.append(pair)
                wanted -= 1
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
    found = []
    for differing in range(len(rounds) - 1, -1, -1):
        reached, diagonal = rounds[differing], x - y
        down = diagonal == -differing or (diagonal != differing and reached[diagonal - 1] < reached[diagonal + 1])
        before = diagonal + 1 if down else diagonal - 1
        from_x = reached[before] if differing else 0
        from_y = from_x - before if differing else 0
        while x > from_x and y > from_y:
            x, y = x - 1, y - 1
            found.append((x, y))
        x, y = from_x, from_y
    return found[::-1]
