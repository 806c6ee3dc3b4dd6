"""One HTTP request and its response over a connection of their own, written and read by `h11`."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from typing import Final

import h11

from skillyard.errors import NetworkFailed
from skillyard.network.connections import HEAD_LIMIT, StreamPair, allowed_addresses, connect, system_lookup
from skillyard.network.messages import GuardedResponse, OutgoingRequest

_CHUNK: Final = 1 << 16


async def send_request(question: OutgoingRequest, *, timeout_s: float, private: bool) -> GuardedResponse:
    """Send the request, give the answer; `private` opens private networks.

    Raises:
        NetworkRefused: the address may not be reached.
        NetworkFailed: no proper answer in time, or one that is too long.
    """
    host = question.destination.host
    try:
        async with asyncio.timeout(timeout_s):
            return await _exchange(question, private)
    except TimeoutError:
        raise NetworkFailed(f"{host} did not answer within {timeout_s:g} s", hint="allow it more time") from None
    except (OSError, EOFError, h11.ProtocolError) as error:
        raise NetworkFailed(f"{host} did not answer properly: {error}", hint="try again later") from None


async def _exchange(question: OutgoingRequest, private: bool) -> GuardedResponse:
    to = question.destination
    try:
        addresses = await allowed_addresses(to.host, private=private, lookup=system_lookup)
        context = ssl.create_default_context() if to.scheme == "https" else None
        streams = await connect(to.host, to.port, addresses, context=context)
    except NetworkFailed as error:
        error.details["sent"] = False  # the caller may try another service
        raise
    sending: asyncio.Task[None] | None = None
    try:
        connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD_LIMIT)
        sending = asyncio.create_task(_send(question, connection.send(_head(question)), streams))
        for event in (h11.Data(data=question.body), h11.EndOfMessage()):
            connection.send(event)  # the state machine must know that the request is complete; the bytes went above
        return await _receive(question, connection, streams)
    finally:
        if sending is not None:
            sending.cancel()
        await _close(streams)


def _head(question: OutgoingRequest) -> h11.Request:
    to = question.destination
    headers = [("Host", to.authority), ("Connection", "close"), ("Content-Length", str(len(question.body)))]
    headers += [(name, value) for name, value in question.headers if name.lower() != "accept-encoding"]
    headers += [("Accept-Encoding", "identity")]  # what comes back is counted as it is
    raw = [(name.encode("ascii"), value.encode("latin-1")) for name, value in headers]
    return h11.Request(method=question.method, target=to.target, headers=raw)


async def _send(question: OutgoingRequest, head: bytes | None, streams: StreamPair) -> None:
    """Write the request; a server may answer before it has read all of it."""
    _, writer = streams
    with contextlib.suppress(OSError):
        writer.write((head or b"") + question.body)
        await writer.drain()


async def _receive(question: OutgoingRequest, connection: h11.Connection, streams: StreamPair) -> GuardedResponse:
    reader, _ = streams
    head: h11.Response | None = None
    body = bytearray()
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(await reader.read(_CHUNK))
        elif isinstance(event, h11.Response):
            head = event
        elif isinstance(event, h11.Data):
            body += event.data
            if len(body) > question.max_bytes:
                raise NetworkFailed(
                    f"{question.destination.host} answered more than {question.max_bytes} bytes",
                    hint="ask for less",
                    limit=question.max_bytes,
                )
        elif isinstance(event, h11.EndOfMessage) and head is not None:
            return GuardedResponse(head.status_code, _joined_headers(head), bytes(body))
        elif isinstance(event, h11.ConnectionClosed) or event is h11.PAUSED:
            raise EOFError("the connection ended too early")


def _joined_headers(head: h11.Response) -> dict[str, str]:
    joined: dict[str, str] = {}
    for raw_name, raw_value in head.headers:
        name, value = raw_name.decode("ascii"), raw_value.decode("latin-1")
        joined[name] = f"{joined[name]}, {value}" if name in joined else value
    return joined


async def _close(streams: StreamPair) -> None:
    """Close the connection at once; data still on its way is discarded."""
    _, writer = streams
    writer.transport.abort()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
