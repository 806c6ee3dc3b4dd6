"""Finds patterns whose matching time grows faster than the text: repeats what a pattern repeats, and measures.

`texts_for` makes the texts from the pattern's own syntax tree: what it begins with, what each of its repeats repeats, each of
its characters, and a corpus for all patterns. A worker process (this file as a program) measures them in processor time, so
that a busy machine changes nothing, and ends when one pattern never does.
"""

from __future__ import annotations

import contextlib
import gc
import json
import re
import re._constants as sre  # type: ignore[import-untyped]
import re._parser as parser  # type: ignore[import-untyped]
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

__all__ = ["Growth", "Subject", "growth_of", "super_linear", "texts_for"]

_MANY: Final = 64  # repeats that may be fewer are constants
_FIRST: Final = 600  # characters of the first, cheap look
_FIRST_OF_SHORT: Final = 400  # what is repeated often shows itself in fewer
_SHORT: Final = 8  # characters
_QUICK_NS: Final = 120  # for each character: what is not slower at first grows linearly, or does not matter
_SECOND_RATIO: Final = 5.5  # of the times for the first look and one four times as long: what shows 9 between the sizes below
_SECOND_NS: Final = 1_000  # for each character
_SIZES: Final = (2_000, 8_000)
_SIZES_OF_EVERY_END: Final = (3_000, 12_000)
_RATIO: Final = 9.0  # of the times for both sizes: 4 is linear, 16 quadratic
_SLOWEST_NS: Final = 5_000  # for each character: bounded repeats within repeats whose bounds are far too high
_CASE_SECONDS: Final = 0.5
_WORKER_SECONDS: Final = 240
_ENDS: Final = ("", "\x01", " \x01\n")
_CORPUS: Final = (
    "a", "1", "A", " ", "\t", "\n", "a ", " a", "a\n", "a.", "a-", "-a", "a_", "a,", "a=", "a:", "a/", "/a", "//a",
    "a1", "1.", "aA", "(", "[", "{", "<", ">", "'", "\"", "\\", "\\\"", "\\(", "\\[", "\"\\", "\"a\"", "''", "`", "```\n", "- ",
    "# ", "#\n", "# \n", "$", "${", "@", "*", "!", "|", "\u4f60", "\u4f60a", "\u200b", "\r", "\r\n", "\n\n", " \n",
    "\n ", "\u0000", ";", "&", "%", "?", "~", "https://", "a@", "0x", "[[", "<!--", "a\\\n",
)  # fmt: skip


@dataclass(frozen=True)
class Subject:
    """A pattern, where it is, and how the code uses it: `search`, `match` or `fullmatch`."""

    place: str
    pattern: str | bytes
    flags: int
    use: str = "search"


class Growth(NamedTuple):
    """A pattern that is not linear, the text that shows it, and the nanoseconds for each character by length of the text."""

    place: str
    pattern: str
    prefix: str
    pump: str
    end: str
    figures: str


# --- texts from the syntax tree


def texts_for(subject: Subject) -> list[tuple[str, str]]:
    """What to put first and what to repeat behind it, without doubles."""
    pattern = subject.pattern if isinstance(subject.pattern, str) else subject.pattern.decode("latin-1")
    flags = subject.flags & ~re.UNICODE if isinstance(subject.pattern, bytes) else subject.flags
    tree = parser.parse(pattern, flags & ~re.DEBUG)
    alphabet = _alphabet(tree)
    found: dict[tuple[str, str], None] = {}
    for begin in _beginnings(tree):
        found[("", begin)] = None
        found[("", begin + "\n")] = None
    for character in alphabet:
        found[("", character)] = None
        found[("", character + "\n")] = None
        found[("", character + "a")] = None
    for prefix, body in _repeats(list(tree), ""):
        found[(prefix, body)] = None
        found[("", prefix + body)] = None
        for character in alphabet[:12]:
            found[(prefix, character)] = None
    for pump in _CORPUS:
        found[("", pump)] = None
    return [(prefix, pump) for prefix, pump in found if pump]


def _alphabet(tree: Any) -> list[str]:
    """A character for each that the pattern names, and one for each of its sets."""
    found: dict[str, None] = {}

    def visit(items: Any) -> None:
        for op, value in items:
            if op in (sre.LITERAL, sre.NOT_LITERAL):
                found[chr(value)] = None
            elif op is sre.IN:
                found.update(dict.fromkeys(_members(value)[:3]))
            for inner in _inside(op, value):
                visit(inner)

    visit(tree)
    return list(found)[:24]


def _inside(op: Any, value: Any) -> list[Any]:
    """The parts of a node that are sequences of their own."""
    if op is sre.BRANCH:
        return list(value[1])
    if op is sre.SUBPATTERN:
        return [value[3]]
    if op in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
        return [value[2]]
    if op in (sre.ASSERT, sre.ASSERT_NOT):
        return [value[1]]
    if op is sre.ATOMIC_GROUP:
        return [value]
    if op is sre.GROUPREF_EXISTS:
        return [part for part in value[1:] if part is not None]
    return []


