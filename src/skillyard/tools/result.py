"""What a tool answers: a value with a stable code, never an exception into a model's loop."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from skillyard.text import sanitize, shorten, single_line

__all__ = ["ToolResult", "as_json", "clean", "failure"]

_TITLE: Final = 300  # characters


@dataclass(frozen=True, slots=True)
class ToolResult:
    """One answer of a tool.

    `text` is what goes to the model. `ok` says whether the tool did what was asked; when it did not, `code` is one of the codes
    of `skillyard.errors` (or `unknown_tool`) and `text` says what to do instead. `title` is one line for a person who watches.
    `data` is the same answer for programs.
    """

    text: str
    ok: bool = True
    code: str | None = None
    title: str | None = None
    data: Mapping[str, object] = field(default_factory=dict)


def failure(code: str, title: str, text: str, **data: object) -> ToolResult:
    """A `ToolResult` that says no, its title on one line; `data` always carries `code` and `message`."""
    title = shorten(single_line(title), _TITLE)
    return ToolResult(sanitize(text), ok=False, code=code, title=title, data={"code": code, "message": title} | data)


def as_json(value: object) -> str:
    """`value` as JSON a model can read: sanitized, Unicode kept, no needless spaces."""
    return json.dumps(clean(value), ensure_ascii=False, separators=(", ", ": "), default=str)


def clean(value: object) -> object:
    """`value` with every text in it sanitized, keys included."""
    if isinstance(value, str):
        return sanitize(value)
    if isinstance(value, Mapping):
        return {sanitize(str(key)): clean(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [clean(item) for item in value]
    return value
