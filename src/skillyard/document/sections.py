"""The shape of the body: its sections and its code blocks (row 000-28)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

__all__ = ["CodeBlock", "Section", "read_body"]

_HEADING: Final = re.compile(r" {0,3}(#{2,3})[ \t]+(.*?)(?:[ \t]+#+)?[ \t]*")
_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})[ \t]*([^\s`{]*)[^`\r\n]*")


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the body under a `##` or `###` heading, up to the next one."""

    title: str
    level: int
    text: str
    line: int
    """The line of the heading in the file, counted from 1."""


@dataclass(frozen=True, slots=True)
class CodeBlock:
    """A fenced block of code: its language in lower case (empty when not named), its text, and the line of its fence."""

    language: str
    text: str
    line: int


def read_body(body: str, *, first_line: int = 1) -> tuple[tuple[Section, ...], tuple[CodeBlock, ...]]:
    """The sections and code blocks of a Markdown body whose first line is line `first_line` of the file.

    A heading inside a code block is code. A code block that is never closed ends with the body.
    """
    lines = body.splitlines(keepends=True)
    headings: list[tuple[int, int, str]] = []
    blocks: list[CodeBlock] = []
    number = 0
    while number < len(lines):
        line = lines[number].rstrip("\r\n")
        if fence := _FENCE.fullmatch(line):
            end = _closing_fence(lines, number + 1, fence[1])
            blocks.append(CodeBlock(fence[2].lower(), "".join(lines[number + 1 : end]), first_line + number))
            number = end
        elif heading := _HEADING.fullmatch(line):
            headings.append((number, len(heading[1]), heading[2].strip()))
        number += 1
    return _sections(lines, headings, first_line), tuple(blocks)


def _closing_fence(lines: list[str], start: int, fence: str) -> int:
    """The index of the line that closes the block, or the number of lines."""
    for number in range(start, len(lines)):
        text = lines[number].strip()
        if len(text) >= len(fence) and not text.strip(fence[0]) and text:
            return number
    return len(lines)


def _sections(lines: list[str], headings: list[tuple[int, int, str]], first_line: int) -> tuple[Section, ...]:
    ends = [*(start for start, _, _ in headings), len(lines)][1:]
    return tuple(
        Section(title, level, "".join(lines[start + 1 : end]).strip("\r\n"), first_line + start)
        for (start, level, title), end in zip(headings, ends, strict=True)
    )
