"""Untrusted JSON, read strictly and not deeper than other programs can write it again.

What is nested a thousand deep can still be read, and breaks what writes it: records, screens, clients.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Final

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


REDACTED: Final = "[redacted]"
_MAX_DEPTH: Final = 64  # what the result pipe allows
_SECRET: Final = re.compile(
    r"apikey|password|passwd|passphrase|secret|credential|privatekey|authorization|cookie|token(?!s|usage|count|limit)"
)
_NOT_LETTERS: Final = re.compile(r"[^a-z]")


def to_redacted_json(value: object) -> object:
    """`value` as plain JSON; values under names such as `apiKey`, `password` or `token` are redacted.

    Redaction goes by names and guards against accidents: a secret inside a sentence stays.
    """
    return _plain(value, 0, redact=True)


def redacted_arguments(arguments: Sequence[str]) -> list[str]:
    """The arguments of a command line; the value of an option such as `--api-key` or `--password=…` is redacted."""
    shown: list[str] = []
    for argument in arguments:
        name, equals, value = argument.partition("=")
        before = shown[-1] if shown else ""
        if name.startswith("-") and equals and _is_secret(name, value):
            shown.append(f"{name}={REDACTED}")
        elif before.startswith("-") and "=" not in before and not argument.startswith("-") and _is_secret(before, argument):
            shown.append(REDACTED)
        else:
            shown.append(_encodable(argument))
    return shown


def to_plain_json(value: object) -> object:
    """`value` as plain JSON: numbers that are none become text, and so does what JSON does not know."""
    return _plain(value, 0, redact=False)


def with_redacted(value: object, before: object) -> object:
    """`value`, in which what was redacted stands again as it was in `before`: somebody edited what they were shown."""
    if isinstance(value, Mapping) and isinstance(before, Mapping):
        return {key: with_redacted(inner, before.get(key)) for key, inner in value.items()}
    if isinstance(value, list | tuple) and isinstance(before, list | tuple) and len(value) == len(before):
        return [with_redacted(inner, was) for inner, was in zip(value, before, strict=True)]
    if isinstance(value, str) and before is not None:
        option = isinstance(before, str) and value == f"{before.partition('=')[0]}={REDACTED}"
        return before if option or value == REDACTED else value
    return value


def _plain(value: object, depth: int, *, redact: bool) -> object:
    if isinstance(value, str):
        return _encodable(value)
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if depth >= _MAX_DEPTH:
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
    """The text as every answer can encode it: half of a pair of surrogates, which JSON lets through, is a question mark."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


_ESCAPE: Final = re.compile(r"\\\\|\\ud[89ab][0-9a-f]{2}\\ud[c-f][0-9a-f]{2}|(\\ud[89a-f][0-9a-f]{2})")
"""A written backslash, a pair of surrogates, or one without the other."""


def encodable_json(text: str) -> str:
    """JSON in ASCII, as `json.dumps` writes it, that every reader can read: half of a pair of surrogates is a question mark."""
    return _ESCAPE.sub(lambda found: "?" if found[1] else found[0], text) if "\\ud" in text else text


def _is_secret(name: str, value: object) -> bool:
    held = isinstance(value, str | int | float | list | tuple) and not isinstance(value, bool)
    return held and bool(_SECRET.search(_NOT_LETTERS.sub("", name.lower())))
