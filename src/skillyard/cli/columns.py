"""Rows of text in aligned columns, counted in the cells a terminal draws; quick enough for ten thousand rows."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

__all__ = ["aligned", "cells", "cut"]

_GAP: Final = "  "


def cells(text: str) -> int:
    """How many cells a terminal draws `text` in: Chinese, Japanese and Korean characters take two, combining marks none."""
    return len(text) if text.isascii() else sum(map(_width, text))


def _width(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def cut(text: str, limit: int) -> str:
    """`text` in at most `limit` cells, ending in `…` when something was cut."""
    if len(text) <= limit and cells(text) <= limit:
        return text
    if text.isascii():
        return text[: limit - 1].rstrip() + "…"
    kept, used = [], 1
    for character in text:
        used += _width(character)
        if used > limit:
            break
        kept.append(character)
    return "".join(kept).rstrip() + "…"


def aligned(rows: Iterable[Sequence[str]], widths: Sequence[int]) -> Iterator[list[str]]:
    """Each row's cells cut to the widths and padded to them; the last one is not padded."""
    last = len(widths) - 1
    for row in rows:
        line = []
        for index, (cell, width) in enumerate(zip(row, widths, strict=True)):
            text = cut(cell, width)
            line.append(text if index == last else text + " " * (width - cells(text)) + _GAP)
        yield line
