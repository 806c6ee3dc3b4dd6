"""What a text costs, and how it is cut to a cost.

A token is taken as four characters; a Chinese, Japanese, Korean or other wide character is one by itself. Costs are counted in
quarter tokens, because those add up exactly: the cost of two texts is the sum of their costs.
"""

from __future__ import annotations

import re
from typing import Final

from skillyard.text import shorten

QUARTERS: Final = 4  # quarter tokens in one token
_EXTRA: Final = QUARTERS - 1
# Hangul, CJK with its punctuation, kana, full-width forms, emoji and the supplementary ideographs.
_WIDE: Final = re.compile(
    "[\u1100-\u115f\u2e80-\ua4cf\ua960-\ua97c\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6"
    "\U0001f000-\U0001faff\U00020000-\U0003fffd]"
)


def count_tokens(text: str) -> int:
    """The tokens `text` is reckoned at: characters / 4, rounded up, wide characters one each."""
    return -(-quarters(text) // QUARTERS)


def quarters(text: str) -> int:
    """The cost of `text` in quarter tokens: one a character, four a wide one."""
    if text.isascii():
        return len(text)
    return len(text) + _EXTRA * len(_WIDE.findall(text))


def cut(text: str, allowance: int) -> str:
    """`text` at no more than `allowance` quarter tokens, cut at a word boundary and ended with `…` when it is longer."""
    if quarters(text) <= allowance:
        return text
    if text.isascii():
        return shorten(text, allowance)
    if allowance <= 0:
        return ""
    fitting = _fitting(text, allowance - 1)  # one quarter is for the ellipsis
    return shorten(f"{text[: fitting + 1]} ", fitting + 1)  # the space keeps the text longer than the limit


def _fitting(text: str, room: int) -> int:
    """How many leading characters of `text` cost no more than `room`."""
    for wide in _WIDE.finditer(text):
        if wide.start() + QUARTERS > room:
            return max(0, min(wide.start(), room))
        room -= _EXTRA
    return max(0, min(len(text), room))


def cut_list(text: str, allowance: int) -> str:
    """`text`, a list joined by `, `, at no more than `allowance` quarter tokens: whole entries, then `…`."""
    if quarters(text) <= allowance:
        return text
    end = text.rfind(", ", 0, _fitting(text, allowance - len(", …")) + len(", "))
    short = f"{text[:end]}, …" if end > 0 else "…"
    return short if quarters(short) <= allowance else ""
