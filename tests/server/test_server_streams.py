"""Streams of events: one task reads them, and closes them whichever way the answer ends."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

import anyio
import pytest
from sse_starlette import ServerSentEvent

from skillyard.server.responses import EventStream

SCOPE = {"type": "http", "method": "GET", "headers": [], "path": "/"}


class Source:
    """Gives one event, then waits for ever; notes that it was closed, which takes a few steps of the loop."""

    def __init__(self) -> None:
        self.waits, self.closed = asyncio.Event(), asyncio.Event()

    async def events(self) -> AsyncGenerator[ServerSentEvent, None]:
        try:
            yield ServerSentEvent("one")
            self.waits.set()
            await asyncio.Event().wait()
        finally:
            for _ in range(5):
                await asyncio.sleep(0)
            self.closed.set()


class Client:
    """Receives an answer; `leave` is when it goes."""

    def __init__(self) -> None:
        self.leave, self.got = asyncio.Event(), [b""]

    async def receive(self) -> dict[str, str]:
        await self.leave.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: dict[str, object]) -> None:
        body = message.get("body", b"")
        assert isinstance(body, bytes)
        self.got.append(body)


@pytest.fixture(autouse=True)
async def complaints(caplog: pytest.LogCaptureFixture) -> AsyncIterator[list[object]]:
    """What a loop says of tasks and generators that nobody looks after: nothing."""
    received: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: received.append(context))
    gc.freeze()  # only what the test makes is collected: all that the suite has made takes a second each time
    yield received
    gc.collect()
    gc.unfreeze()
    await asyncio.sleep(0)
    assert received == []
    assert [record.message for record in caplog.records if record.levelno >= logging.ERROR] == []


async def test_a_client_that_leaves_while_an_event_is_waited_for_closes_the_source() -> None:
    source, client = Source(), Client()
    answering = asyncio.create_task(EventStream(source.events())(SCOPE, client.receive, client.send))
    await source.waits.wait()
    client.leave.set()
    await answering
    assert source.closed.is_set()
    assert b"one" in b"".join(client.got)


@pytest.mark.parametrize("steps", range(12))
async def test_a_client_that_leaves_while_events_arrive_closes_the_source(steps: int) -> None:
    """Whichever step of the loop lies between the event and the leaving."""
    come, closed = asyncio.Event(), asyncio.Event()

    async def events() -> AsyncGenerator[ServerSentEvent, None]:
        try:
            await come.wait()
            while True:
                yield ServerSentEvent("one")
                await asyncio.sleep(0)
        finally:
            await asyncio.sleep(0)
            closed.set()

    client = Client()
    answering = asyncio.create_task(EventStream(events())(SCOPE, client.receive, client.send))
    for _ in range(8):
        await asyncio.sleep(0)
    come.set()
    for _ in range(steps):
        await asyncio.sleep(0)
    client.leave.set()
    await answering
    assert closed.is_set()


async def test_a_client_that_cannot_take_more_closes_the_source_too() -> None:
    source, client = Source(), Client()

    async def refuses(message: dict[str, object]) -> None:
        if message.get("body"):
            raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        await EventStream(source.events())(SCOPE, client.receive, refuses)
    assert source.closed.is_set()


async def test_who_is_slow_to_take_an_event_is_not_read_ahead_of_for_ever() -> None:
    made = 0

    async def events() -> AsyncGenerator[ServerSentEvent, None]:
        nonlocal made
        while True:
            made += 1
            yield ServerSentEvent("one")

    stream = EventStream(events())
    taken = stream.body_iterator
    async with aclosing(taken):  # type: ignore[type-var]
        await anext(aiter(taken))
        for _ in range(50):
            await asyncio.sleep(0)
    assert made <= 3


async def test_what_goes_wrong_in_the_source_is_raised_where_it_is_sent() -> None:
    client = Client()

    async def events() -> AsyncGenerator[ServerSentEvent, None]:
        yield ServerSentEvent("one")
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        await EventStream(events())(SCOPE, client.receive, client.send)
    assert b"one" in b"".join(client.got)


async def test_a_source_that_ends_ends_the_answer_with_all_that_it_told() -> None:
    client = Client()

    async def events() -> AsyncGenerator[ServerSentEvent, None]:
        for name in ("one", "two", "three"):
            yield ServerSentEvent(name)

    await EventStream(events())(SCOPE, client.receive, client.send)
    assert b"".join(client.got).split() == [b"data:", b"one", b"data:", b"two", b"data:", b"three"]


async def test_a_server_that_stops_ends_the_answer_and_closes_the_source() -> None:
    source, client = Source(), Client()
    stream = EventStream(source.events())
    answering = asyncio.create_task(stream(SCOPE, client.receive, client.send))
    await source.waits.wait()
    stopping = stream._shutdown_event
    assert isinstance(stopping, anyio.Event)
    stopping.set()
    await answering
    assert source.closed.is_set()


async def test_a_request_that_is_cut_off_closes_the_source() -> None:
    """As the server does with what has not ended when its time to stop is up."""
    source, client = Source(), Client()
    answering = asyncio.create_task(EventStream(source.events())(SCOPE, client.receive, client.send))
    await source.waits.wait()
    answering.cancel()
    await asyncio.wait([answering])
    assert answering.cancelled()
    assert source.closed.is_set()
