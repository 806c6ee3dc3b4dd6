"""Writing values as YAML that every reader takes for the same value."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Final

__all__ = ["dump_entry", "dump_text"]

_RESERVED: Final = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf"})
_UNPRINTABLE: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\xa0\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")
_NOT_PLAIN: Final = re.compile("[\x00-\x1f\x7f-\xa0\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")
_ESCAPED: Final = re.compile('[\x00-\x1f"\\\\\x7f-\xa0\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]')
_SHORT: Final = {"\n": "\\n", "\t": "\\t", "\r": "\\r", '"': '\\"', "\\": "\\\\", "\0": "\\0"}


def dump_entry(key: str, value: object, *, indent: int = 0) -> str:
    """One `key: value` entry with its newline; nested values on lines of their own, two spaces deeper."""
    pad = " " * indent
    name = dump_text(key)
    if isinstance(value, Mapping) and value:
        return f"{pad}{name}:\n" + "".join(dump_entry(str(below), item, indent=indent + 2) for below, item in value.items())
    if isinstance(value, (list, tuple)) and value:
        return f"{pad}{name}:\n" + "".join(_dump_item(item, indent + 2) for item in value)
    if isinstance(value, str) and _fits_block(value):
        return f"{pad}{name}: {_dump_block(value, indent + 2)}"
    return f"{pad}{name}: {_dump_scalar(value)}\n"


def _dump_item(value: object, indent: int) -> str:
    """One item of a list; a mapping's or list's lines follow the dash."""
    pad = " " * indent
    if isinstance(value, Mapping) and value:
        lines = "".join(dump_entry(str(key), item, indent=indent + 2) for key, item in value.items())
        return f"{pad}- {lines[indent + 2 :]}"
    if isinstance(value, (list, tuple)) and value:
        return f"{pad}- " + "".join(_dump_item(item, indent + 2) for item in value)[indent + 2 :]
    return f"{pad}- {_dump_scalar(value)}\n"


def _dump_scalar(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)):
        return repr(value)
    if isinstance(value, Mapping):
        return "{}"
    if isinstance(value, (list, tuple)):
        return "[]"
    return dump_text(str(value))


def dump_text(text: str) -> str:
    """A text on one line: plain where nobody can misread it, else in single quotes, else in double quotes with escapes.

    >>> print(dump_text("Use when: asked"))
    'Use when: asked'
    """
    if _is_plain(text):
        return text
    if _NOT_PLAIN.search(text):
        return '"' + _ESCAPED.sub(_escape, text) + '"'
    return "'" + text.replace("'", "''") + "'"


def _is_plain(text: str) -> bool:
    """Whether no YAML version takes the unquoted text for anything but this text; in doubt it is quoted."""
    if not text[:1].isalpha() or text != text.strip() or text.endswith(":") or text.lower() in _RESERVED:
        return False
    return ": " not in text and " #" not in text and not _NOT_PLAIN.search(text)


def _escape(found: re.Match[str]) -> str:
    char = found[0]
    code = ord(char)
    if 0xD800 <= code < 0xE000:
        return "\N{REPLACEMENT CHARACTER}"  # half a character can be written in no encoding
    return _SHORT.get(char) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")


def _fits_block(text: str) -> bool:
    """Whether a text of several lines reads well as a literal block."""
    lines = text.removesuffix("\n").split("\n")
    tidy = all(line == line.rstrip() for line in lines) and lines[0] and lines[-1] and not lines[0].startswith(" ")
    return len(lines) > 1 and bool(tidy) and "\t" not in text and not _UNPRINTABLE.search(text)


def _dump_block(text: str, indent: int) -> str:
    pad = " " * indent
    mark = "|\n" if text.endswith("\n") else "|-\n"
    return mark + "".join(f"{pad}{line}\n" if line else "\n" for line in text.removesuffix("\n").split("\n"))
