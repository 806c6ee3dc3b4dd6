"""Which run is next: a limited number run at once, organisations take turns, within one the higher priority goes first.

An organisation with a thousand runs takes every second slot as soon as another one has a single run. A limit of a skill
or of an organisation lets others pass. `EngineSettings` is the table `[engine]` of the user's skillyard.toml.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import os
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, Self, get_args
from weakref import WeakKeyDictionary

from skillyard.settings_reader import Setting, Settings, SettingsReader, number, table_of, word

if TYPE_CHECKING:
    from skillyard.catalog import Configuration


EngineKind = Literal["local", "procrastinate"]
DEFAULT_POOL: Final = "default"
"""The pool of every run that names none, where all runs go through the queue."""

_MOST: Final = 10_000
_SETTINGS: Final[Settings] = {
    "kind": word(get_args(EngineKind), expected=" or ".join(get_args(EngineKind))),
    "pool": Setting(
        "the name of a worker pool", lambda pool: isinstance(pool, str) and bool(pool.strip()) and pool.isprintable()
    ),
    "concurrency": number(_MOST),
    "per-organisation": number(_MOST),
    "per-skill": table_of(number(_MOST), "a table of skills, each with a number"),
}
_NONE: Final[Mapping[str, int]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class SlotRequest:
    """A request for a slot: of an organisation, for the skill `skill` (`skill_id`); a higher `priority` goes first."""

    organisation: str = ""
    skill: str = ""
    skill_id: str = ""
    priority: int = 0


class Slots:
    """How many runs execute at once: `number` together, `per_organisation` of one organisation, `per_skill` of those skills."""

    def __init__(
        self, number: int | None = None, *, per_organisation: int | None = None, per_skill: Mapping[str, int] = _NONE
    ) -> None:
        self.number = number or 2 * (os.cpu_count() or 1)
        self._per_organisation = per_organisation or self.number
        self._per_skill = per_skill
        self._of_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, _SlotQueue] = WeakKeyDictionary()

    @asynccontextmanager
    async def acquire(self, request: SlotRequest) -> AsyncIterator[None]:
        """Wait for a slot and hold it inside the block; each event loop has its own line."""
        line = self._of_loop.setdefault(asyncio.get_running_loop(), _SlotQueue())
        waiting = _WaitingRequest(-request.priority, next(line.numbers), request, asyncio.get_running_loop().create_future())
        line.add(waiting)
        self._next(line)
        try:
            await waiting.granted
            yield
        finally:
            if waiting.granted.done() and not waiting.granted.cancelled():
                line.leave(request)
            else:
                line.remove(waiting)
            self._next(line)

    def _next(self, line: _SlotQueue) -> None:
        """Give every free slot to the next request."""
        while line.working < self.number:
            chosen = next((candidate for name in line.waiting if (candidate := self._of(line, name)) is not None), None)
            if chosen is None:
                return
            line.remove(chosen)
            if not chosen.granted.cancelled():
                line.enter(chosen.request)
                chosen.granted.set_result(None)

    def _of(self, line: _SlotQueue, organisation: str) -> _WaitingRequest | None:
        """The next of one organisation that no limit holds back."""
        if line.of_organisation[organisation] >= self._per_organisation:
            return None
        waiting = line.waiting[organisation]
        if not self._per_skill:
            return waiting[0]
        return min((candidate for candidate in waiting if self._has_capacity(line, candidate.request)), default=None)

    def _has_capacity(self, line: _SlotQueue, request: SlotRequest) -> bool:
        return all(line.of_skill[name] < self._per_skill.get(name, self.number) for name in {request.skill, request.skill_id})


@dataclass(order=True, slots=True)
class _WaitingRequest:
    """A waiting request, ordered by priority, then by arrival."""

    rank: int
    number: int
    request: SlotRequest = field(compare=False)
    granted: asyncio.Future[None] = field(compare=False)


class _SlotQueue:
    """The waiting requests and the used slots of one event loop."""

    def __init__(self) -> None:
        self.waiting: OrderedDict[str, list[_WaitingRequest]] = OrderedDict()  # the organisation whose turn it is comes first
        self.working = 0
        self.of_organisation: Counter[str] = Counter()
        self.of_skill: Counter[str] = Counter()
        self.numbers = itertools.count(1)  # of arrival

    def add(self, waiting: _WaitingRequest) -> None:
        heapq.heappush(self.waiting.setdefault(waiting.request.organisation, []), waiting)

    def remove(self, waiting: _WaitingRequest) -> None:
        """Remove it from any position in the line."""
        line = self.waiting.get(waiting.request.organisation, [])
        if line and line[0] is waiting:
            heapq.heappop(line)
        elif waiting in line:
            line.remove(waiting)
            heapq.heapify(line)
        if not line:
            self.waiting.pop(waiting.request.organisation, None)

    def enter(self, request: SlotRequest) -> None:
        """Count it as running; its organisation goes to the end."""
        if request.organisation in self.waiting:
            self.waiting.move_to_end(request.organisation)
        self._count(request, 1)

    def leave(self, request: SlotRequest) -> None:
        self._count(request, -1)

    def _count(self, request: SlotRequest, change: int) -> None:
        self.working += change
        self.of_organisation[request.organisation] += change
        for name in {request.skill, request.skill_id}:
            self.of_skill[name] += change
            if not self.of_skill[name]:
                del self.of_skill[name]
        if not self.of_organisation[request.organisation]:
            del self.of_organisation[request.organisation]


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """`kind` is where runs work: in this process, or all of them in the worker pool `pool`.

    `concurrency` is how many work at once in one process, `per_organisation` how many of one organisation, `per_skill` how many
    of the skills with those names or ids; with a queue the last two hold for all workers together.
    """

    kind: EngineKind = "local"
    pool: str = DEFAULT_POOL
    concurrency: int | None = None
    per_organisation: int | None = None
    per_skill: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, configuration: Configuration) -> Self:
        """The checked settings of a configuration.

        Raises:
            InvalidConfiguration: an unknown key, or an invalid value.
        """
        file = configuration.user_file or "skillyard.toml"
        return cls(**SettingsReader(file).read(_SETTINGS, configuration.engine, "engine"))

    def slots(self) -> Slots:
        """The slots of one process."""
        return Slots(self.concurrency, per_organisation=self.per_organisation, per_skill=self.per_skill)
