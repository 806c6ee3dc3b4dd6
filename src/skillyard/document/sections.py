"""The shape of the body: its sections and its code blocks (row 000-28)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

CODE_LANGUAGES: Final = frozenset({"ts", "typescript", "js", "javascript", "py", "python", "sh", "bash", "shell"})
"""The languages of a code block that somebody may have meant to be run (row C-4)."""

# Neither pattern goes on to the end of the line: what follows is cut with string methods, which cannot be made slow.
_HEADING: Final = re.compile(r" {0,3}(#{2,3})[ \t]")
_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})")


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
        if (fence := _FENCE.match(line)) and (fence[1][0] == "~" or "`" not in line[fence.end() :]):
            end = _closing_fence(lines, number + 1, fence[1])
            text = "".join(lines[number + 1 : end])
            blocks.append(CodeBlock(_language(line[fence.end() :]), text, first_line + number))
            number = end
        elif heading := _HEADING.match(line):
            headings.append((number, len(heading[1]), _title(line[heading.end() :])))
        number += 1
    return _sections(lines, headings, first_line), tuple(blocks)


def _language(info: str) -> str:
    """The first word behind a fence, without the braces some writers put around it."""
    word = info.strip().partition(" ")[0].partition("\t")[0]
    return word.partition("{")[0].lower()


def _title(text: str) -> str:
    """A heading's text without the `##` that may close it."""
    title = text.strip()
    bare = title.rstrip("#")
    return bare.rstrip() if bare != title and bare[-1:] in ("", " ", "\t") else title


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
