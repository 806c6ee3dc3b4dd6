"""The JSON object in what a model wrote: the last one that is valid, or one that three small repairs make valid.

The repairs are those of row 000-33 and no others: a quote that is missing at the end, brackets that are missing at the end,
commas that are missing between two values. Nothing is guessed about the middle of a text. Each pass over the text is linear,
and the number of passes is bounded, so that hostile text costs no more than long text.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Final

__all__ = ["Found", "find_object"]

# A text that never ends goes to the end, so that no quote is looked at twice.
_TOKEN: Final = re.compile(r'"(?>[^"\\]+|\\.)*+(?:"|\\?\Z)|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)
_BRACE_OR_TEXT: Final = re.compile(r'"(?>[^"\\]+|\\.)*+(?:"|\\?\Z)|[{}]', re.DOTALL)
_WHOLE_TEXT: Final = re.compile(r'"(?>[^"\\]+|\\.)*+"', re.DOTALL)
_AT_END: Final = " \t\r\n}]"
_CLOSER: Final = {"{": "}", "[": "]"}
_DEEPEST: Final = 500
_STARTS: Final = 5  # how often a stray brace is passed over, and how many invalid objects are repaired


@dataclass(frozen=True, slots=True)
class Found:
    """One JSON object, and whether it had to be repaired."""

    value: dict[str, object]
    repaired: bool = False


def find_object(text: str) -> Found | None:
    """The last valid JSON object that is not inside another one; without any, the last that can be repaired; else None.

    When an object never ends and cannot be repaired, it may be a stray brace in prose: the search goes on behind it.
    """
    start = 0
    for _ in range(_STARTS):
        spans, endless = _outermost(text, start)
        for begin, end in reversed(spans):
            if (value := _read(text[begin:end])) is not None:
                return Found(value)
        unfinished = [text[endless:]] if endless >= 0 else []
        for piece in [*unfinished, *(text[begin:end] for begin, end in spans[: -_STARTS - 1 : -1])]:
            fixed = _repair(piece)
            if fixed is not None and (value := _read(fixed)) is not None:
                return Found(value, repaired=True)
        if endless < 0:
            break
        start = endless + 1
    return None


def _outermost(text: str, start: int) -> tuple[list[tuple[int, int]], int]:
    """Where the outermost objects from `start` on begin and end, and where one begins that never ends (-1: none does)."""
    spans: list[tuple[int, int]] = []
    opening = text.find("{", start)
    while opening >= 0:
        end = _end_of_object(text, opening)
        if end < 0:
            return spans, opening
        spans.append((opening, end))
        opening = text.find("{", end)
    return spans, -1


def _end_of_object(text: str, opening: int) -> int:
    depth = 0
    for match in _BRACE_OR_TEXT.finditer(text, opening):
        sign = match[0]
        if sign == "{":
            depth += 1
        elif sign == "}":
            depth -= 1
            if depth == 0:
                return match.end()
    return -1


def _read(text: str) -> dict[str, object] | None:
    try:
        value = json.loads(text, strict=False, parse_constant=_refused)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _refused(name: str) -> object:
    raise ValueError(name)


def _repair(text: str) -> str | None:
    """`text` with what is missing put in; None when brackets do not match or nest too deeply."""
    parts: list[str] = []
    open_brackets: list[str] = []
    before = ""
    for match in _TOKEN.finditer(text):
        sign = match[0]
        if sign in "{[":
            open_brackets.append(_CLOSER[sign])
        elif sign in "}]" and (not open_brackets or open_brackets.pop() != sign):
            return None
        elif sign[0] == '"' and not _WHOLE_TEXT.fullmatch(sign):
            return _closed_text(parts, before, sign, open_brackets)
        if len(open_brackets) > _DEEPEST:
            return None
        parts += [",", sign] if _needs_comma(before, sign) else [sign]
        before = sign
        if not open_brackets:
            break
    return "".join(parts) + "".join(reversed(open_brackets))


def _closed_text(parts: list[str], before: str, sign: str, open_brackets: list[str]) -> str:
    """The end of an object whose last text has no closing quote.

    Brackets at the very end that are just those still open belong to the object, not to the text.
    """
    expected = "".join(reversed(open_brackets))
    inside = sign.rstrip(_AT_END)
    if "".join(sign[len(inside) :].split()) == expected:
        sign = inside
    comma = "," if _needs_comma(before, sign) else ""
    return f'{"".join(parts)}{comma}{_without_half_escape(sign)}"{expected}'


def _without_half_escape(sign: str) -> str:
    slashes = len(sign) - len(sign.rstrip("\\"))
    return sign[:-1] if slashes % 2 else sign


def _needs_comma(before: str, sign: str) -> bool:
    """Whether both are values, or the end of one and the beginning of the next."""
    ends = bool(before) and before not in "{[,:"
    return ends and sign not in ("}", "]", ",", ":")