_TRIED: Final = "a1 A_-.\n\t,:/\"'=@#(<\u4f60\u200b\x00\x80\u00e9~;!$%&*+?[]{}|\\^`>)"


def _members(items: Any) -> list[str]:
    """Characters that are in a set, as many different ones as there are kinds."""
    negated = any(op is sre.NEGATE for op, _ in items)
    plain = [(op, value) for op, value in items if op is not sre.NEGATE]
    if negated:
        return [character for character in _TRIED if not _one_of(plain, character)] or ["\ufffe"]
    named = [chr(value) for op, value in plain if op is sre.LITERAL]
    named += [chr(value[0]) for op, value in plain if op is sre.RANGE]
    return named + [character for character in _TRIED if character not in named and _one_of(plain, character)]


def _one_of(items: Any, character: str) -> bool:
    for op, value in items:
        if op is sre.LITERAL and ord(character) == value:
            return True
        if op is sre.RANGE and value[0] <= ord(character) <= value[1]:
            return True
        if op is sre.CATEGORY and re.match(_CATEGORIES[value], character):
            return True
    return False


_CATEGORIES: Final = {
    sre.CATEGORY_DIGIT: r"\d", sre.CATEGORY_NOT_DIGIT: r"\D", sre.CATEGORY_SPACE: r"\s",
    sre.CATEGORY_NOT_SPACE: r"\S", sre.CATEGORY_WORD: r"\w", sre.CATEGORY_NOT_WORD: r"\W",
}  # fmt: skip


def _sample(items: Any, turn: int = 0, groups: dict[int, str] | None = None) -> str:
    """A text that the sequence matches; `turn` chooses among its branches."""
    groups = {} if groups is None else groups
    return "".join(_part(op, value, turn, groups) for op, value in items)


def _part(op: Any, value: Any, turn: int, groups: dict[int, str]) -> str:
    """A text that one node matches; nothing for one that only looks."""
    if op in _ONE:
        return _ONE[op](value, turn)
    if op is sre.BRANCH:
        return _sample(value[1][turn % len(value[1])], turn, groups)
    if op is sre.SUBPATTERN:
        inner = _sample(value[3], turn, groups)
        groups[value[0] or 0] = inner
        return inner
    if op in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
        return _sample(value[2], turn, groups) * (max(1, value[0]) if turn % 2 == 0 else value[0])
    if op is sre.ATOMIC_GROUP:
        return _sample(value, turn, groups)
    return groups.get(value, "") if op is sre.GROUPREF else ""


_ONE: Final[dict[Any, Callable[[Any, int], str]]] = {
    sre.LITERAL: lambda value, _: chr(value),
    sre.NOT_LITERAL: lambda value, _: "b" if value == ord("a") else "a",
    sre.ANY: lambda _, __: "a",
    sre.IN: lambda value, turn: _members(value)[turn % min(3, len(_members(value)))],
}


def _beginnings(tree: Any) -> Iterator[str]:
    """What the pattern begins with, up to each of its parts."""
    sequences = [list(tree)]
    if len(tree) == 1 and tree[0][0] is sre.BRANCH:
        sequences = [list(branch) for branch in tree[0][1][1]]
    elif len(tree) == 1 and tree[0][0] is sre.SUBPATTERN:
        sequences = [list(tree[0][1][3])]
    for sequence in sequences[:24]:
        for end in range(1, min(len(sequence), 14) + 1):
            for turn in range(3 if len(sequences) < 6 else 1):
                yield _sample(sequence[:end], turn)


def _repeats(items: list[Any], prefix: str) -> Iterator[tuple[str, str]]:
    """Each repeat of the pattern: what comes before it, and what it repeats."""
    for number, (op, value) in enumerate(items):
        before = prefix + _sample(items[:number])
        if op in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT) and value[1] >= _MANY:
            for turn in range(4):
                yield before, _sample(value[2], turn)
        for inner in _inside(op, value):
            yield from _repeats(list(inner), before)


# --- measuring, in the worker


class _TooLong(Exception):
    pass


def _stop(_number: int, _frame: object) -> None:
    raise _TooLong


def _measure(run: Callable[[Any], object], text: str | bytes, times: int) -> int:
    """Nanoseconds of processor time, the least of `times` tries; the collector visits all of the process and waits."""
    least = 0
    collecting = gc.isenabled()
    gc.disable()
    try:
        for _ in range(times):
            began = time.thread_time_ns()
            run(text)
            took = time.thread_time_ns() - began
            least = took if not least else min(least, took)
    finally:
        if collecting:
            gc.enable()
    return max(least, 1)


