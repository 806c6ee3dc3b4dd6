"""Reads what a run asks of its proxy, strictly: one absolute request or one CONNECT, in the spelling all servers agree on."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from typing import Final

import h11

from skillyard.errors import InvalidInput
from skillyard.sandbox.hosts import MalformedHost, canonical_host
from skillyard.sandbox.network.dialling import HEAD_LIMIT
from skillyard.sandbox.network.guarded import Destination, read_destination

__all__ = ["Ask", "BadRequest", "read_ask", "reply", "upstream_request"]

_END: Final = b"\r\n\r\n"
# A line end of one character, or a header that goes on in the next line: servers read these in different ways.
_AMBIGUOUS: Final = re.compile(rb"(?<!\r)\n|\r(?!\n|\Z)|\r\n[ \t]|\0")
_AUTHORITY: Final = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]*\]|[^\s/?#@:\[\]\\]+):(?P<port>[0-9]{1,5})")
_OF_ONE_CONNECTION: Final = frozenset({b"connection", b"host", b"keep-alive", b"te", b"trailer", b"upgrade", b"expect"})
_FRAMING: Final = (b"content-length", b"transfer-encoding")
_PHRASES: Final = {200: "Connection established", 400: "Bad Request", 403: "Forbidden", 502: "Bad Gateway"}


class BadRequest(ValueError):
    """The run sent something that is no request for a proxy, or could be read as two."""


@dataclass(frozen=True, slots=True)
class Ask:
    """One request to the proxy: where to, and for a plain request the state of its parser."""

    destination: Destination
    tunnel: bool
    head: h11.Request
    parser: h11.Connection
    rest: bytes = b""


async def read_ask(reader: asyncio.StreamReader) -> Ask | None:
    """The request at the start of a connection; `None` when nothing was sent at all.

    Raises:
        BadRequest: over 32 KiB, ambiguous, for another protocol, or not meant for a proxy.
    """
    data = await _read_head(reader)
    if data is None:
        return None
    parser = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_LIMIT)
    try:
        parser.receive_data(data)
        head = parser.next_event()
    except h11.RemoteProtocolError as error:
        raise BadRequest(f"the request is malformed: {error}") from None
    if not isinstance(head, h11.Request):
        raise BadRequest("the request is malformed")
    _check(head)
    target = head.target.decode("ascii")
    if head.method == b"CONNECT":
        return Ask(_tunnel_end(target), True, head, parser, data.partition(_END)[2])
    if not target.lower().startswith("http://"):
        raise BadRequest("a proxy is asked for http://host/path, or to CONNECT host:port")
    try:
        return Ask(read_destination(target), False, head, parser)
    except InvalidInput as error:
        raise BadRequest(error.message) from None


async def _read_head(reader: asyncio.StreamReader) -> bytes | None:
    data = b""
    while _END not in data:
        more = await reader.read(HEAD_LIMIT)
        if not more:
            if data:
                raise BadRequest("the connection ended inside a request")
            return None
        data += more
        head = data.partition(_END)[0]
        if _AMBIGUOUS.search(head):
            raise BadRequest("the request has an ambiguous line")
        if len(head) > HEAD_LIMIT:
            raise BadRequest(f"the head of the request is over {HEAD_LIMIT} bytes")
    return data


def _check(head: h11.Request) -> None:
    if head.http_version not in (b"1.0", b"1.1"):
        raise BadRequest("the request is for another version of HTTP")
    names = [name for name, _ in head.headers]
    if b"upgrade" in names:
        raise BadRequest("a connection cannot become another protocol")
    framing = [name for name in names if name in _FRAMING]
    if len(framing) > 1 or (framing and head.method == b"CONNECT"):
        raise BadRequest("the length of the request is ambiguous")


def _tunnel_end(target: str) -> Destination:
    match = _AUTHORITY.fullmatch(target)
    if not match or not 0 < int(match["port"]) < 65_536:
        raise BadRequest("CONNECT needs host:port")
    try:
        return Destination("https", canonical_host(match["host"]), int(match["port"]), "")
    except MalformedHost as error:
        raise BadRequest(f"the host {error}") from None


def upstream_request(ask: Ask) -> h11.Request:
    """The request as the host gets it: for itself alone, for one answer, without anything meant for the proxy."""
    named = {token.strip().lower() for name, value in ask.head.headers if name == b"connection" for token in value.split(b",")}
    dropped = (named | _OF_ONE_CONNECTION) - {*_FRAMING}
    kept = [(name, value) for name, value in ask.head.headers if name not in dropped and not name.startswith(b"proxy-")]
    own = [(b"Host", ask.destination.authority.encode("ascii")), (b"Connection", b"close")]
    return h11.Request(method=ask.head.method, target=ask.destination.target, headers=[*own, *kept])


def reply(status: int, mark: str, reason: str) -> bytes:
    """An answer of the proxy itself; `mark` tells programs which."""
    body = f"{reason}\n".encode("utf-8", "replace")
    lines = [f"HTTP/1.1 {status} {_PHRASES[status]}", f"X-Skillyard-Proxy: {mark}"]
    if status != 200:
        lines += ["Content-Type: text/plain; charset=utf-8", f"Content-Length: {len(body)}", "Connection: close"]
    return "\r\n".join([*lines, "", ""]).encode("ascii") + (body if status != 200 else b"")
