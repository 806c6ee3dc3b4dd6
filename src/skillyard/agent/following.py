"""Following a turn from a place on, whichever process works on it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Final

from skillyard.agent.live import Live, Place, Placing, read_event, replayed

if TYPE_CHECKING:
    from skillyard.agent.chat_records import ChatRecords
    from skillyard.agent.conversation import Turn
    from skillyard.agent.events import Event
    from skillyard.database import Database

__all__ = ["told"]

_LOOK_S: Final = 0.5


async def told(
    turn: Turn, after: Place, *, live: Live | None, records: ChatRecords, database: Callable[[], Database]
) -> AsyncGenerator[tuple[Place, Event], None]:
    """What happens in a turn behind a place, each event with the place that is reached; `live` when it works here."""
    placing = Placing(after)
    async with aclosing(live.follow() if live is not None else _elsewhere(turn, records, database)) as events:
        async for event in events:
            if (found := placing.take(event)) is not None:
                yield found
    if live is None:
        placing = Placing(max(after, placing.place))
        for event in replayed(await asyncio.to_thread(records.turn, turn.id)):
            if (found := placing.take(event)) is not None:
                yield found


async def _elsewhere(turn: Turn, records: ChatRecords, database: Callable[[], Database]) -> AsyncGenerator[Event, None]:
    """What happens in a turn that another process works on, until it does no longer."""
    from skillyard.database import heard

    opened, number = await asyncio.to_thread(database), 0
    async with opened.bell.ring(turn.id) as rung:
        while True:
            state, news = await asyncio.to_thread(records.news, turn.id, number)
            if state != "running":
                return
            for number, shapes in news:  # noqa: B007 # where it goes on the next time
                for shape in shapes:
                    yield read_event(shape)
            await heard(rung, _LOOK_S)
            await asyncio.to_thread(lambda: records.turns(turn.conversation_id))  # its process may be gone
