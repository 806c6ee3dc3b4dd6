"""Limits of connections: a deadline and a largest size for the head of each request, and how many connections are open at once.

uvicorn has a deadline only between two requests of one connection. Here a client that sends nothing, or one byte a minute, is
cut off; one address opens only so many connections, and when all together are too many the oldest that has not sent a head
makes room. The deadline for bodies is in `middleware.request_limits`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, OrderedDict
from typing import TYPE_CHECKING, Any, ClassVar, Final

if TYPE_CHECKING:
    from skillyard.server.settings import ConnectionLimits


_LARGEST_HEAD: Final = 64 * 1024
_FEWEST: Final = 64  # connections, however few files the process may open
_ANSWER: Final = b"HTTP/1.1 %s\r\nConnection: close\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\n\r\n%s"
_LATE: Final = (b"408 Request Timeout", b"the request headers were not received in time\n")
_LARGE: Final = (b"431 Request Header Fields Too Large", b"the request headers are over 64 KiB\n")
_MANY: Final = (b"503 Service Unavailable", b"too many connections are open from this address\n")
_LOG: Final = logging.getLogger(__name__)


class OpenConnections:
    """Counts the connections of one process; those whose head has not come wait in the order in which they began to."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self._each = limits.each
        self._total = limits.total or _of_files()
        self._by_address: Counter[str] = Counter()
        self._open = 0
        self._waiting: OrderedDict[Any, None] = OrderedDict()

    def admit(self, address: str) -> bool:
        """Count one more connection; False when the address has too many, or none can be closed for it."""
        if self._by_address[address] >= self._each:
            return False
        if self._open >= self._total and not self._make_room():
            return False
        self._by_address[address] += 1
        self._open += 1
        return True

    def left(self, address: str) -> None:
        """Count one connection less that was admitted."""
        self._open -= 1
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]

    def waits(self, connection: Any) -> None:
        """The head of a request is expected on this connection."""
        self._waiting[connection] = None

    def head_received(self, connection: Any) -> None:
        """The head has come, or the connection has ended."""
        self._waiting.pop(connection, None)

    def _make_room(self) -> bool:
        if not self._waiting:
            return False
        oldest, _ = self._waiting.popitem(last=False)
        oldest.give_up()
        return True


def _of_files() -> int:
    """As many connections as half of the files that this process may open: the records and the runs need some too."""
    import resource  # not on every platform

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(_FEWEST, (soft if soft != resource.RLIM_INFINITY else 1 << 16) // 2)


class _LimitedConnection(asyncio.Protocol):
    """One connection: the time until the head of its next request is whole, and how large that is so far.

    It stands before a protocol of uvicorn, whose `client`, `cycle` and `loop` these are: a new `cycle` is a head that has come.
    """

    opened: ClassVar[OpenConnections]
    head_s: ClassVar[float]
    client: tuple[str, int] | None
    cycle: Any
    loop: asyncio.AbstractEventLoop
    transport: asyncio.Transport
    _deadline: asyncio.TimerHandle | None = None
    _address: str | None = None
    _head = 0
    _ending = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to wait for a head, when there is room for another connection."""
        super().connection_made(transport)
        address = self.client[0] if self.client else "unknown"
        if not self.opened.admit(address):
            self._refuse(_MANY)
            return
        self._address = address
        self._expect()

    def connection_lost(self, error: Exception | None) -> None:
        """Make room for another one."""
        self._came()
        if self._address is not None:
            self.opened.left(self._address)
            self._address = None
        super().connection_lost(error)

    def data_received(self, data: bytes) -> None:
        """Pass it on, and see whether a head has become whole by it."""
        if self._ending:
            return
        cycle = self.cycle
        if self._deadline is None and (cycle is None or cycle.response_complete):
            self._expect()
        super().data_received(data)
        if self.cycle is not cycle:
            self._came()
        elif self._deadline is not None:
            self._head += len(data)
            if self._head > _LARGEST_HEAD:
                self._refuse(_LARGE)

    def give_up(self) -> None:
        """End a connection whose head has not come."""
        self._refuse(_LATE)

    def _expect(self) -> None:
        self._head = 0
        self._deadline = self.loop.call_later(self.head_s, self.give_up)
        self.opened.waits(self)

    def _came(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
            self.opened.head_received(self)

    def _refuse(self, why: tuple[bytes, bytes]) -> None:
        """Send one error response and close the connection; further input is ignored."""
        self._came()
        self._ending = True
        if not self.transport.is_closing():
            _LOG.info("a connection was ended: %s", why[1].decode().strip())
            self.transport.write(_ANSWER % (why[0], len(why[1]), why[1]))
            self.transport.close()


def limited_protocol(limits: ConnectionLimits) -> type[asyncio.Protocol]:
    """Uvicorn's protocol with the limits of connections; every connection of one server is counted together."""
    from uvicorn.protocols.http.auto import AutoHTTPProtocol

    more = {"opened": OpenConnections(limits), "head_s": limits.head_s}
    return type("GuardedProtocol", (_LimitedConnection, AutoHTTPProtocol), more)
