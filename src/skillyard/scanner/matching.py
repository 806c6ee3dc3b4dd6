"""Patterns over text: each names its rule and the words without one of which it is not tried.

A pattern is tried only on lines that hold one of its words, and on long lines only near them. What it skips over is bounded in
length, so that it is linear; where several such parts follow each other a `Chain` looks for each of them once, because a pattern
would try all of their positions together. `tests/house` measures every pattern.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from skillyard.scanner.source_texts import Hit, SourceText

_MOST: Final = 20  # hits of one pattern in one text: more add nothing
# What a line only prints, or only searches other texts for, runs nothing: it weighs less unless the line starts something too.
_PRINTS: Final = re.compile(
    r"[ \t]{0,200}(?:echo|printf|print|console\.(?:log|error|warn)|logger\.\w{1,10}|log|info|warn|die|fail)\b[ (]",
    re.IGNORECASE,
)
_RUNS_IT: Final = re.compile(r"[\"']\s{0,3}(?:\||>)|\$\(|`|;\s{0,3}eval")
_EXPRESSION: Final = re.compile(r"(?:^|[\s(\[{,:=])(?:r[\"']|/(?=[^/\s][^/\n]{0,200}\\[bsdw]))")
_CALLS: Final = re.compile(r"(?:system|popen|run|call|exec\w{0,12}|spawn\w{0,8}|eval|check_output|output)\(", re.IGNORECASE)
_REACH: Final = 1_000  # characters before and behind a word that a pattern may need


@dataclass(frozen=True, slots=True)
class Pattern:
    """An expression for a rule, tried only near where one of `words` (lower case) occurs."""

    rule: str
    expression: re.Pattern[str]
    words: tuple[str, ...]


def pattern(rule: str, expression: str, *words: str, case: bool = False) -> Pattern:
    """Make a pattern; case counts only on request, `^` and `$` are those of a line."""
    flags = re.MULTILINE if case else re.MULTILINE | re.IGNORECASE
    return Pattern(rule, re.compile(expression, flags), words)


@dataclass(frozen=True, slots=True)
class ChainStep:
    """An expression of a chain: it begins at most `reach` characters behind the one before, with none of `stops` between."""

    expression: re.Pattern[str]
    reach: int = 0
    stops: str = "\n"


@dataclass(frozen=True, slots=True)
class Chain:
    """Expressions that follow each other, for a rule; tried like a pattern, in time that grows with the text alone."""

    rule: str
    steps: tuple[ChainStep, ...]
    words: tuple[str, ...]


def chain(rule: str, first: str, *others: tuple[int, str, str], words: tuple[str, ...]) -> Chain:
    """Make a chain of its first expression and, for each other, reach, stops and expression; case does not count."""
    flags = re.MULTILINE | re.IGNORECASE
    steps = [ChainStep(re.compile(expression, flags), reach, stops) for reach, stops, expression in others]
    return Chain(rule, (ChainStep(re.compile(first, flags)), *steps), words)


def find(source: SourceText, patterns: Iterable[Pattern | Chain]) -> Iterator[Hit]:
    """The positions in a source where the patterns match, for each pattern the first ones."""
    for one in patterns:
        yield from islice(_matches(one, source), _MOST)


def _matches(one: Pattern | Chain, source: SourceText) -> Iterator[Hit]:
    text = source.text
    for start, end in _windows(source, one.words):
        for offset in _places(one, text, start, end):
            yield Hit(one.rule, offset, relief=_relief(source, offset))


def _places(one: Pattern | Chain, text: str, start: int, end: int) -> Iterator[int]:
    """Where matches begin between two offsets."""
    if isinstance(one, Pattern):
        yield from (match.start() for match in one.expression.finditer(text, start, end))
        return
    reached = [(match.start(), match.end()) for match in one.steps[0].expression.finditer(text, start, end)]
    for step in one.steps[1:]:
        if not reached:
            return
        reached = list(_reached(step, text, start, end, reached))
    yield from dict.fromkeys(begin for begin, _ in reached)


def _reached(step: ChainStep, text: str, start: int, end: int, before: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Where the chains begin that get as far as this step, and where it ends; the nearest chain decides."""
    behind = 0
    for match in step.expression.finditer(text, start, end):
        while behind < len(before) and before[behind][1] <= match.start():
            behind += 1
        if not behind or match.start() - before[behind - 1][1] > step.reach:
            continue
        between = text[before[behind - 1][1] : match.start()]
        if not any(stop in between for stop in step.stops):
            yield before[behind - 1][0], match.end()


def _relief(source: SourceText, offset: int) -> int:
    """How much less a command weighs that a script only prints, or only looks for with an expression of its own."""
    if source.role != "script":
        return 0
    line, column = source.whole_line(offset)
    if _CALLS.search(line):
        return 0
    shown = _PRINTS.match(line)
    if shown and _inside_quotes(line, shown.end(), column) and not _RUNS_IT.search(line):
        return 2
    return 2 if _EXPRESSION.search(line, 0, column) else 0


def _inside_quotes(line: str, start: int, column: int) -> bool:
    before = line[start:column].replace('\\"', "").replace("\\'", "")
    return any(before.count(mark) % 2 for mark in "\"'`")


def _windows(source: SourceText, words: tuple[str, ...]) -> Iterator[tuple[int, int]]:
    """The lines that hold one of the words, each once, in order; of long lines what is near."""
    spots = [spot for word in words for spot in _around(source, word)]
    spots.sort()
    reached = 0
    for start, end in spots:
        if end > reached:
            yield max(start, reached), end
            reached = end


def _around(source: SourceText, word: str) -> Iterator[tuple[int, int]]:
    at = source.first(word)
    if at < 0:
        return
    text, lower = source.text, source.lower
    while at >= 0:
        far = max(0, at - _REACH)
        start = max(text.rfind("\n", far, at) + 1, far)
        end = text.find("\n", at, at + _REACH)
        end = min(at + _REACH, len(text)) if end < 0 else end
        yield start, end
        at = lower.find(word, max(end, at + 1))
