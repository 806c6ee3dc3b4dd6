"""Keeping an index as it was shown before, turn after turn, so that a provider's prompt cache holds.

An index has skills with a description, then bare names. What was described stays where it is, word for word. A skill that is
needed now and was not described is appended after the described ones; the names after them give way first, from the end; then
the described skills that have not been needed for the longest time. When nothing is missing, nothing changes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from skillyard.prompt.budget import BudgetPlan
from skillyard.prompt.entry import BARE, IndexEntry

NEVER: Final = 0  # the turn of a skill that only filled the room


@dataclass(frozen=True, slots=True)
class IndexLine:
    """One skill in an index; `allowance` is -1 for all of it, 0 for its name, else the quarter tokens of its description.

    `used` is the turn that wanted it last, 0 when it only filled the room.
    """

    id: str
    allowance: int
    used: int = NEVER


@dataclass(frozen=True, slots=True)
class Continuation:
    """What an index goes on from.

    `before` are the lines of the last one and `turn` is the number of this one. `wanted` are the ids that have to be there,
    most important first. With `fill` room that is left is given to others, as it is when something had to change anyway.
    """

    before: tuple[IndexLine, ...]
    turn: int
    wanted: tuple[str, ...]
    fill: bool


def start_index(fresh: BudgetPlan, wanted: Collection[str], turn: int) -> tuple[IndexLine, ...]:
    """The lines of an index that has nothing to go on from."""
    return tuple(IndexLine(entry.id, allowance, turn if entry.id in wanted else NEVER) for entry, allowance in fresh.shown)


def continue_index(
    last: Continuation, fresh: BudgetPlan, entries: Mapping[str, IndexEntry], room: int | None, most: int | None
) -> tuple[IndexLine, ...] | None:
    """The lines of the next index, within `room` quarter tokens and `most` skills; None when what is wanted has no room."""
    page = _IndexLines(entries, room, most)
    for line in last.before:
        if line.id in entries:
            page.put(line)
    complete = len(page) == len(last.before) and all(page.has(skill_id) for skill_id in last.wanted)
    fresh_at = {entry.id: allowance for entry, allowance in fresh.shown}
    for skill_id in last.wanted:
        page.want(IndexLine(skill_id, fresh_at[skill_id], last.turn))
    if not page.shrink(set(last.wanted)):
        return None
    if last.fill or not complete:
        page.fill(fresh.shown)
    return page.lines()


class _IndexLines:
    """An index being changed: described lines and bare names, in order, and what they cost."""

    def __init__(self, entries: Mapping[str, IndexEntry], room: int | None, most: int | None) -> None:
        self._entries = entries
        self._room = room
        self._most = most
        self._described: dict[str, IndexLine] = {}
        self._names: dict[str, IndexLine] = {}
        self._cost = 0
        self._lost = False  # whether a described line had to go

    def __len__(self) -> int:
        return len(self._described) + len(self._names)

    def lines(self) -> tuple[IndexLine, ...]:
        return (*self._described.values(), *self._names.values())

    def has(self, skill_id: str) -> bool:
        return skill_id in self._described or skill_id in self._names

    def put(self, line: IndexLine) -> None:
        """Add a line at the end of its part."""
        part = self._names if line.allowance == BARE else self._described
        part[line.id] = line
        self._cost += self._price(line)

    def want(self, line: IndexLine) -> None:
        """Make sure that a skill is there as `line` says or better; a described one stays as it is."""
        if (there := self._described.get(line.id)) is not None:
            self._described[line.id] = IndexLine(line.id, there.allowance, line.used)
            return
        if (name := self._names.pop(line.id, None)) is not None:
            if line.allowance == BARE:
                self._names[line.id] = line
                return
            self._cost -= self._price(name)
        self.put(line)

    def shrink(self, wanted: Collection[str]) -> bool:
        """Take lines away until the rest fits, none that is wanted; False when that is not enough."""
        if self._fits(0, 0):
            return True
        places = {skill_id: place for place, skill_id in enumerate(self._described)}
        by_use = sorted(self._described.values(), key=lambda line: (line.used, -places[line.id]))
        for line in (*reversed(self._names.values()), *by_use):
            if line.id in wanted:
                continue
            self._take(line)
            if self._fits(0, 0):
                return True
        return False

    def fill(self, fresh: Sequence[tuple[IndexEntry, int]]) -> None:
        """Give the room that is left to skills that are not there: with a description, unless one had to go, then by name."""
        for entry, allowance in fresh:
            if self.has(entry.id) or (allowance != BARE and self._lost):
                continue
            line = IndexLine(entry.id, allowance)
            if not self._fits(self._price(line), 1):
                return
            self.put(line)

    def _take(self, line: IndexLine) -> None:
        self._lost = self._lost or line.id in self._described
        (self._names if line.id in self._names else self._described).pop(line.id)
        self._cost -= self._price(line)

    def _fits(self, more_cost: int, more_lines: int) -> bool:
        room = self._room is None or self._cost + more_cost <= self._room
        return room and (self._most is None or len(self) + more_lines <= self._most)

    def _price(self, line: IndexLine) -> int:
        return self._entries[line.id].cost(line.allowance)
