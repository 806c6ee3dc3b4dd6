"""JSON that strangers wrote, read strictly and not deeper than others can write it again.

What is nested a thousand deep can still be read, and breaks whoever writes it: records, screens, clients.
"""

from __future__ import annotations

import json
import math
from typing import Final

__all__ = ["MAXIMUM_DEPTH", "is_too_deep", "read_json"]

MAXIMUM_DEPTH: Final = 64


def read_json(text: str) -> object:
    """The value of one JSON document.

    Raises:
        ValueError: it is none, holds NaN or an infinity, or is more than `MAXIMUM_DEPTH` levels deep.
    """
    try:
        value: object = json.loads(text, parse_constant=_refused, parse_float=_finite)
    except RecursionError:
        raise _too_deep() from None
    if is_too_deep(value):
        raise _too_deep()
    return value


def is_too_deep(value: object) -> bool:
    """Whether a value made of dictionaries and lists is more than `MAXIMUM_DEPTH` levels deep; linear in its size."""
    level = [value]
    for _ in range(MAXIMUM_DEPTH):
        level = [child for item in level if isinstance(item, dict | list) for child in _below(item)]
    return any(isinstance(item, dict | list) for item in level)


def _below(item: dict[str, object] | list[object]) -> list[object]:
    return list(item.values()) if isinstance(item, dict) else item


def _too_deep() -> ValueError:
    return ValueError(f"it is more than {MAXIMUM_DEPTH} levels deep")


def _finite(text: str) -> float:
    if not math.isfinite(number := float(text)):
        raise ValueError(f"{text[:40]} is too large a number")
    return number


def _refused(name: str) -> object:
    raise ValueError(f"{name} is not JSON")
