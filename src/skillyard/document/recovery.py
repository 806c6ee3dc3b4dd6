"""Reading a front matter whose author forgot quotes: `description: Use when: …` and its kin.

The value on which the YAML reader stumbles is put in single quotes, which changes nothing about its text, and the reading
starts again. Nothing that is refused for safety is recovered. Each repair is reported, and is the same edit that
`fix_document` makes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from skillyard.document.nodes import Mapping
from skillyard.document.precise import YamlProblem, read_yaml
from skillyard.text import shorten

__all__ = ["Recovered", "Repair", "read_with_recovery"]

_ATTEMPTS: Final = 12
_RECOVERABLE: Final = frozenset({"yaml-syntax", "yaml-key-not-text"})
_ENTRY: Final = re.compile(
    r"""(?P<key>[ ]*(?:-[ ]+)?(?:"[^"]*"|'[^']*'|[^\s#"'\[\]{}:-][^:\r\n]*):[ \t]+)(?P<value>[^\s#|>].*)"""
)


@dataclass(frozen=True, slots=True)
class Repair:
    """One value that was put in quotes: the rule it broke, its line, and the line as it should be."""

    rule: str
    line: int
    message: str
    fix: str


@dataclass(frozen=True, slots=True)
class Recovered:
    """What was read, from which text, after which repairs."""

    mapping: Mapping
    text: str
    repairs: tuple[Repair, ...] = ()


def read_with_recovery(text: str, *, first_line: int = 1) -> Recovered:
    """Read a front matter, quoting the values that need it.

    Raises:
        YamlProblem: the first problem, when quoting cannot fix it.
    """
    try:
        return Recovered(read_yaml(text, first_line=first_line), text)
    except YamlProblem as problem:
        if problem.rule not in _RECOVERABLE:
            raise
        first = problem
    recovered = _recover(text, first, first_line)
    if recovered is None:
        raise first
    return recovered


def _recover(text: str, problem: YamlProblem, first_line: int) -> Recovered | None:
    lines = text.split("\n")
    repairs: list[Repair] = []
    quoted: set[int] = set()
    for _ in range(_ATTEMPTS):
        index = _entry_at(lines, problem.began - first_line)
        if index is None or index in quoted:
            return None
        quoted.add(index)
        repairs.append(_quote(lines, index, problem, first_line))
        fixed = "\n".join(lines)
        try:
            return Recovered(
                read_yaml(fixed, first_line=first_line), fixed, tuple(sorted(repairs, key=lambda repair: repair.line))
            )
        except YamlProblem as next_problem:
            if next_problem.rule not in _RECOVERABLE:
                return None
            problem = next_problem
    return None


def _entry_at(lines: list[str], index: int) -> int | None:
    """The line of the `key: value` entry that the line at `index` belongs to, itself or one it continues."""
    index = min(index, len(lines) - 1)
    while index > 0 and not lines[index].strip():
        index -= 1
    found = index if _ENTRY.fullmatch(lines[index].rstrip("\r")) else None
    indent = _indent(lines[index])
    for above in range(index - 1, -1, -1):
        if indent == 0:
            break
        line = lines[above]
        if not line.strip() or _indent(line) >= indent:
            continue
        if not _ENTRY.fullmatch(line.rstrip("\r")):
            break
        found, indent = above, _indent(line)
    return found


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _quote(lines: list[str], index: int, problem: YamlProblem, first_line: int) -> Repair:
    """Put the value that starts on the line at `index` in single quotes, with the lines that continue it."""
    last = _last_line(lines, index)
    entry = _ENTRY.fullmatch(lines[index].rstrip("\r"))
    assert entry is not None  # noqa: S101 - `_entry_at` found it by the same pattern
    start = len(entry["key"])
    key = lines[index][:start]
    value = lines[index][start:].rstrip()
    if last == index and len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":  # "quotes "inside" quotes"
        lines[index] = key + value[1:-1] + lines[index][start + len(value) :]
    lines[index] = key + "'" + lines[index][start:].replace("'", "''")
    for number in range(index + 1, last + 1):
        lines[number] = lines[number].replace("'", "''")
    body = lines[last].rstrip()
    lines[last] = body + "'" + lines[last][len(body) :]
    fix = shorten(lines[index].strip(), 160)
    if last > index:
        fix += f" … to the end of line {first_line + last}"
    name = key.strip().removeprefix("- ").rstrip(" :")
    return _repair(name, first_line + index, problem, fix)


def _repair(name: str, line: int, problem: YamlProblem, fix: str) -> Repair:
    if "mapping values are not allowed" in problem.message:
        message = f"the value of `{name}` holds a colon and is not in quotes"
        return Repair("yaml-unquoted-colon", line, message, f"put the value in quotes: {fix}")
    detail = problem.message.removeprefix("the front matter cannot be read: ")
    message = f"the value of `{name}` is not YAML and was read as plain text: {detail}"
    return Repair("yaml-unquoted-value", line, message, f"put the value in quotes, or fix it: {fix}")


def _last_line(lines: list[str], index: int) -> int:
    indent, last = _indent(lines[index]), index
    for number in range(index + 1, len(lines)):
        if not lines[number].strip():
            continue
        if _indent(lines[number]) <= indent:
            break
        last = number
    return last
