"""The proxy of one run: the only way out of its network namespace, and only to the hosts of its allow-list.

It serves one listener, which is inside the run's namespace, so only that run can reach it and it needs no
password. It lives in the supervisor and ends with the run. A connection has one request: `http://host/path`, or `CONNECT
host:port` followed by a TLS greeting for exactly that host. A host is looked up once for each connection, and the address that
was judged is the address that is dialled.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Coroutine
from dataclasses import dataclass, field
from functools import partial
from typing import Final

import h11

from skillyard.errors import NetworkFailed, NetworkRefused
from skillyard.network.connections import (
    HEAD_LIMIT,
    AddressLookup,
    StreamPair,
    allowed_addresses,
    connect,
    system_lookup,
)
from skillyard.network.hosts import Contact, HostRule, MalformedHost, Verdict, canonical_host, permits
from skillyard.network.proxy_relay import (
    InvalidClientHello,
    MalformedProxyRequest,
    ProxyRequest,
    TrafficBudget,
    TrafficBudgetExceeded,
    TrafficMeter,
    pass_request,
    proxy_reply,
    read_client_hello,
    read_proxy_request,
    tunnel,
)

_MOST_CONTACTS: Final = 200
_DENIED: Final = "denied-by-allowlist"


@dataclass(frozen=True, slots=True)
class ProxyLimits:
    """How much one run may ask of its proxy: connections at once, seconds without a byte, bytes in all, both ways."""

    connections: int = 32
    idle_s: float = 30.0
    greeting_s: float = 5.0
    sent_bytes: int = 64 * 1024 * 1024
    received_bytes: int = 256 * 1024 * 1024


@dataclass(slots=True)
class _ProxyConnection:
    """The facts about one connection; recorded when it ends."""

    meter: TrafficMeter
    host: str = ""
    port: int = 0
    verdict: Verdict = "refused"
    reason: str = ""
    address: str = ""

    def contact(self) -> Contact:
        return Contact(self.host, self.port, self.verdict, self.reason, self.address, 1, self.meter.sent, self.meter.received)


class _Denied(Exception):
    """The run requested what it may not have; `mark` is for programs, the message for people."""

    def __init__(self, mark: str, reason: str) -> None:
        super().__init__(reason)
        self.mark = mark


class ContactLog:
    """Adds contacts up; a run that requests endless names is recorded in bounded space."""

    def __init__(self) -> None:
        self._sums: dict[tuple[str, int, Verdict, str, str], list[int]] = {}

    def add(self, contact: Contact) -> None:
        """Count one more contact; beyond 200 different ones under the host `…`."""
        key = (contact.host[:253], contact.port, contact.verdict, contact.reason, contact.address)
        if key not in self._sums and len(self._sums) >= _MOST_CONTACTS:
            key = ("…", 0, contact.verdict, "more hosts than are recorded", "")
        sums = self._sums.setdefault(key, [0, 0, 0])
        for index, number in enumerate((contact.requests, contact.sent_bytes, contact.received_bytes)):
            sums[index] += number

    def contacts(self) -> tuple[Contact, ...]:
        """Everything that was recorded, in the order of the first time."""
        return tuple(Contact(*key, *sums) for key, sums in self._sums.items())


@dataclass(slots=True)
class Proxy:
    """Serves a run's listener; `contacts` has the requested hosts.

    `private` opens loopback and private networks for the hosts of the list. `trusted` are registries of packages that the
    operator has named, and no skill: they may have reserved addresses too.
    """

    rules: tuple[HostRule, ...]
    private: bool = False
    limits: ProxyLimits = field(default_factory=ProxyLimits)
    lookup: AddressLookup = system_lookup
    trusted: tuple[HostRule, ...] = ()
    _contact_log: ContactLog = field(default_factory=ContactLog)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _listener: socket.socket | None = None
    _budget: TrafficBudget | None = None

    @property
    def contacts(self) -> tuple[Contact, ...]:
        """The hosts requested so far."""
        return self._contact_log.contacts()

    def open(self, listener: socket.socket) -> None:
        """Start to serve a listening socket; takes ownership of it."""
        listener.setblocking(False)
        self._listener = listener
        self._start(self._accept(listener, asyncio.Semaphore(self.limits.connections)))

    def serve(self, connection: socket.socket) -> None:
        """Serve one connection that somebody else has accepted, and counted; takes ownership of it."""
        connection.setblocking(False)
        self._start(self._serve(connection)).add_done_callback(lambda _: connection.close())

    async def close(self) -> None:
        """End the listener and every connection."""
        while self._tasks:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._listener is not None:
            self._listener.close()

    def _start(self, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _accept(self, listener: socket.socket, slots: asyncio.Semaphore) -> None:
        """Take connections while there is room for them; the others wait in the kernel, which has little room too."""
        loop = asyncio.get_running_loop()
        while True:
            await slots.acquire()
            try:
                connection, _ = await loop.sock_accept(listener)
            except OSError:  # this process has no descriptor to spare for a moment
                slots.release()
                await asyncio.sleep(0.05)
                continue
            self._start(self._serve(connection)).add_done_callback(partial(_release_slot, slots, connection))

    async def _serve(self, accepted: socket.socket) -> None:
        if self._budget is None:
            self._budget = TrafficBudget(self.limits.sent_bytes, self.limits.received_bytes)
        run = await asyncio.open_connection(sock=accepted, limit=HEAD_LIMIT)
        clock = asyncio.timeout(self.limits.idle_s)
        connection = _ProxyConnection(TrafficMeter(self._budget, partial(_wind, clock, self.limits.idle_s)))
        try:
            async with clock:
                await self._answer(run, connection)
        except TimeoutError:
            connection.reason = connection.reason or "idle for too long"
        except asyncio.CancelledError:  # the run is over
            run[1].transport.abort()
            raise
        finally:
            if connection.host or connection.reason:
                self._contact_log.add(connection.contact())
            await _close_stream(run)

    async def _answer(self, run: StreamPair, connection: _ProxyConnection) -> None:
        """Serve one connection; a failure is recorded, and sent to the run while it still listens."""
        try:
            request = await read_proxy_request(run[0])
            if request is not None:
                connection.host, connection.port = request.destination.host, request.destination.port
                await self._forward(request, run, connection)
        except MalformedProxyRequest as error:
            await _send_refusal(run, connection, "refused", 400, "bad-request", str(error))
        except _Denied as error:
            await _send_refusal(run, connection, "denied", 403, error.mark, str(error))
        except NetworkFailed as error:
            await _send_refusal(run, connection, "failed", 502, "unreachable", error.message)
        except InvalidClientHello as error:
            connection.verdict, connection.reason = "denied", str(error)
        except TrafficBudgetExceeded:
            connection.reason = "the run has sent or received as much as it may"
            run[1].transport.abort()
        except (OSError, EOFError, h11.ProtocolError):
            connection.reason = "the connection was broken"
            run[1].transport.abort()  # half an answer must not look like a whole one

    async def _forward(self, request: ProxyRequest, run: StreamPair, connection: _ProxyConnection) -> None:
        host = await self._connect(request, connection)
        try:
            if request.tunnel:
                await self._greet(request, run, host, connection)
                await tunnel(run, host, connection.meter)
            else:
                await pass_request(request, run, host, connection.meter)
        except BaseException:
            host[1].transport.abort()
            raise
        finally:
            await _close_stream(host)

    async def _connect(self, request: ProxyRequest, connection: _ProxyConnection) -> StreamPair:
        """Judge, look up, judge the addresses, dial: the same canonical host in each."""
        to = request.destination
        if not permits(self.rules, to.scheme, to.host, to.port):
            raise _Denied(_DENIED, f"{to.scheme}://{to.authority} is not on the allow-list of this run")
        try:
            trusted = permits(self.trusted, to.scheme, to.host, to.port)
            addresses = await allowed_addresses(to.host, private=self.private, lookup=self.lookup, trusted=trusted)
        except NetworkRefused as error:
            raise _Denied("denied-by-address", error.message) from None
        streams = await connect(to.host, to.port, addresses)
        connection.verdict, connection.address = "allowed", str(streams[1].get_extra_info("peername")[0])
        return streams

    async def _greet(self, request: ProxyRequest, run: StreamPair, host: StreamPair, connection: _ProxyConnection) -> None:
        """Answer the CONNECT, then forward the greeting when it is TLS for the host that was judged.

        Raises:
            InvalidClientHello: it is something else.
        """
        run[1].write(proxy_reply(200, "allowed", ""))
        await run[1].drain()
        try:
            async with asyncio.timeout(self.limits.greeting_s):
                raw, name = await read_client_hello(run[0], request.rest)
        except TimeoutError:
            raise InvalidClientHello("no TLS greeting came in time") from None
        if not _is_for(request.destination.host, name):
            raise InvalidClientHello("the TLS greeting is for another host")
        connection.meter.count_out(len(raw))
        host[1].write(raw)
        await host[1].drain()


def _is_for(host: str, name: str | None) -> bool:
    """Whether a server name fits; addresses are never named in a greeting (RFC 6066, 3)."""
    if name is None:
        return host.startswith("[") or host.replace(".", "").isdigit()
    try:
        return canonical_host(name) == host
    except MalformedHost:
        return False


async def _send_refusal(
    run: StreamPair, connection: _ProxyConnection, verdict: Verdict, status: int, mark: str, reason: str
) -> None:
    connection.verdict, connection.reason = verdict, reason
    with contextlib.suppress(OSError, TimeoutError):
        run[1].write(proxy_reply(status, mark, reason))
        await run[1].drain()
        run[1].write_eof()
        # What is still on its way is read for a moment, so that the answer is not lost to a reset.
        async with asyncio.timeout(1):
            while await run[0].read(HEAD_LIMIT):
                pass


def _wind(clock: asyncio.Timeout, seconds: float) -> None:
    if not clock.expired():
        clock.reschedule(asyncio.get_running_loop().time() + seconds)


def _release_slot(slots: asyncio.Semaphore, connection: socket.socket, _: asyncio.Task[None]) -> None:
    connection.close()  # also when its task was ended before it began
    slots.release()


async def _close_stream(streams: StreamPair) -> None:
    """Close cleanly where everything was written, else abort."""
    _, writer = streams
    try:
        writer.close()
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(1):
                await writer.wait_closed()
    finally:
        writer.transport.abort()
