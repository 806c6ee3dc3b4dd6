"""Who is shown, and how much of each, when not everything fits; the report of it, and an index kept as it was shown before.

Skills come in tiers: those the user named, those that are pinned, the rest. A tier is served only after the ones before it.
Within a tier every listed skill keeps its name and the room that is left is shared by water-filling: one common allowance for
every description, short ones keep what they do not need for the others. When the allowance would be too small to say anything,
the first skills get a short description and the others their name. What has no room for a name is left out, from the end.

When the order is a ranking for a request, the first skills are worth more than the last: if the common allowance would be
small, an eighth of the room goes to further names. Of the rest three quarters go to whole descriptions in order, the last
quarter to short ones of at most twelve tokens for those that come next. Two thousand tokens hold thirteen whole descriptions of
public skills and seventy more skills; docs/prompts.md says how often the right one is among them.

So that a provider's prompt cache holds, an index is continued turn after turn. It has skills with a description, then bare
names. What was described stays where it is, word for word. A skill that is needed now and was not described is appended after
the described ones; the names after them give way first, from the end; then the described skills that have not been needed for
the longest time. When nothing is missing, nothing changes.

The report is the index as a value: its text, the result for each skill, and what the next index needs to continue it. It
becomes plain data and comes back (`to_dict`, `from_dict`), so that a session can keep it wherever it keeps its own state.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, NoReturn, TypeGuard

from skillyard.errors import InvalidInput
from skillyard.prompt.index_entry import BARE, WHOLE, IndexEntry, count_tokens
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
            _refuse("its budget is not a number")
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
    return value if _is_count(value) else _refuse(f"its {name} is not a number")


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


CLIENT_LIMIT: Final = 2_048
"""Characters that every MCP client shows of a tool's description and of a server's instructions; some cut the rest."""
SMALLEST: Final = 32  # quarter tokens: a description below about five words helps nobody
FAIR_ENOUGH: Final = 80  # quarter tokens: below this a ranking beats equal shares
SHORT: Final = 48  # quarter tokens of a description that is not among the first of a ranking
NAMES_SHARE: Final = 8  # of a ranking's room, one part in so many goes to names without a description
SHORT_SHARE: Final = 4  # of what is left then, one part in so many goes to short descriptions
ROUNDS: Final = 3  # how often what word boundaries left over is shared out again


@dataclass(frozen=True, slots=True)
class BudgetPlan:
    """Entries with their allowance, in the order of priority, how many were left out, and what is left of the room."""

    shown: tuple[tuple[IndexEntry, int], ...]
    left_out: tuple[IndexEntry, ...]
    spare: int


def plan_budget(tiers: Sequence[Sequence[IndexEntry]], room: int, *, ranked: bool = False) -> BudgetPlan:
    """Share `room` quarter tokens among `tiers`, the most important first; `ranked`: the last tier's order is a ranking."""
    shown: list[tuple[IndexEntry, int]] = []
    left_out: list[IndexEntry] = []
    for number, tier in enumerate(tiers):
        if left_out:
            left_out += tier
            continue
        share = _by_rank if ranked and number == len(tiers) - 1 else _fairly
        part = share(tier, room)
        shown += part.shown
        left_out += part.left_out
        room = part.spare
    return BudgetPlan(tuple(shown), tuple(left_out), room)


def water_level(sizes: Sequence[int], room: int) -> int:
    """The largest common allowance with which `sizes`, each cut to it, take no more than `room`."""
    ordered = sorted(sizes)
    for number, size in enumerate(ordered):
        sharers = len(ordered) - number
        if size * sharers > room:
            return max(room, 0) // sharers
        room -= size
    return ordered[-1] if ordered else 0


def _fairly(tier: Sequence[IndexEntry], room: int) -> BudgetPlan:
    listed, room = _as_many_names_as_fit(tier, room)
    allowances, room = _share(tier[:listed], room)
    return BudgetPlan(tuple(zip(tier, allowances, strict=False)), tuple(tier[listed:]), room)


def _as_many_names_as_fit(tier: Sequence[IndexEntry], room: int) -> tuple[int, int]:
    for number, entry in enumerate(tier):
        if entry.bare > room:
            return number, room
        room -= entry.bare
    return len(tier), room


def _share(entries: Sequence[IndexEntry], room: int) -> tuple[list[int], int]:
    """An allowance for each of `entries`, whose names are paid for, and what is left of `room`."""
    if room < SMALLEST:  # nothing to share: do not even look at the descriptions
        return [BARE] * len(entries), room
    frames = sum(entry.frame for entry in entries)
    sizes = [field.size for entry in entries for field in entry.fields]
    if frames + sum(sizes) <= room:
        return [WHOLE] * len(entries), room - frames - sum(sizes)
    level = water_level(sizes, room - frames)
    if level < SMALLEST:
        return _first_come(entries, room, SMALLEST)
    return _even(entries, room, level)


def _even(entries: Sequence[IndexEntry], room: int, level: int) -> tuple[list[int], int]:
    spent = sum(entry.cost(level) - entry.bare for entry in entries)
    for _ in range(ROUNDS):
        cut_fields = sum(field.size > level for entry in entries for field in entry.fields)
        higher = level + (room - spent) // max(cut_fields, 1)
        cost = sum(entry.cost(higher) - entry.bare for entry in entries) if higher > level else room + 1
        if cost > room:
            break
        level, spent = higher, cost
    return [level] * len(entries), room - spent


