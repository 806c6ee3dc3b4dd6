"""Requests to the proxy: read strictly, rewritten for the host, and relayed with a count of the bytes.

Accepted is one absolute request or one CONNECT, in the spelling that all servers agree on.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import h11

from skillyard.errors import InvalidInput
from skillyard.network.connections import HEAD_LIMIT, StreamPair
from skillyard.network.hosts import Destination, MalformedHost, canonical_host, read_destination

_END: Final = b"\r\n\r\n"
# A line end of one character, or a header that goes on in the next line: servers read these in different ways.
_AMBIGUOUS: Final = re.compile(rb"(?<!\r)\n|\r(?!\n|\Z)|\r\n[ \t]|\0")
_AUTHORITY: Final = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]*\]|[^\s/?#@:\[\]\\]+):(?P<port>[0-9]{1,5})")
_OF_ONE_CONNECTION: Final = frozenset({b"connection", b"host", b"keep-alive", b"te", b"trailer", b"upgrade", b"expect"})
_FRAMING: Final = (b"content-length", b"transfer-encoding")
_PHRASES: Final = {200: "Connection established", 400: "Bad Request", 403: "Forbidden", 502: "Bad Gateway"}


class MalformedProxyRequest(ValueError):
    """The run sent something that is no request for a proxy, or could be read as two."""


@dataclass(frozen=True, slots=True)
class ProxyRequest:
    """One request to the proxy: where to, and for a plain request the state of its parser."""

    destination: Destination
    tunnel: bool
    head: h11.Request
    parser: h11.Connection
    rest: bytes = b""


async def read_proxy_request(reader: asyncio.StreamReader) -> ProxyRequest | None:
    """The request at the start of a connection; `None` when nothing was sent at all.

    Raises:
        MalformedProxyRequest: over 32 KiB, ambiguous, for another protocol, or not meant for a proxy.
    """
    data = await _read_head(reader)
    if data is None:
        return None
    parser = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_LIMIT)
    try:
        parser.receive_data(data)
        head = parser.next_event()
    except h11.RemoteProtocolError as error:
        raise MalformedProxyRequest(f"the request is malformed: {error}") from None
    if not isinstance(head, h11.Request):
        raise MalformedProxyRequest("the request is malformed")
    _check(head)
    target = head.target.decode("ascii")
    if head.method == b"CONNECT":
        return ProxyRequest(_tunnel_end(target), True, head, parser, data.partition(_END)[2])
    if not target.lower().startswith("http://"):
        raise MalformedProxyRequest("a proxy request needs http://host/path, or CONNECT host:port")
    try:
        return ProxyRequest(read_destination(target), False, head, parser)
    except InvalidInput as error:
        raise MalformedProxyRequest(error.message) from None


async def _read_head(reader: asyncio.StreamReader) -> bytes | None:
    data = b""
    while _END not in data:
        more = await reader.read(HEAD_LIMIT)
        if not more:
            if data:
                raise MalformedProxyRequest("the connection ended inside a request")
            return None
        data += more
        head = data.partition(_END)[0]
        if _AMBIGUOUS.search(head):
            raise MalformedProxyRequest("the request has an ambiguous line")
        if len(head) > HEAD_LIMIT:
            raise MalformedProxyRequest(f"the head of the request is over {HEAD_LIMIT} bytes")
    return data


def _check(head: h11.Request) -> None:
    if head.http_version not in (b"1.0", b"1.1"):
        raise MalformedProxyRequest("the request is for another version of HTTP")
    names = [name for name, _ in head.headers]
    if b"upgrade" in names:
        raise MalformedProxyRequest("a connection cannot become another protocol")
    framing = [name for name in names if name in _FRAMING]
    if len(framing) > 1 or (framing and head.method == b"CONNECT"):
        raise MalformedProxyRequest("the length of the request is ambiguous")


def _tunnel_end(target: str) -> Destination:
    match = _AUTHORITY.fullmatch(target)
    if not match or not 0 < int(match["port"]) < 65_536:
        raise MalformedProxyRequest("CONNECT needs host:port")
    try:
        return Destination("https", canonical_host(match["host"]), int(match["port"]), "")
    except MalformedHost as error:
        raise MalformedProxyRequest(f"the host {error}") from None


def upstream_request(ask: ProxyRequest) -> h11.Request:
    """The request as the host gets it: for itself alone, for one answer, without anything meant for the proxy."""
    named = {token.strip().lower() for name, value in ask.head.headers if name == b"connection" for token in value.split(b",")}
    dropped = (named | _OF_ONE_CONNECTION) - {*_FRAMING}
    kept = [(name, value) for name, value in ask.head.headers if name not in dropped and not name.startswith(b"proxy-")]
    own = [(b"Host", ask.destination.authority.encode("ascii")), (b"Connection", b"close")]
    return h11.Request(method=ask.head.method, target=ask.destination.target, headers=[*own, *kept])


def proxy_reply(status: int, mark: str, reason: str) -> bytes:
    """An answer of the proxy itself; `mark` says which to programs."""
    body = f"{reason}\n".encode("utf-8", "replace")
    lines = [f"HTTP/1.1 {status} {_PHRASES[status]}", f"X-Skillyard-Proxy: {mark}"]
    if status != 200:
        lines += ["Content-Type: text/plain; charset=utf-8", f"Content-Length: {len(body)}", "Connection: close"]
    return "\r\n".join([*lines, "", ""]).encode("ascii") + (body if status != 200 else b"")


_CHUNK: Final = 1 << 16
_BETWEEN_PROXIES: Final = (b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-connection", b"trailer", b"upgrade")


class TrafficBudgetExceeded(Exception):
    """The run has sent or received as much as it may."""


@dataclass(slots=True)
class TrafficBudget:
    """How many bytes a whole run may still send and receive."""

    out: int
    back: int


@dataclass(slots=True)
class TrafficMeter:
    """Counts the bytes of one connection, takes them from the run's budget, and keeps its clock from running out."""

    budget: TrafficBudget
    touch: Callable[[], None]
    sent: int = 0
    received: int = 0

    def count_out(self, size: int) -> None:
        """The run sends this much more."""
        self.sent += size
        self.budget.out -= size
        self._check()

    def count_back(self, size: int) -> None:
        """The run receives this much more."""
        self.received += size
        self.budget.back -= size
        self._check()

    def _check(self) -> None:
        self.touch()
        if self.budget.out < 0 or self.budget.back < 0:
            raise TrafficBudgetExceeded


