"""A turn as it goes on: what has happened so far, for everyone who wants to watch, from the beginning."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from skillyard.agent.events import Event

if TYPE_CHECKING:
    from skillyard.agent.conversation import Turn

__all__ = ["Live", "condensed", "replayed"]

_MOST: Final = 5_000
_TEXT: Final = 4_000


class Live:
    """The events of one turn; any number of watchers get all of them. The first `earlier` ones were before a question."""

    def __init__(self, before: Sequence[Event] = ()) -> None:
        self.events: list[Event] = list(before)
        self.earlier = len(self.events)
        self.over = False
        self.mark = os.urandom(6).hex()
        self.task: asyncio.Task[None] | None = None
        self._changed = asyncio.Condition()

    async def show(self, event: Event) -> None:
        """Tell everyone; beyond thousands of events only text and the end are told."""
        if len(self.events) < _MOST or event.kind in ("text", "end", "error"):
            self.events.append(event)
        if event.kind == "end":
            self.over = True
        async with self._changed:
            self._changed.notify_all()

    async def follow(self, after: int = 0) -> AsyncIterator[Event]:
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


def condensed(events: Sequence[Event]) -> list[dict[str, Any]]:
    """Events as they are kept: pieces of text put together, long results cut."""
    kept: list[dict[str, Any]] = []
    for event in events:
        shape = event.to_dict()
        if event.kind == "text" and kept and kept[-1]["event"] == "text":
            kept[-1] = kept[-1] | {"delta": kept[-1]["delta"] + shape["delta"]}
        elif event.kind == "usage" and kept and kept[-1]["event"] == "usage":
            kept[-1] = shape
        elif event.kind not in ("begin", "log", "end"):
            kept.append(shape | ({"text": shape["text"][:_TEXT]} if isinstance(shape.get("text"), str) else {}))
    return kept


def replayed(turn: Turn) -> list[Event]:
    """The events of a turn that is over, or waits, as they were kept."""
    begun = Event("begin", {"turn": turn.id, "conversation": turn.conversation_id, "model": turn.model})
    kept = [Event(shape["event"], {key: value for key, value in shape.items() if key != "event"}) for shape in turn.events]
    return [begun, *kept, Event("end", {"state": turn.state, "answer": turn.answer})]
