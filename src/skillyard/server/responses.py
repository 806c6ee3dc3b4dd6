"""Responses: errors in one shape, files with ETag and ranges, and server-sent events with a ping every 15 seconds.

Everything that can go wrong is a problem+json (RFC 9457) with a stable error code. Beside the members of the standard it has
`success: false` and `error: {code, message}` for clients of the older envelope. An unexpected error is logged and answered as
`internal_error`, without its text.

A generator must not be closed while it runs. So one task reads the source of an event stream, and that task closes it, however
the answer ends: the source is exhausted, its client left, an event could not be sent, or the server stops.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import anyio
from fastapi import FastAPI, Request, Response
from fastapi.encoders import jsonable_encoder
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict
from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.exceptions import HTTPException
from starlette.routing import Match, Route

from skillyard.catalog import FileContent, read_file
from skillyard.errors import DiskFull, InvalidInput, SkillyardError
from skillyard.packages import PackageLimits
from skillyard.text import sanitize

_PROBLEM_MEDIA_TYPE: Final = "application/problem+json"
_CODES: Final[Mapping[int, str]] = {
    404: "not_found",
    405: "method_not_allowed",
    408: "request_timeout",
    413: "request_too_large",
}
_HINTS: Final[Mapping[str, str]] = {
    "consent_required": "nothing was changed; if you agree, send the same again with ?consent= and the value of `consent`",
    "grave_findings": "nothing was changed; look at what it names, and if you accept it, send the same again with ?accept= and"
    " each of `rules`",
    "signer_changed": "nothing was changed; ask who publishes it whether that is right, then send the same again with"
    " accept_signer, and with accept_source when its source is another too, or with the value of `consent`",
    "source_changed": "nothing was changed; ask who publishes it whether that is right, then send the same again with"
    " accept_source, or with the value of `consent`",
    "dependency_conflict": "take other versions of those who ask, or send it again with ?dependencies=false",
    "dependency_cycle": "take one of them out, or send it again with ?dependencies=false",
    "skill_required": "take those away first, or send it again with ?dependencies=false (a rollback: in its body)",
    "local_edits": "send it again with ?force=true to replace what was changed by hand",
}
_TEMPORARY: Final[Mapping[str, int]] = {
    "database_unavailable": 5, "store_failed": 10, "server_stopping": 5, "disk_full": 60, "helper_failed": 5,
}  # fmt: skip
"""Temporary problems: the seconds after which to retry."""
_MOST_FAULTS: Final = 100
_log: Final = logging.getLogger(__name__)


class Fault(BaseModel):
    """The error in the older envelope's form."""

    code: str
    message: str


class Problem(BaseModel):
    """Why a request was not fulfilled; some codes have further members, such as `candidates`."""

    model_config = ConfigDict(extra="allow")

    type: str
    title: str
    status: int
    detail: str
    code: str
    success: bool
    error: Fault
    hint: str | None = None


def _documented(*statuses: int) -> dict[int | str, dict[str, Any]]:
    shape = {"schema": {"$ref": "#/components/schemas/Problem"}}
    return {
        status: {"description": HTTPStatus(status).phrase, "content": {_PROBLEM_MEDIA_TYPE: shape}}
        for status in (*statuses, 500, 503)
    }


READ_PROBLEMS: Final = _documented(400, 401, 403, 404, 429)
WRITE_PROBLEMS: Final = _documented(400, 401, 403, 404, 409, 413, 415, 422, 429, 502)


def problem_response(error: SkillyardError) -> JSONResponse:
    """The answer to one of Skillyard's errors; control characters of skills do not come through."""
    details = {key: value for key, value in error.details.items() if key not in Problem.model_fields}
    hint = hint_over_http(error.code, error.hint)
    return _answer(error.status, error.code, sanitize(error.message), hint, details, _standard_headers(error))


def hint_over_http(code: str, hint: str | None) -> str | None:
    """The hint of an error in the terms of a request, where the usual one names options of the command line."""
    return _HINTS.get(code, hint)


def _standard_headers(error: SkillyardError) -> dict[str, str]:
    """The headers that the standards require with the statuses 401, 429 and 503."""
    if error.status == 401:
        return {"WWW-Authenticate": 'Bearer realm="skillyard"'}
    wait = error.details.get("retry_after", _TEMPORARY.get(error.code))
    return {} if wait is None else {"Retry-After": str(wait)}