def _first_come(entries: Sequence[IndexEntry], room: int, allowance: int) -> tuple[list[int], int]:
    """`allowance` for the first of `entries` for as long as `room` lasts, their names alone for the others."""
    allowances = [BARE] * len(entries)
    for number, entry in enumerate(entries):
        if room < SMALLEST or (price := entry.cost(allowance) - entry.bare) > room:
            break
        allowances[number] = allowance
        room -= price
    return allowances, room


def _by_rank(tier: Sequence[IndexEntry], room: int) -> BudgetPlan:
    fair = _fairly(tier, room)
    if not fair.left_out and all(allowance == WHOLE or allowance >= FAIR_ENOUGH for _, allowance in fair.shown):
        return fair
    _, spare = _as_many_names_as_fit(tier, room)
    described = room - min(room - spare, room // NAMES_SHARE)
    first = _in_order(tier, described - described // SHORT_SHARE, WHOLE)
    first += _in_order(tier[len(first) :], described - _cost(first), SHORT)
    others = tier[len(first) :]
    listed, room = _as_many_names_as_fit(others, room - _cost(first))
    names_only = [(entry, BARE) for entry in others[:listed]]
    return BudgetPlan((*first, *names_only), tuple(others[listed:]), room)


def _in_order(entries: Sequence[IndexEntry], room: int, allowance: int) -> list[tuple[IndexEntry, int]]:
    """The first of `entries` at `allowance`, for as long as they fit."""
    fitting: list[tuple[IndexEntry, int]] = []
    for entry in entries:
        if (price := entry.cost(allowance)) > room:
            break
        room -= price
        fitting.append((entry, allowance))
    return fitting


def _cost(shown: Sequence[tuple[IndexEntry, int]]) -> int:
    return sum(entry.cost(allowance) for entry, allowance in shown)


@dataclass(frozen=True, slots=True)
class Continuation:
    """How an index continues the last one.

    `before` are the lines of the last one and `turn` is the number of this one. `required` are the ids that have to be there,
    most important first. With `fill` room that is left is given to others, as it is when something had to change anyway.
    """

    before: tuple[IndexLine, ...]
    turn: int
    required: tuple[str, ...]
    fill: bool


def continue_index(
    last: Continuation, fresh: BudgetPlan, entries: Mapping[str, IndexEntry], room: int | None, most: int | None
) -> tuple[IndexLine, ...] | None:
    """The lines of the next index, within `room` quarter tokens and `most` skills; None when what is required has no room."""
    index = _IndexLines(entries, room, most)
    for line in last.before:
        if line.id in entries:
            index.add(line)
    complete = len(index) == len(last.before) and all(skill_id in index for skill_id in last.required)
    fresh_at = {entry.id: allowance for entry, allowance in fresh.shown}
    for skill_id in last.required:
        index.require(IndexLine(skill_id, fresh_at[skill_id], last.turn))
    if not index.shrink(set(last.required)):
        return None
    if last.fill or not complete:
        index.fill(fresh.shown)
    return index.lines()


class _IndexLines:
    """An index being changed: described lines and bare names, in order, and what they cost."""

    def __init__(self, entries: Mapping[str, IndexEntry], room: int | None, most: int | None) -> None:
        self._entries = entries
        self._room = room
        self._most = most
        self._described: dict[str, IndexLine] = {}
        self._names: dict[str, IndexLine] = {}
        self._cost = 0
        self._lost = False  # whether a described line was removed

    def __len__(self) -> int:
        return len(self._described) + len(self._names)

    def lines(self) -> tuple[IndexLine, ...]:
        return (*self._described.values(), *self._names.values())

    def __contains__(self, skill_id: str) -> bool:
        return skill_id in self._described or skill_id in self._names

    def add(self, line: IndexLine) -> None:
        """Add a line at the end of its part."""
        part = self._names if line.allowance == BARE else self._described
        part[line.id] = line
        self._cost += self._price(line)

    def require(self, line: IndexLine) -> None:
        """Make sure that a skill is there at least as in `line`; a described one stays as it is."""
        if (there := self._described.get(line.id)) is not None:
            self._described[line.id] = IndexLine(line.id, there.allowance, line.used)
            return
        if (name := self._names.pop(line.id, None)) is not None:
            if line.allowance == BARE:
                self._names[line.id] = line
                return
            self._cost -= self._price(name)
        self.add(line)

    def shrink(self, required: Collection[str]) -> bool:
        """Remove lines until the rest fits, none that is required; False when that is not enough."""
        if self._fits(0, 0):
            return True
        positions = {skill_id: position for position, skill_id in enumerate(self._described)}
        by_use = sorted(self._described.values(), key=lambda line: (line.used, -positions[line.id]))
        for line in (*reversed(self._names.values()), *by_use):
            if line.id in required:
                continue
            self._remove(line)
            if self._fits(0, 0):
                return True
        return False

    def fill(self, fresh: Sequence[tuple[IndexEntry, int]]) -> None:
        """Give the room that is left to skills that are not there: with a description, unless one was removed, then by name."""
        for entry, allowance in fresh:
            if entry.id in self or (allowance != BARE and self._lost):
                continue
            line = IndexLine(entry.id, allowance)
            if not self._fits(self._price(line), 1):
                return
            self.add(line)

    def _remove(self, line: IndexLine) -> None:
        self._lost = self._lost or line.id in self._described
        (self._names if line.id in self._names else self._described).pop(line.id)
        self._cost -= self._price(line)

    def _fits(self, more_cost: int, more_lines: int) -> bool:
        room = self._room is None or self._cost + more_cost <= self._room
        return room and (self._most is None or len(self) + more_lines <= self._most)

    def _price(self, line: IndexLine) -> int:
        return self._entries[line.id].cost(line.allowance)
