"""Values as they are recorded: plain JSON that any database takes, without secrets (row 000-40)."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Final

__all__ = ["LOG", "REDACTED", "plain", "recordable", "tail"]

REDACTED: Final = "[redacted]"
_DEEPEST: Final = 64  # what the result pipe allows
LOG: Final = 64 * 1024
"""How many characters of each stream are kept."""

_SECRET: Final = re.compile(
    r"apikey|password|passwd|passphrase|secret|credential|privatekey|authorization|cookie|token(?!s|usage|count|limit)"
)
_NOT_LETTERS: Final = re.compile(r"[^a-z]")


def recordable(value: object) -> object:
    """`value` as plain JSON; what stands under a name such as `apiKey`, `password` or `token` is redacted.

    Redaction goes by names and guards against accidents: a secret inside a sentence stays.
    """
    return _plain(value, 0, redact=True)


def plain(value: object) -> object:
    """`value` as plain JSON: numbers that are none become text, and so does what JSON does not know."""
    return _plain(value, 0, redact=False)


def _plain(value: object, depth: int, *, redact: bool) -> object:
    if isinstance(value, str):
        return _encodable(value)
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if depth >= _DEEPEST:
        return "…"
    if isinstance(value, Mapping):
        members = ((_encodable(str(key)), inner) for key, inner in value.items())
        return {
            key: REDACTED if redact and _is_secret(key, inner) else _plain(inner, depth + 1, redact=redact)
            for key, inner in members
        }
    if isinstance(value, list | tuple):
        return [_plain(inner, depth + 1, redact=redact) for inner in value]
    return _encodable(str(value))


def _encodable(text: str) -> str:
    """The text as every answer can carry it: half of a pair of surrogates, which JSON lets through, is a question mark."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _is_secret(name: str, value: object) -> bool:
    held = isinstance(value, str | int | float | list | tuple) and not isinstance(value, bool)
    return held and bool(_SECRET.search(_NOT_LETTERS.sub("", name.lower())))


def tail(log: str) -> str:
    """The end of a log, at most 65,536 characters."""
    return log if len(log) <= LOG else "…" + log[-LOG:]
