"""An index as a value: its text, what became of each skill, and what the next index needs to go on from it.

It becomes plain data and comes back (`to_dict`, `from_dict`), so that a session can keep it wherever it keeps its own state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NoReturn, TypedDict, TypeGuard

from skillyard.errors import InvalidInput
from skillyard.prompt.budget import IndexLine
from skillyard.prompt.entry import WHOLE, count_tokens
from skillyard.prompt.styles import FORMS, Style

_LONGEST: Final = 100_000  # lines or omissions of an index that is read back


class OmissionShape(TypedDict):
    """An omission as plain data."""

    id: str
    reason: str


class IndexShape(TypedDict):
    """An index as plain data: the answer of `skillyard prompt --json`.

    `lines` are `[id, allowance, turn]`: what was shown, in order, how much of it (-1 whole, 0 the name, else quarter tokens of
    its description), and in which turn it was required last (0: it only filled the room).
    """

    text: str
    tokens: int
    kept: list[str]
    shortened: list[str]
    omitted: list[OmissionShape]
    more: int
    added: list[str]
    dropped: list[str]
    unchanged: int
    style: str
    budget: int | None
    turn: int
    lines: list[list[str | int]]


@dataclass(frozen=True, slots=True)
class Omission:
    """A skill that the index does not mention, and why."""

    id: str
    reason: str

    def to_dict(self) -> OmissionShape:
        """The omission as plain data."""
        return {"id": self.id, "reason": self.reason}


@dataclass(frozen=True, slots=True)
class Index:
    """The text for a system prompt, what it costs, and what became of each skill.

    Every skill is in exactly one of `kept` (all its words are there), `shortened` (listed with a cut description or by name
    only) and `omitted`. `more` of the omitted ones could be used but had no room: the text explains how to find them.

    An index that went on from a previous one lists what it `added` and `dropped`, and that the first `unchanged` characters of
    its text are those of the previous text. `turn` counts the indexes of one conversation, from 1.
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
    style: Style = "compact"
    budget: int | None = None
    turn: int = 1
    lines: tuple[IndexLine, ...] = ()

    def to_dict(self) -> IndexShape:
        """The index as plain data, for JSON; `from_dict` takes it back."""
        return {
            "text": self.text,
            "tokens": self.tokens,
            "kept": list(self.kept),
            "shortened": list(self.shortened),
            "omitted": [omission.to_dict() for omission in self.omitted],
            "more": self.more,
            "added": list(self.added),
            "dropped": list(self.dropped),
            "unchanged": self.unchanged,
            "style": self.style,
            "budget": self.budget,
            "turn": self.turn,
            "lines": [[line.id, line.allowance, line.used] for line in self.lines],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, object]) -> Index:
        """The index that `to_dict` wrote, to go on from.

        Raises:
            InvalidInput: the data is not that of an index.
        """
        text, turn, budget = data.get("text"), data.get("turn"), data.get("budget")
        style = next((style for style in FORMS if style == data.get("style")), None)
        if not isinstance(text, str) or style is None or not _is_count(turn) or turn < 1:
            _refuse("it has no text, style or turn")
        if budget is not None and not _is_count(budget):
            _refuse("its budget is no number")
        return cls(
            text=text,
            tokens=count_tokens(text),
            kept=_ids(data, "kept"),
            shortened=_ids(data, "shortened"),
            omitted=tuple(_omission(item) for item in _list(data, "omitted")),
            more=_count(data, "more"),
            added=_ids(data, "added"),
            dropped=_ids(data, "dropped"),
            unchanged=_count(data, "unchanged"),
            style=style,
            budget=budget,
            turn=turn,
            lines=tuple(_line(item) for item in _list(data, "lines")),
        )


def _list(data: Mapping[str, object], name: str) -> Sequence[object]:
    value = data.get(name, [])
    if not isinstance(value, list | tuple) or len(value) > _LONGEST:
        _refuse(f"its {name} are not a list")
    return value


def _ids(data: Mapping[str, object], name: str) -> tuple[str, ...]:
    values = _list(data, name)
    if not all(isinstance(value, str) for value in values):
        _refuse(f"its {name} are not ids")
    return tuple(str(value) for value in values)


def _count(data: Mapping[str, object], name: str) -> int:
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
    raise InvalidInput(f"this is not an index: {why}", hint="give what `Index.to_dict` or `skillyard prompt --json` wrote")