def _judge(
    subject: Subject, ends: Sequence[str] = _ENDS, seconds: float = _CASE_SECONDS, sizes: tuple[int, int] = _SIZES
) -> Growth | None:
    compiled = re.compile(subject.pattern, subject.flags)
    run: Callable[[Any], int] = {
        "search": lambda text: len(list(compiled.finditer(text))),
        "match": lambda text: int(compiled.match(text) is not None),
        "fullmatch": lambda text: int(compiled.fullmatch(text) is not None),
    }[subject.use]
    for prefix, pump in texts_for(subject):
        for end in ends if prefix or len(pump) > 2 else ends[-1:]:
            figures = _grows(run, subject, prefix, pump, end, seconds, sizes)
            if figures:
                return Growth(subject.place, str(subject.pattern), prefix[:200], pump[:200], end, figures)
    return None


def _grows(
    run: Callable[[Any], int], subject: Subject, prefix: str, pump: str, end: str, seconds: float, sizes: tuple[int, int]
) -> str:
    def text(size: int) -> str | bytes:
        made = prefix + pump * max(1, size // len(pump)) + end
        return made if isinstance(subject.pattern, str) else made.encode("latin-1", "replace")

    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        first = _FIRST if len(pump) > _SHORT else _FIRST_OF_SHORT
        if _measure(run, text(first), 1) < _QUICK_NS * first:
            return ""
        if sizes == _SIZES:
            again, fourfold = _measure(run, text(first), 2), _measure(run, text(4 * first), 1)
            if fourfold < again * _SECOND_RATIO and fourfold < _SECOND_NS * 4 * first:
                return ""
        figures = {}
        for times in (1, 2, 2):  # a wrong judgement needs three bad measurements in a row
            small, large = (_measure(run, text(size), tries) for size, tries in zip(sizes, (2, times), strict=True))
            figures = {size: took // size for size, took in zip(sizes, (small, large), strict=True)}
            if large < small * _RATIO and large < _SLOWEST_NS * sizes[1]:
                return ""
    except _TooLong:
        return f"more than {seconds} s"
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return ", ".join(f"{took} ns at {size}" for size, took in figures.items())


def _work() -> None:
    """Judge the patterns of standard input, one line each way."""
    ends, sizes = (_ENDS, _SIZES_OF_EVERY_END) if "every-end" in sys.argv else (_ENDS[-1:], _SIZES)
    seconds = float(sys.argv[1])
    signal.signal(signal.SIGVTALRM, _stop)
    resource.setrlimit(resource.RLIMIT_CPU, (_WORKER_SECONDS, _WORKER_SECONDS))
    for line in sys.stdin:
        place, pattern, is_bytes, flags, use = json.loads(line)
        found = _judge(Subject(place, pattern.encode("latin-1") if is_bytes else pattern, flags, use), ends, seconds, sizes)
        sys.stdout.write(json.dumps(found) + "\n")
        sys.stdout.flush()


# --- asking the worker


def super_linear(subjects: Sequence[Subject], *, every_end: bool = False, seconds: float = _CASE_SECONDS) -> list[Growth]:
    """The patterns that grow faster than the text, in order; a pattern that kills the worker is one of them.

    With `every_end` texts end in three ways and are longer, which takes three times as long; one of them has shown every
    pattern that froze. So has a text that takes more than `seconds` of processor time.
    """
    found: list[Growth] = []
    waiting = list(subjects)
    while waiting:
        lines = "".join(json.dumps(_line(one)) + "\n" for one in waiting)
        command = [sys.executable, "-I", __file__, str(seconds), *(["every-end"] if every_end else [])]
        try:
            done = subprocess.run(
                command, input=lines, capture_output=True, text=True, timeout=_WORKER_SECONDS * 4, check=False
            )
            output, trouble = done.stdout, done.stderr
        except subprocess.TimeoutExpired as error:
            output, trouble = (error.stdout or b"").decode(), "no end"
        answers = [json.loads(line) for line in output.splitlines() if line.endswith("]") or line == "null"]
        found += [Growth(*answer) for answer in answers if answer]
        if len(answers) < len(waiting):
            culprit = waiting[len(answers)]
            found.append(Growth(culprit.place, str(culprit.pattern), "", "", "", f"the worker ended: {trouble[-300:]}"))
        waiting = waiting[len(answers) + 1 :]
    return found


def growth_of(function: Callable[[Any], object], text: Callable[[int], object], small: int) -> float:
    """How much more processor time this thread takes for a text four times as long: 4 is linear, 16 quadratic."""
    least = float("inf")
    for _ in range(3):
        times = []
        for size in (small, 4 * small):
            given = text(size)

            def run(value: Any) -> None:
                with contextlib.suppress(Exception):  # a text that is refused took its time as well
                    function(value)

            times.append(_measure(run, given, 3))
        least = min(least, times[1] / times[0])
        if least < _RATIO:
            break
    return least


def _line(one: Subject) -> list[object]:
    pattern = one.pattern if isinstance(one.pattern, str) else one.pattern.decode("latin-1")
    return [one.place, pattern, isinstance(one.pattern, bytes), one.flags, one.use]


if __name__ == "__main__":
    _work()
