"""Patterns over text: each names its rule and a word without which it is not tried.

Every pattern is linear in practice: what it skips over is bounded in length and never crosses a line, and it begins with a
literal word. The expressions are tried against inputs made of their own words in `tests/scanner`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from skillyard.scanner.source import Hit, Source

__all__ = ["Pattern", "find", "pattern"]

_MOST: Final = 20  # hits of one pattern in one text: more say nothing new


@dataclass(frozen=True, slots=True)
class Pattern:
    """An expression for a rule, tried only where one of `words` (lower case) occurs."""

    rule: str
    expression: re.Pattern[str]
    words: tuple[str, ...]
    message: str = ""


def pattern(rule: str, expression: str, *words: str, message: str = "", case: bool = False) -> Pattern:
    """Make a pattern; case counts only when asked for."""
    return Pattern(rule, re.compile(expression, 0 if case else re.IGNORECASE), words, message)


def find(source: Source, patterns: Iterable[Pattern], text: str | None = None) -> Iterator[Hit]:
    """The places where the patterns match, in the source's own text or in `text`, which must be as long."""
    looked_at = source.text if text is None else text
    lower = source.lower if text is None else text.lower()
    for one in patterns:
        if any(word in lower for word in one.words):
            yield from _matches(one, looked_at)


def _matches(one: Pattern, text: str) -> Iterator[Hit]:
    for number, match in enumerate(one.expression.finditer(text)):
        if number == _MOST:
            return
        yield Hit(one.rule, match.start(), one.message)
