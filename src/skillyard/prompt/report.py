"""An index as a value: its text, the result for each skill, and what the next index needs to continue it.

It becomes plain data and comes back (`to_dict`, `from_dict`), so that a session can keep it wherever it keeps its own state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, NoReturn, TypeGuard

from skillyard.errors import InvalidInput
from skillyard.prompt.entry import WHOLE, count_tokens
from skillyard.prompt.styles import is_style
from skillyard.wire import WireForm

_LONGEST: Final = 100_000  # lines or omissions of an index that is read back
NEVER: Final = 0  # the turn of a skill that only filled the room


class IndexLine(NamedTuple):
    """One skill in an index; `allowance` is -1 for all of it, 0 for its name, else the quarter tokens of its description.

    `used` is the turn that last required it, 0 when it only filled the room.
    """

    id: str
    allowance: int
    used: int = NEVER


@dataclass(frozen=True, slots=True)
class Omission(WireForm):
    """A skill that the index does not mention, and why."""

    id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Index(WireForm):
    """The text for a system prompt, what it costs, and how much of each skill it shows.

    Every skill is in exactly one of `kept` (all its words are there), `shortened` (listed with a cut description or by name
    only) and `omitted`. `more` of the omitted ones could be used but had no room: the text explains how to find them.

    An index that continues a previous one lists what it `added` and `dropped`, and that the first `unchanged` characters of
    its text are those of the previous text. `turn` counts the indexes of one conversation, from 1. `lines` are the skills that
    are shown, in order; as plain data a line is `[id, allowance, used]`.
    """

    text: str
    tokens: int
    kept: tuple[str, ...] = ()
    shortened: tuple[str, ...] = ()
    omitted: tuple[Omission, ...] = ()
    more: int = 0
    added: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    unchanged: int = 0
    style: str = "compact"
    budget: int | None = None
    turn: int = 1
    lines: tuple[IndexLine, ...] = ()

    @classmethod
    def from_dict(cls, data: Mapping[str, object]) -> Index:
        """The index that `to_dict` wrote, to continue it.

        Raises:
            InvalidInput: the data is not that of an index.
        """
        text, turn, budget = data.get("text"), data.get("turn"), data.get("budget")
        style = data.get("style")
        if not isinstance(text, str) or not is_style(style) or not _is_count(turn) or turn < 1:
            _refuse("it has no text, style or turn")
        if budget is not None and not _is_count(budget):
            _refuse("its budget is no number")
        return cls(
            text=text,
            tokens=count_tokens(text),
            omitted=tuple(_omission(item) for item in _list(data, "omitted")),
            style=style,
            budget=budget,
            turn=turn,
            lines=tuple(_line(item) for item in _list(data, "lines")),
            **{name: _ids(data, name) for name in ("kept", "shortened", "added", "dropped")},
            **{name: _count(data, name) for name in ("more", "unchanged")},
        )


def _list(data: Mapping[str, object], name: str) -> Sequence[object]:
    value = data.get(name, [])
    if not isinstance(value, list | tuple) or len(value) > _LONGEST:
        _refuse(f"its {name} are not a list")
    return value


def _ids(data: Mapping[str, object], name: str) -> Any:
    values = _list(data, name)
    if not all(isinstance(value, str) for value in values):
        _refuse(f"its {name} are not ids")
    return tuple(str(value) for value in values)


def _count(data: Mapping[str, object], name: str) -> Any:
    value = data.get(name, 0)
    return value if _is_count(value) else _refuse(f"its {name} is no number")


def _is_count(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _omission(item: object) -> Omission:
    match item:
        case {"id": str(skill_id), "reason": str(reason)}:
            return Omission(skill_id, reason)
    return _refuse("an omission has no id or reason")


def _line(item: object) -> IndexLine:
    match item:
        case [str(skill_id), int(allowance), int(used)] if allowance >= WHOLE and used >= 0:
            return IndexLine(skill_id, allowance, used)
    return _refuse("a line is not an id, an allowance and a turn")


def _refuse(why: str) -> NoReturn:
    raise InvalidInput(f"this is not an index: {why}", hint="pass what `Index.to_dict` or `skillyard prompt --json` wrote")
