"""Wildcard patterns over names: matching them, and deciding whether one covers another.

`*` stands for any number of characters, `?` for exactly one; letters match without regard to case; a pattern must match the
whole name (row 001-17). Everything else stands for itself.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from skillyard.text import single_line

_MOST_STATES: Final = 20_000  # pairs of states looked at before an answer is given up
_MOST_POSITIONS: Final = 500_000  # places in both patterns that these states have together
_MOST_OF_ALL: Final = 2_000_000  # places in all pairs of a set of rules
_EACH: Final = 10  # what any pair costs, in places, and how many characters cost one
_OTHER: Final = ""  # any character that neither pattern names


def _fold(name: str) -> str:
    """`name` as it is compared: without invisible characters, on one line, without case."""
    return name.casefold() if name.isascii() and name.isprintable() else single_line(name).casefold()


def matches(pattern: str, name: str) -> bool:
    """Whether `pattern` matches the whole of `name`."""
    return glob(_fold(pattern)).fullmatch(_fold(name)) is not None


@lru_cache(maxsize=1024)
def glob(pattern: str) -> re.Pattern[str]:
    """`pattern` with `*` and `?` as a regular expression for `fullmatch`; case matters, and time is linear in the text."""
    # A part between two stars is taken at its first place and never given back: no pattern can make it search for long.
    head, *rest = [_literal(part) for part in re.split(r"\*+", pattern)]
    if not rest:
        return re.compile(head, re.DOTALL)
    middle = "".join(f"(?>.*?{part})" for part in rest[:-1])
    return re.compile(f"{head}{middle}.*{rest[-1]}", re.DOTALL)


def _literal(part: str) -> str:
    return "".join("." if char == "?" else re.escape(char) for char in part)


class ComparisonBudget:
    """What may be spent on the comparisons of one set of rules, in places of patterns: about two seconds at most."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = _MOST_OF_ALL

    @property
    def spent(self) -> bool:
        """Whether nothing is left."""
        return self._left < 0

    def takes(self, places: int) -> bool:
        """Spend so many; False when there are not so many left."""
        self._left -= places
        return self._left >= 0


def covers(wide: str, narrow: str, budget: ComparisonBudget | None = None) -> bool:
    """Whether every name that `narrow` matches is matched by `wide` too.

    Both patterns are walked at once as automata over the characters they name and one that stands for all others. For a pair of
    patterns too entangled to decide within a fixed number of steps, or when the `budget` is spent, the answer is False.
    """
    budget = budget or ComparisonBudget()
    if not budget.takes(_EACH + (len(wide) + len(narrow)) // _EACH):
        return False
    wide, narrow = re.sub(r"\*+", "*", _fold(wide)), re.sub(r"\*+", "*", _fold(narrow))
    alphabet = [*dict.fromkeys(char for char in wide + narrow if char not in "*?"), _OTHER]
    start = (_closed(narrow, 0), frozenset(_closed(wide, 0)))
    seen, waiting = {start}, [start]
    positions = 0
    while waiting:
        inside, outside = waiting.pop()
        if len(narrow) in inside and len(wide) not in outside:
            return False
        for char in alphabet:
            step = (_step(narrow, inside, char), _step(wide, outside, char))
            if step[0] and step not in seen:
                seen.add(step)
                waiting.append(step)
                places = len(step[0]) + len(step[1])
                positions += places
                if not budget.takes(places):
                    return False
        if len(seen) > _MOST_STATES or positions > _MOST_POSITIONS:
            return False
    return True


def _closed(pattern: str, position: int) -> frozenset[int]:
    """`position` and, past a star that may stand for nothing, the one after it."""
    if position < len(pattern) and pattern[position] == "*":
        return frozenset((position, position + 1))
    return frozenset((position,))


def _step(pattern: str, positions: frozenset[int], char: str) -> frozenset[int]:
    after: set[int] = set()
    for position in positions:
        if position == len(pattern):
            continue
        if pattern[position] == "*":
            after |= _closed(pattern, position)
        elif pattern[position] in ("?", char):
            after |= _closed(pattern, position + 1)
    return frozenset(after)