async def tunnel(run: StreamPair, host: StreamPair, meter: TrafficMeter) -> None:
    """Carry bytes both ways until both sides have ended, or one has broken off."""
    tasks = [
        asyncio.ensure_future(_copy(run[0], host[1], meter.count_out)),
        asyncio.ensure_future(_copy(host[0], run[1], meter.count_back)),
    ]
    try:
        await asyncio.gather(*tasks)
    finally:
        await _cancel(*tasks)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, count: Callable[[int], None]) -> None:
    while data := await reader.read(_CHUNK):
        count(len(data))
        writer.write(data)
        await writer.drain()
    with contextlib.suppress(OSError):
        writer.write_eof()


async def pass_request(ask: ProxyRequest, run: StreamPair, host: StreamPair, meter: TrafficMeter) -> None:
    """Relay one request and its answer; both are parsed and written again, so nothing can hide between them.

    Raises:
        h11.ProtocolError: the body of the request, or the answer, is malformed.
        EOFError: one side ended too early.
        TrafficBudgetExceeded: the run has used up its bytes.
    """
    upstream = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_LIMIT)
    await _write(host[1], upstream.send(upstream_request(ask)), meter.count_out)
    sending = asyncio.ensure_future(_send_body(ask.parser, upstream, run, host, meter))
    receiving = asyncio.ensure_future(_return_answer(ask.parser, upstream, run, host, meter))
    try:
        # An answer may come before the whole request was sent, and then ends the exchange.
        await asyncio.wait((sending, receiving), return_when=asyncio.FIRST_COMPLETED)
        if sending.done():
            sending.result()
        await receiving
    finally:
        await _cancel(sending, receiving)


async def _send_body(
    parser: h11.Connection, upstream: h11.Connection, run: StreamPair, host: StreamPair, meter: TrafficMeter
) -> None:
    if parser.they_are_waiting_for_100_continue:
        await _write(run[1], parser.send(h11.InformationalResponse(status_code=100, headers=[])), meter.count_back)
    while True:
        event = parser.next_event()
        if event is h11.NEED_DATA:
            parser.receive_data(await run[0].read(_CHUNK))
        elif isinstance(event, h11.Data):
            with contextlib.suppress(OSError):  # the host wants no more; its answer says why
                await _write(host[1], upstream.send(h11.Data(data=event.data)), meter.count_out)
        elif isinstance(event, h11.EndOfMessage):
            with contextlib.suppress(OSError):
                await _write(host[1], upstream.send(h11.EndOfMessage()), meter.count_out)
            return
        else:
            raise EOFError("the request ended too early")


async def _return_answer(
    parser: h11.Connection, upstream: h11.Connection, run: StreamPair, host: StreamPair, meter: TrafficMeter
) -> None:
    while True:
        event = upstream.next_event()
        if event is h11.NEED_DATA:
            upstream.receive_data(await host[0].read(_CHUNK))
        elif isinstance(event, h11.Response):
            kept = [(name, value) for name, value in event.headers if name not in _BETWEEN_PROXIES]
            head = h11.Response(status_code=event.status_code, reason=event.reason, headers=[*kept, (b"Connection", b"close")])
            await _write(run[1], parser.send(head), meter.count_back)
        elif isinstance(event, h11.Data):
            await _write(run[1], parser.send(h11.Data(data=event.data)), meter.count_back)
        elif isinstance(event, h11.EndOfMessage):
            await _write(run[1], parser.send(h11.EndOfMessage()), meter.count_back)
            return
        elif not isinstance(event, h11.InformationalResponse):
            raise EOFError("the answer ended too early")


