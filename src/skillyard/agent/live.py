"""A turn as it goes on: what has happened so far, for everyone who wants to watch, through any process of the database.

A `Place` says how far a turn was told: it counts in the events as they are kept, so it means the same while the turn goes on,
when it is over, and in every process.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncGenerator, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from skillyard.agent.events import Event
from skillyard.errors import SkillyardError

if TYPE_CHECKING:
    from collections.abc import Callable

    from skillyard.agent.conversation import Turn

__all__ = ["START", "Live", "Place", "Placing", "condensed", "read_event", "replayed"]

_MOST: Final = 5_000
_TEXT: Final = 4_000
_EVERY_S: Final = 0.1
_PLACE: Final = re.compile(r"(\d{1,6})\.(\d{1,9})", re.ASCII)
_log = logging.getLogger(__name__)


class Place(NamedTuple):
    """So many events were told as they are kept, and so many characters of the last one, when it is text."""

    events: int = 0
    characters: int = 0

    @classmethod
    def read(cls, text: str | None) -> Self:
        """The place that `str()` wrote; the beginning when it is none."""
        found = _PLACE.fullmatch(text or "")
        return cls(*map(int, found.groups())) if found else cls()

    def __str__(self) -> str:
        return f"{self.events}.{self.characters}"


START: Final = Place()


class Live:
    """The events of one turn; any number of watchers get all of them. The first `earlier` ones were before a question."""

    def __init__(self, before: Sequence[Event] = (), tell: Callable[[list[dict[str, Any]]], object] | None = None) -> None:
        self.events: list[Event] = list(before)
        self.earlier = len(self.events)
        self.over = False
        self._tell = tell
        self._told = 0
        self._telling: asyncio.Task[None] | None = None
        self.task: asyncio.Task[None] | None = None
        self.begun = asyncio.Event()
        self._interrupted = False
        self._changed = asyncio.Condition()

    async def show(self, event: Event) -> None:
        """Tell everyone; beyond thousands of events only text and the end are told."""
        if len(self.events) < _MOST or event.kind in ("text", "end", "error"):
            self.events.append(event)
        if event.kind == "end":
            self.over = True
        elif self._tell is not None and self._telling is None:
            self._telling = asyncio.create_task(self._tell_others(self._tell))
        async with self._changed:
            self._changed.notify_all()

    async def stop(self) -> bool:
        """Stop the work on the turn, and wait until its end is written down; False when it does not go on here."""
        if self.task is None or self.over:
            return False
        await self.interrupt()
        await asyncio.wait([self.task])
        return True

    async def interrupt(self) -> None:
        """Cancel the work: not before its first step, which would leave nobody to note its end, and once only."""
        await self.begun.wait()
        if self.task is not None and not self._interrupted:
            self._interrupted = True
            self.task.cancel()

    async def settled(self) -> None:
        """Wait until nothing is being told to others any more; from now on nothing is."""
        self._tell = None
        if self._telling is not None:
            await asyncio.wait([self._telling])

    async def _tell_others(self, tell: Callable[[list[dict[str, Any]]], object]) -> None:
        """Tell those who follow through other processes, ten times a second at most."""
        while self._tell is not None and self._told < len(self.events):
            await asyncio.sleep(_EVERY_S)
            new, self._told = self.events[self._told :], len(self.events)
            try:
                await asyncio.to_thread(tell, _joined(new))
            except SkillyardError as error:
                _log.warning("a turn cannot be followed elsewhere for a moment: %s", error.message)
        self._telling = None

    async def follow(self, after: int = 0) -> AsyncGenerator[Event, None]:
        """The events from the number `after` on, as they come, until the end."""
        place = after
        while True:
            while place < len(self.events):
                event = self.events[place]
                place += 1
                yield event
                if event.kind == "end":
                    return
            if self.over:
                return
            async with self._changed:
                if place >= len(self.events) and not self.over:
                    await self._changed.wait()


class Placing:
    """Gives each event its place, and leaves out those that were told up to the place `after`."""

    def __init__(self, after: Place = START) -> None:
        self.place = Place()
        self._after = after
        self._last = ""  # the kind of the event that is kept last

    def take(self, event: Event) -> tuple[Place, Event] | None:
        """The event with the place behind it, as far as it is to be told; the `usage` that was told last may be told again."""
        after, kept = self._after, bool(condensed([event]))
        if kept:
            size = len(event.data["delta"]) if event.kind == "text" else 0
            going_on = event.kind == self._last and event.kind in ("text", "usage")
            self.place = (
                Place(self.place.events, self.place.characters + size) if going_on else Place(self.place.events + 1, size)
            )
            self._last = event.kind
        if event.kind == "text" and self.place.events == after.events:
            delta = event.data["delta"]
            event = Event(
                "text", {**event.data, "delta": delta[max(0, len(delta) - (self.place.characters - after.characters)) :]}
            )
        if event.kind == "begin":
            return (self.place, event) if after == START else None
        again = event.kind == "usage" or not kept
        told = event.kind == "end" or self.place > after or (again and self.place == after)
        return (self.place, event) if told else None


def read_event(shape: dict[str, Any]) -> Event:
    """The event that `to_dict` gave."""
    return Event(shape["event"], {key: value for key, value in shape.items() if key != "event"})


def _joined(events: Iterable[Event]) -> list[dict[str, Any]]:
    """Events as plain data, pieces of text put together; the end is said by the record."""
    told: list[dict[str, Any]] = []
    for event in events:
        shape = event.to_dict()
        if event.kind == "text" and told and told[-1]["event"] == "text":
            told[-1] = told[-1] | {"delta": told[-1]["delta"] + shape["delta"]}
        elif event.kind != "end":
            told.append(shape)
    return told


def condensed(events: Sequence[Event]) -> list[dict[str, Any]]:
    """Events as they are kept: pieces of text put together, only the last of several counts of usage, long results cut."""
    kept: list[dict[str, Any]] = []
    for shape in _joined(event for event in events if event.kind not in ("begin", "log", "step")):
        if shape["event"] == "usage" and kept and kept[-1]["event"] == "usage":
            kept[-1] = shape
        else:
            kept.append(shape | ({"text": shape["text"][:_TEXT]} if isinstance(shape.get("text"), str) else {}))
    return kept


def replayed(turn: Turn) -> list[Event]:
    """The events of a turn that is over, or waits, as they were kept."""
    begun = Event("begin", {"turn": turn.id, "conversation": turn.conversation_id, "model": turn.model})
    kept = [read_event(shape) for shape in turn.events]
    return [begun, *kept, Event("end", {"state": turn.state, "answer": turn.answer})]
