"""The tree a front matter is read into: every value with the text that was written and the line it is on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

__all__ = ["Mapping", "Node", "Scalar", "Sequence", "as_data", "as_text", "typed"]


@dataclass(slots=True)
class Scalar:
    """A single value: its text after quotes and folds are resolved, and whether it was written without quotes."""

    text: str
    plain: bool
    line: int


@dataclass(slots=True)
class Sequence:
    """A list of values."""

    items: list[Node]
    line: int


@dataclass(slots=True)
class Mapping:
    """Keys and values in the order written; keys are unique text."""

    entries: dict[str, Node]
    line: int
    key_lines: dict[str, int] = field(default_factory=dict)

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)


Node = Scalar | Sequence | Mapping


def as_text(node: Node) -> object:
    """The value with every scalar as the text that was written: str, list or dict."""
    if isinstance(node, Scalar):
        return node.text
    if isinstance(node, Sequence):
        return [as_text(item) for item in node.items]
    return {key: as_text(value) for key, value in node.entries.items()}


def as_data(node: Node) -> object:
    """The value with unquoted scalars typed as JSON would have them: for schemas and settings, never for names."""
    if isinstance(node, Scalar):
        return typed(node)
    if isinstance(node, Sequence):
        return [as_data(item) for item in node.items]
    return {key: as_data(value) for key, value in node.entries.items()}


# The core schema of YAML 1.2: `no`, `12:30` and `2001-01-01` are text there.
_CONSTANTS: Final[dict[str, bool | None]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INTEGER: Final = re.compile(r"[-+]?[0-9]{1,400}")
_PREFIXED: Final = re.compile(r"0o[0-7]{1,400}|0x[0-9a-fA-F]{1,400}")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_LONGEST_NUMBER: Final = 400  # far below the length at which Python refuses to convert digits


def typed(scalar: Scalar) -> str | bool | int | float | None:
    """The value of a scalar by the core schema of YAML 1.2; infinity and not-a-number stay text, as JSON has none."""
    text = scalar.text
    if not scalar.plain:
        return text
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if len(text) > _LONGEST_NUMBER or text[0] not in "+-.0123456789":
        return text
    if _INTEGER.fullmatch(text):
        return int(text)
    if _PREFIXED.fullmatch(text):
        return int(text, 0)
    return float(text) if _FLOAT.fullmatch(text) and abs(float(text)) != float("inf") else text
