"""A piece of text to look into: where it is from, what language it is in, and what it is there for."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, Literal

from skillyard.text import shorten, single_line

__all__ = ["Hit", "Language", "Role", "Source", "evidence_of"]

Language = Literal["python", "shell", "javascript", "powershell", "markdown", "html", "data", "text"]
Role = Literal["script", "example", "prose", "comment", "data"]
"""`script`: runs as it is; `example`: code in a document; `prose`: what a model reads; `comment`: what nobody is shown."""

_EVIDENCE: Final = 120


@dataclass(frozen=True, slots=True)
class Hit:
    """A place in a source where a rule found something; `offset` counts characters from the source's start."""

    rule: str
    offset: int
    message: str = ""
    """Said instead of the rule's title."""
    evidence: str = ""
    """Shown instead of the line."""
    relief: int = 0
    """How many steps less it weighs here than the rule says."""


@dataclass(frozen=True)
class Source:
    """One text in one language; `first_line` is the line of the file it begins on, counted from 1."""

    file: str
    text: str
    language: Language
    role: Role
    first_line: int = 1
    origin: str = ""
    """How the text was come by, when it does not stand in the file like this, for example `in base64`."""
    fixed_line: int | None = field(default=None)
    """The line of the file that every finding is reported at, for a text that was taken out of one line."""

    @property
    def example(self) -> bool:
        """Whether the text only shows what somebody may do."""
        return self.role == "example"

    @cached_property
    def lower(self) -> str:
        """The text in lower case, each character where it was, for quick looks at where a word occurs."""
        low = self.text.lower()
        return (
            low if len(low) == len(self.text) else "".join(one if len(one.lower()) != 1 else one.lower() for one in self.text)
        )

    @cached_property
    def _starts(self) -> list[int]:
        starts, at = [0], self.text.find("\n")
        while at >= 0:
            starts.append(at + 1)
            at = self.text.find("\n", at + 1)
        return starts

    def place(self, offset: int) -> tuple[int, int]:
        """The line and column of an offset in the file."""
        index = bisect_right(self._starts, offset) - 1
        if self.fixed_line is not None:
            return self.fixed_line, 1
        return self.first_line + index, offset - self._starts[index] + 1

    def offset_of(self, line: int, column: int = 0) -> int:
        """The offset of a line of the text, counted from 1, and a column, counted from 0."""
        return self._starts[min(max(line, 1), len(self._starts)) - 1] + column

    def line_at(self, offset: int) -> str:
        """The line around an offset, cut to what is near it when it is long."""
        start = self.text.rfind("\n", 0, offset) + 1
        end = self.text.find("\n", offset)
        end = len(self.text) if end < 0 else end
        return self.text[max(start, offset - _EVIDENCE // 2) if end - start > _EVIDENCE else start : min(end, offset + 400)]

    def whole_line(self, offset: int) -> tuple[str, int]:
        """The line around an offset, of a long one a part, and where in it the offset is."""
        start = max(self.text.rfind("\n", 0, offset) + 1, offset - 600)
        end = self.text.find("\n", offset, offset + 600)
        return self.text[start : end if end >= 0 else offset + 600], offset - start

    def lines_near(self, offset: int) -> tuple[str, str]:
        """The line around an offset and the one before it, each cut to its beginning when it is long."""
        start = self.text.rfind("\n", 0, offset) + 1
        before = self.text.rfind("\n", 0, max(start - 1, 0)) + 1
        end = self.text.find("\n", offset)
        return self.text[start : min(end if end >= 0 else len(self.text), start + 2000)], self.text[
            before : min(start, before + 2000)
        ]


def evidence_of(text: str) -> str:
    """Text of a stranger as one short line that steers no terminal."""
    return shorten(single_line(text[:2000]), _EVIDENCE)