def _answer(
    status: int,
    code: str,
    message: str,
    hint: str | None = None,
    details: Mapping[str, object] | None = None,
    headers: Mapping[str, str] | None = None,
) -> JSONResponse:
    shape: dict[str, object] = {
        "type": f"urn:skillyard:problem:{code}",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": message,
        "code": code,
        "success": False,
        "error": {"code": code, "message": message},
    }
    if hint:
        shape["hint"] = sanitize(hint)
    content = jsonable_encoder({**(details or {}), **shape}, custom_encoder={bytes: repr})
    return JSONResponse(content, status, headers=dict(headers or {}), media_type=_PROBLEM_MEDIA_TYPE)


class RefusedBody(HTTPException):
    """A body that is refused while it comes in, with its own hint; from there FastAPI passes on no other error."""

    def __init__(self, status: int, message: str, *, hint: str) -> None:
        super().__init__(status, message)
        self.hint = hint


def add_error_handlers(app: FastAPI) -> None:
    """Let every error of `app` be answered in the one shape."""
    app.add_exception_handler(SkillyardError, _skillyard_error)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(OSError, _os_error)
    app.add_exception_handler(Exception, _unexpected)


async def _skillyard_error(request: Request, error: Exception) -> JSONResponse:
    if not isinstance(error, SkillyardError):
        raise error
    with_aliases = getattr(request.state, "with_aliases", None)  # an organisation sees no folder of the machine
    return problem_response(error.with_texts(with_aliases) if with_aliases else error)


async def _invalid(request: Request, error: Exception) -> JSONResponse:
    """A request that does not fit the description of the route: the first fault as text, the first hundred in `problems`."""
    if not isinstance(error, RequestValidationError):
        raise error
    faults = [_fault(request, fault) for fault in error.errors()[:_MOST_FAULTS]]
    message = f"{faults[0]['at']}: {faults[0]['message']}" if faults else "the request cannot be understood"
    return problem_response(InvalidInput(message, hint="/openapi.json describes every request", problems=faults))


def _fault(request: Request, fault: Mapping[str, Any]) -> dict[str, str]:
    """Where a fault is and what it is; of a body that is no JSON object why that is, in other words than pydantic's."""
    at, message = ".".join(str(part) for part in fault["loc"]), str(fault["msg"])
    if fault["type"] == "json_invalid":
        return {"at": "body", "message": f"this is not JSON: {fault['ctx']['error']} at character {fault['loc'][-1]}"}
    if at == "body" and fault["type"] == "model_attributes_type":
        media = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        is_json = media == "application/json" or (media.startswith("application/") and media.endswith("+json"))
        message = "this is not a JSON object" if is_json else "a JSON object needs the header `Content-Type: application/json`"
    return {"at": at, "message": message}


async def _http(request: Request, error: Exception) -> JSONResponse:
    if not isinstance(error, HTTPException):
        raise error
    code = _CODES.get(error.status_code, "invalid_input")
    headers = error.headers
    if error.status_code == 405:
        headers = {**(headers or {}), "Allow": ", ".join(sorted(_methods_at(request)))}
    hint = "/openapi.json lists the routes" if code != "request_too_large" else "send less, or an archive where one is taken"
    if isinstance(error, RefusedBody):
        hint = error.hint
    return _answer(error.status_code, code, str(error.detail), hint, headers=headers)


def _methods_at(request: Request) -> set[str]:
    """Every method that some route takes at the path of a request; a router alone names those of its first route."""
    found: set[str] = set()
    waiting = list(request.app.router.routes)
    while waiting:
        route = waiting.pop()
        waiting += getattr(route, "routes", ())
        if isinstance(route, Route) and route.matches(request.scope)[0] != Match.NONE:
            found |= route.methods or set()
    return found


async def _os_error(request: Request, error: Exception) -> JSONResponse:
    """The answer to a full disk; to any other OSError as to an unexpected error."""
    full = DiskFull.of(error)
    return await _unexpected(request, error) if full is None else problem_response(full)


async def _unexpected(request: Request, error: Exception) -> JSONResponse:
    _log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return internal_error()


def internal_error() -> JSONResponse:
    """The answer to an unexpected error; the details are in the log."""
    return _answer(500, "internal_error", "something went wrong in the server", "its log says what")


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