async def _write(writer: asyncio.StreamWriter, data: bytes | None, count: Callable[[int], None]) -> None:
    if data:
        count(len(data))
        writer.write(data)
        await writer.drain()


async def _cancel(*tasks: asyncio.Future[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


LONGEST_CLIENT_HELLO: Final = 16 * 1024

_HANDSHAKE: Final = 22
_CLIENT_HELLO: Final = 1
_SERVER_NAME: Final = 0
# Encrypted Client Hello and its forerunner: the name outside is then not the name that counts.
_HIDDEN_NAMES: Final = (0xFE0D, 0xFFCE)


class InvalidClientHello(ValueError):
    """What was sent is not a TLS greeting that can be judged."""


class _Cursor:
    """Takes fields off the front of a message."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    @property
    def done(self) -> bool:
        return self._position == len(self._data)

    def take(self, length: int) -> bytes:
        if self._position + length > len(self._data):
            raise InvalidClientHello("the TLS greeting is cut short")
        self._position += length
        return self._data[self._position - length : self._position]

    def number(self, width: int) -> int:
        return int.from_bytes(self.take(width), "big")

    def vector(self, width: int) -> bytes:
        """A field that says its own length first."""
        return self.take(self.number(width))


async def read_client_hello(reader: asyncio.StreamReader, first: bytes = b"") -> tuple[bytes, str | None]:
    """Everything read until the greeting was whole, and the server name in it (`None` when there is none).

    Raises:
        InvalidClientHello: something else than TLS, longer than 16 KiB, with a hidden name, or the end came before.
    """
    raw = bytearray(first)
    while (message := _greeting(bytes(raw))) is None:
        if len(raw) >= LONGEST_CLIENT_HELLO:
            raise InvalidClientHello("the TLS greeting is too long")
        data = await reader.read(LONGEST_CLIENT_HELLO - len(raw))
        if not data:
            raise InvalidClientHello("the connection ended before a TLS greeting")
        raw += data
    return bytes(raw), server_name(message)


def _greeting(raw: bytes) -> bytes | None:
    """The body of the greeting, put together from its records; `None` while it is not complete."""
    message, offset = b"", 0
    while len(message) < 4 or len(message) < 4 + int.from_bytes(message[1:4], "big"):
        if raw[offset : offset + 1] not in (b"", bytes([_HANDSHAKE])) or raw[offset + 1 : offset + 2] not in (b"", b"\x03"):
            raise InvalidClientHello("the connection does not begin with TLS")
        if message and message[0] != _CLIENT_HELLO:
            raise InvalidClientHello("the connection does not begin with a TLS greeting")
        length = int.from_bytes(raw[offset + 3 : offset + 5], "big")
        if len(raw) < offset + 5 + length or len(raw) < offset + 5:
            return None
        if not 0 < length <= LONGEST_CLIENT_HELLO:
            raise InvalidClientHello("the TLS greeting has an impossible length")
        message += raw[offset + 5 : offset + 5 + length]
        offset += 5 + length
    if message[0] != _CLIENT_HELLO:
        raise InvalidClientHello("the connection does not begin with a TLS greeting")
    return message[4 : 4 + int.from_bytes(message[1:4], "big")]


def server_name(hello: bytes) -> str | None:
    """The one server name of a greeting, `None` when it names none.

    Raises:
        InvalidClientHello: the greeting is malformed, names several servers, or hides the name.
    """
    cursor = _Cursor(hello)
    cursor.take(2 + 32)
    for width in (1, 2, 1):  # session, ciphers, compression
        cursor.vector(width)
    if cursor.done:
        return None
    extensions = _Cursor(cursor.vector(2))
    if not cursor.done:
        raise InvalidClientHello("the TLS greeting has something behind its end")
    names: list[str | None] = []
    while not extensions.done:
        kind, data = extensions.number(2), extensions.vector(2)
        if kind in _HIDDEN_NAMES:
            raise InvalidClientHello("the TLS greeting hides the server's name (ECH)")
        if kind == _SERVER_NAME:
            names.append(_one_name(data))
    if len(names) > 1:
        raise InvalidClientHello("the TLS greeting names several servers")
    return names[0] if names else None


def _one_name(data: bytes) -> str:
    outer = _Cursor(data)
    entries = _Cursor(outer.vector(2))
    kind, name = entries.number(1), entries.vector(2)
    if kind != 0 or not entries.done or not outer.done or not name.isascii():
        raise InvalidClientHello("the TLS greeting names several servers, or one that is not a host")
    return name.decode("ascii")
