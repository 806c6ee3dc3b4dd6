"""Answers that go on: server-sent events, with a sign of life every 15 seconds.

A generator must not be closed while it runs. So one task reads the source, and that task closes it, whichever way the answer
ends: the source told all, its client left, an event could not be sent, or the server stops.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Final

import anyio
from sse_starlette import EventSourceResponse, ServerSentEvent

__all__ = ["EventStream", "describe_streams", "streaming"]

_MEDIA_TYPE: Final = "text/event-stream"
_GRACE_S: Final = 5  # to send what is on its way when the server stops
_CLOSING_S: Final = 30  # for a source to let go of what it holds
_log = logging.getLogger(__name__)


class EventStream(EventSourceResponse):
    """Server-sent events; the stream ends when all is told, when its client goes, or when the server stops."""

    media_type = _MEDIA_TYPE
    DEFAULT_PING_INTERVAL = 15

    def __init__(self, events: AsyncGenerator[ServerSentEvent, None], status_code: int = 200) -> None:
        stopping = anyio.Event()
        super().__init__(_until(events, stopping), status_code, shutdown_event=stopping, shutdown_grace_period=_GRACE_S)


async def _until(events: AsyncGenerator[ServerSentEvent, None], stopping: anyio.Event) -> AsyncGenerator[ServerSentEvent, None]:
    """The events until the server stops, so that the answer ends properly and its client comes back elsewhere."""
    held: asyncio.Queue[ServerSentEvent] = asyncio.Queue(1)  # who takes slowly is not read ahead of
    reading = asyncio.create_task(_read(events, held))
    stop = asyncio.create_task(stopping.wait())
    try:
        while not stop.done():
            taking = asyncio.create_task(held.get())
            try:
                await asyncio.wait({taking, reading, stop}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                taking.cancel()  # what it has not taken stays where it is
            if taking.done() and not taking.cancelled():
                yield taking.result()
            elif reading.done():
                reading.result()
                if held.empty():
                    return
    finally:
        stop.cancel()
        reading.cancel()
        with anyio.CancelScope(shield=True):
            _, open_still = await asyncio.wait({reading, stop}, timeout=_CLOSING_S)
        if open_still:
            _log.warning("a stream of events was not closed within %s seconds", _CLOSING_S)


async def _read(events: AsyncGenerator[ServerSentEvent, None], held: asyncio.Queue[ServerSentEvent]) -> None:
    """Hand over each event; nobody else reads the source or closes it."""
    async with aclosing(events):
        async for event in events:
            await held.put(event)


def streaming(model: Any, name: str, events: str) -> dict[int | str, dict[str, Any]]:
    """What a route says of its events: the shape of their `data`, its name in the description of the API, and their names."""
    content = {_MEDIA_TYPE: {"schema": {"x-event-data": name}}}
    return {200: {"model": model, "description": f"server-sent events: {events}", "content": content}}


def describe_streams(described: dict[str, Any]) -> None:
    """Say in OpenAPI that a stream is text, and that the data of its events is JSON of the shape `x-event-data`."""
    shapes = described["components"]["schemas"]
    for methods in described["paths"].values():
        for route in methods.values():
            content = route["responses"].get("200", {}).get("content", {})
            if (schema := content.get(_MEDIA_TYPE, {}).get("schema")) is not None:
                name = schema["x-event-data"]
                shapes[name] = {key: schema[key] for key in ("oneOf", "discriminator")} | {"title": name}
                told = {"type": "string", "x-event-data": {"$ref": f"#/components/schemas/{name}"}}
                content[_MEDIA_TYPE]["schema"] = told
