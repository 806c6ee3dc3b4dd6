"""Responses: files with ETag and ranges, and server-sent events with a ping every 15 seconds.

A generator must not be closed while it runs. So one task reads the source of an event stream, and that task closes it, however
the answer ends: the source is exhausted, its client left, an event could not be sent, or the server stops.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import anyio
from fastapi import Request, Response
from sse_starlette import EventSourceResponse, ServerSentEvent

from skillyard.catalog import FileContent, read_file
from skillyard.packages import PackageLimits

_RANGE: Final = re.compile(r"bytes=(\d{0,18})-(\d{0,18})", re.ASCII)


def file_response(request: Request, content: FileContent) -> Response:
    """The bytes of a file; nothing in it is shown as a page: text is plain, the rest only what its bytes are."""
    media = "text/plain; charset=utf-8" if content.text is not None else content.media_type
    return bytes_response(request, content.data, media)


def bytes_response(request: Request, data: bytes, media: str) -> Response:
    """Some bytes of a media type, named by their digest."""
    etag = f'"sha256:{hashlib.sha256(data).hexdigest()}"'
    headers = {"ETag": etag, "Cache-Control": "private, no-cache", "Accept-Ranges": "bytes"}
    if _matches(request.headers.get("if-none-match"), etag):
        return Response(status_code=304, headers=headers)
    span = _span(request, etag, len(data))
    if span is None:
        return Response(data, headers=headers, media_type=media)
    begin, end = span
    if begin >= end:
        return Response(status_code=416, headers=headers | {"Content-Range": f"bytes */{len(data)}"})
    headers["Content-Range"] = f"bytes {begin}-{end - 1}/{len(data)}"
    return Response(data[begin:end], 206, headers, media)


def _matches(header: str | None, etag: str) -> bool:
    return header is not None and any(one.strip().removeprefix("W/") in (etag, "*") for one in header.split(","))


def _span(request: Request, etag: str, size: int) -> tuple[int, int] | None:
    """First byte and the one after the last; None for the whole, also where the range cannot be understood (RFC 9110)."""
    match = _RANGE.fullmatch(request.headers.get("range", ""))
    if match is None or request.headers.get("if-range", etag) != etag or not (match[1] or match[2]):
        return None
    if not match[1]:
        return max(0, size - int(match[2])), size if int(match[2]) else 0
    end = int(match[2]) + 1 if match[2] else size
    return None if end <= int(match[1]) and match[2] else (int(match[1]), min(end, size))


_MEDIA_TYPE: Final = "text/event-stream"
_GRACE_S: Final = 5  # to send what is on its way when the server stops
_CLOSING_S: Final = 30  # for a source to release its resources
_log = logging.getLogger(__name__)


class EventStream(EventSourceResponse):
    """Server-sent events; the stream ends when all are sent, when its client disconnects, or when the server stops."""

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
    """Pass on each event; only this task reads and closes the source."""
    async with aclosing(events):
        async for event in events:
            await held.put(event)


def stream_responses(model: Any, name: str, events: str) -> dict[int | str, dict[str, Any]]:
    """The OpenAPI description of a route's events: the shape of their `data`, its name in the schema, and their names."""
    content = {_MEDIA_TYPE: {"schema": {"x-event-data": name}}}
    return {200: {"model": model, "description": f"server-sent events: {events}", "content": content}}


def describe_streams(described: dict[str, Any]) -> None:
    """Describe in OpenAPI that a stream is text, and that the data of its events is JSON of the shape `x-event-data`."""
    shapes = described["components"]["schemas"]
    for methods in described["paths"].values():
        for route in methods.values():
            content = route["responses"].get("200", {}).get("content", {})
            if (schema := content.get(_MEDIA_TYPE, {}).get("schema")) is not None:
                name = schema["x-event-data"]
                shapes[name] = {key: schema[key] for key in ("oneOf", "discriminator")} | {"title": name}
                described_text = {"type": "string", "x-event-data": {"$ref": f"#/components/schemas/{name}"}}
                content[_MEDIA_TYPE]["schema"] = described_text


@dataclass(frozen=True, slots=True)
class _VersionFolder:
    """The folder of an installed version."""

    directory: str


def version_file_response(request: Request, folder: Path, path: str) -> Response:
    """One file in the folder of an installed version."""
    return file_response(request, read_file(_VersionFolder(str(folder)), path, limit=PackageLimits().file))


def zip_response(data: bytes, name: str) -> Response:
    """An archive that is saved under a name."""
    return Response(data, headers=attachment(name), media_type="application/zip")


def attachment(name: str) -> dict[str, str]:
    """The header of what is saved under a name, not shown."""
    return {"Content-Disposition": f'attachment; filename="{name}"'}


ZIP_RESPONSES: Final[dict[int | str, dict[str, Any]]] = {
    200: {"description": "the archive", "content": {"application/zip": {}}}
}


FILE_RESPONSES: Final[dict[int | str, dict[str, Any]]] = {
    200: {"description": "the file", "content": {"*/*": {}}},
    206: {"description": "the part that `Range` asked for", "content": {"*/*": {}}},
    304: {"description": "it is what `If-None-Match` says"},
    416: {"description": "the file is shorter"},
}
