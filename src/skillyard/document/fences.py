"""Finding the front matter of a SKILL.md: two lines that hold nothing but a fence, and what is between them.

A fence is `---` alone on its line (white space may follow). The closing one may be `...`. A line of `----`, or `---` inside a
value, is never a fence. A byte order mark and blank lines may come before the opening fence.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from skillyard.document.limits import HEADER_LIMIT
from skillyard.document.summary import NeedMore

__all__ = ["Fences", "find_fences"]

_BOM: Final = b"\xef\xbb\xbf"

FenceProblem = Literal["front-matter-missing", "front-matter-unclosed", "front-matter-language", "front-matter-too-large"]


class Fences(NamedTuple):
    """Where the front matter is, in bytes: the header is `data[start:end]`, the closing fence's line ends at `body`."""

    start: int
    end: int
    body: int
    problem: FenceProblem | None = None


def find_fences(data: bytes, *, complete: bool = True) -> Fences:
    """Find the front matter in the bytes of a file, or in its first bytes when `complete` is false.

    Costs one search through at most `HEADER_LIMIT` bytes, whatever is in them.

    Raises:
        NeedMore: the data is incomplete, shorter than `HEADER_LIMIT`, and ends before the closing fence does.
    """
    more = not complete and len(data) < HEADER_LIMIT
    start = _after_opening(data, more=more)
    if start < 0:
        return Fences(0, 0, 0, "front-matter-missing" if start == -1 else "front-matter-language")
    return _closing(data, start, more=more)


def _after_opening(data: bytes, *, more: bool) -> int:
    """The offset behind the opening fence's line; -1 when there is none, -2 when it names a language."""
    if data.startswith(b"---\n"):
        return 4
    begin = 3 if data.startswith(_BOM) else 0
    while (line_end := data.find(b"\n", begin)) >= 0 and not data[begin:line_end].strip():
        begin = line_end + 1
    if more and line_end < 0:
        raise NeedMore
    line = data[begin:] if line_end < 0 else data[begin:line_end]
    if not line.startswith(b"---") or line.startswith(b"----"):
        return -1
    if line[3:].strip():
        return -2
    return len(data) if line_end < 0 else line_end + 1


def _closing(data: bytes, start: int, *, more: bool) -> Fences:
    found = _fence_line(data, b"---", start, HEADER_LIMIT, more=more)
    # `...` is rare: look for it only in front of the fence that was found.
    limit = found[0] if found else HEADER_LIMIT
    found = _fence_line(data, b"...", start, limit, more=more) or found
    if found:
        return Fences(start, *found)
    if more:
        raise NeedMore
    problem: FenceProblem = "front-matter-unclosed" if len(data) < HEADER_LIMIT else "front-matter-too-large"
    return Fences(start, start, start, problem)


def _fence_line(data: bytes, fence: bytes, start: int, limit: int, *, more: bool) -> tuple[int, int] | None:
    """Where the first line that is only `fence` begins and where the next line begins."""
    at = start - 1
    needle = b"\n" + fence
    while (at := data.find(needle, at, limit)) >= 0:
        line_end = data.find(b"\n", at + 4)
        if line_end == at + 4:
            return at + 1, line_end + 1
        if line_end < 0:
            if more:
                raise NeedMore
            line_end = len(data)
        if not data[at + 4 : line_end].strip():
            return at + 1, min(line_end + 1, len(data))
        at += 4
    return None
