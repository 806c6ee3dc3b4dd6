"""Carries bytes between a run and the host it may reach, counts them, and stops when there are too many."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import h11

from skillyard.sandbox.network.dialling import HEAD_LIMIT, Streams
from skillyard.sandbox.network.heads import Ask, upstream_request

__all__ = ["Budget", "Meter", "OverBudget", "pass_request", "tunnel"]

_CHUNK: Final = 1 << 16
_BETWEEN_PROXIES: Final = (b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-connection", b"trailer", b"upgrade")


class OverBudget(Exception):
    """The run has sent or received as much as it may."""


@dataclass(slots=True)
class Budget:
    """How many bytes a whole run may still send and receive."""

    out: int
    back: int


@dataclass(slots=True)
class Meter:
    """Counts the bytes of one connection, takes them from the run's budget, and keeps its clock from running out."""

    budget: Budget
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
            raise OverBudget


async def tunnel(run: Streams, host: Streams, meter: Meter) -> None:
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


async def pass_request(ask: Ask, run: Streams, host: Streams, meter: Meter) -> None:
    """Carry one request and its answer; both are taken apart and written anew, so nothing can hide between them.

    Raises:
        h11.ProtocolError: the body of the request, or the answer, is malformed.
        EOFError: one side ended too early.
        OverBudget: the run has used up its bytes.
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


async def _send_body(parser: h11.Connection, upstream: h11.Connection, run: Streams, host: Streams, meter: Meter) -> None:
    if parser.they_are_waiting_for_100_continue:
        await _write(run[1], parser.send(h11.InformationalResponse(status_code=100, headers=[])), meter.count_back)
    while True:
        event = parser.next_event()
        if event is h11.NEED_DATA:
            parser.receive_data(await run[0].read(_CHUNK))
        elif isinstance(event, h11.Data):
            with contextlib.suppress(OSError):  # the host wants no more; its answer tells why
                await _write(host[1], upstream.send(h11.Data(data=event.data)), meter.count_out)
        elif isinstance(event, h11.EndOfMessage):
            with contextlib.suppress(OSError):
                await _write(host[1], upstream.send(h11.EndOfMessage()), meter.count_out)
            return
        else:
            raise EOFError("the request ended too early")


async def _return_answer(parser: h11.Connection, upstream: h11.Connection, run: Streams, host: Streams, meter: Meter) -> None:
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
