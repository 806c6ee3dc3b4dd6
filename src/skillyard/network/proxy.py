"""The proxy of one run: the only way out of its network namespace, and only to the hosts of its allow-list.

It serves one listener, which stands inside the run's namespace, so nobody but that run can speak to it and it needs no
password. It lives in the supervisor and ends with the run. A connection carries one request: `http://host/path`, or `CONNECT
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
    all_addresses,
    allowed_addresses,
    connect,
    system_lookup,
)
from skillyard.network.contacts import Contact, ContactLog, Verdict
from skillyard.network.hosts import HostRule, MalformedHost, canonical_host, permits
from skillyard.network.proxy_relay import (
    MalformedProxyRequest,
    ProxyRequest,
    TrafficBudget,
    TrafficBudgetExceeded,
    TrafficMeter,
    pass_request,
    proxy_reply,
    read_proxy_request,
    tunnel,
)
from skillyard.network.tls_client_hello import InvalidClientHello, read_client_hello

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
class _Visit:
    """What is known of one connection; written down when it ends."""

    meter: TrafficMeter
    host: str = ""
    port: int = 0
    verdict: Verdict = "refused"
    reason: str = ""
    address: str = ""

    def contact(self) -> Contact:
        return Contact(self.host, self.port, self.verdict, self.reason, self.address, 1, self.meter.sent, self.meter.received)


class _Denied(Exception):
    """The run asked for what it may not have; `mark` is told to programs, the message to people."""

    def __init__(self, mark: str, reason: str) -> None:
        super().__init__(reason)
        self.mark = mark


@dataclass(slots=True)
class Proxy:
    """Serves a run's listener; `contacts` tells afterwards what was asked.

    `private` opens loopback and private networks for the hosts of the list. Without `judged` every address of theirs is
    dialled: for hosts that the operator chose, and no skill.
    """

    rules: tuple[HostRule, ...]
    private: bool = False
    limits: ProxyLimits = field(default_factory=ProxyLimits)
    lookup: AddressLookup = system_lookup
    judged: bool = True
    _ledger: ContactLog = field(default_factory=ContactLog)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _listener: socket.socket | None = None
    _budget: TrafficBudget | None = None

    @property
    def contacts(self) -> tuple[Contact, ...]:
        """What was asked so far."""
        return self._ledger.contacts()

    def open(self, listener: socket.socket) -> None:
        """Begin to serve a listening socket, which is this proxy's from now on."""
        listener.setblocking(False)
        self._listener = listener
        self._budget = TrafficBudget(self.limits.sent_bytes, self.limits.received_bytes)
        self._start(self._accept(listener, asyncio.Semaphore(self.limits.connections)))

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
            self._start(self._serve(connection)).add_done_callback(partial(_leave, slots, connection))

    async def _serve(self, connection: socket.socket) -> None:
        assert self._budget is not None  # noqa: S101 # set by open()
        run = await asyncio.open_connection(sock=connection, limit=HEAD_LIMIT)
        clock = asyncio.timeout(self.limits.idle_s)
        visit = _Visit(TrafficMeter(self._budget, partial(_wind, clock, self.limits.idle_s)))
        try:
            async with clock:
                await self._answer(run, visit)
        except TimeoutError:
            visit.reason = visit.reason or "nothing was said for too long"
        except asyncio.CancelledError:  # the run is over
            run[1].transport.abort()
            raise
        finally:
            if visit.host or visit.reason:
                self._ledger.add(visit.contact())
            await _hang_up(run)

    async def _answer(self, run: StreamPair, visit: _Visit) -> None:
        """Serve one connection; whatever goes wrong is written down and told to the run where it can still hear it."""
        try:
            ask = await read_proxy_request(run[0])
            if ask is not None:
                visit.host, visit.port = ask.destination.host, ask.destination.port
                await self._carry(ask, run, visit)
        except MalformedProxyRequest as error:
            await _tell(run, visit, "refused", 400, "bad-request", str(error))
        except _Denied as error:
            await _tell(run, visit, "denied", 403, error.mark, str(error))
        except NetworkFailed as error:
            await _tell(run, visit, "failed", 502, "unreachable", error.message)
        except InvalidClientHello as error:
            visit.verdict, visit.reason = "denied", str(error)
        except TrafficBudgetExceeded:
            visit.reason = "the run has sent or received as much as it may"
            run[1].transport.abort()
        except (OSError, EOFError, h11.ProtocolError):
            visit.reason = "the connection broke off"
            run[1].transport.abort()  # half an answer must not look like a whole one

    async def _carry(self, ask: ProxyRequest, run: StreamPair, visit: _Visit) -> None:
        host = await self._connect(ask, visit)
        try:
            if ask.tunnel:
                await self._greet(ask, run, host, visit)
                await tunnel(run, host, visit.meter)
            else:
                await pass_request(ask, run, host, visit.meter)
        except BaseException:
            host[1].transport.abort()
            raise
        finally:
            await _hang_up(host)

    async def _connect(self, ask: ProxyRequest, visit: _Visit) -> StreamPair:
        """Judge, look up, judge the addresses, dial: the same canonical host in each."""
        to = ask.destination
        if not permits(self.rules, to.scheme, to.host, to.port):
            raise _Denied(_DENIED, f"{to.scheme}://{to.authority} is not on the allow-list of this run")
        try:
            addresses = (
                await allowed_addresses(to.host, private=self.private, lookup=self.lookup)
                if self.judged
                else await all_addresses(to.host, lookup=self.lookup)
            )
        except NetworkRefused as error:
            raise _Denied("denied-by-address", error.message) from None
        streams = await connect(to.host, to.port, addresses)
        visit.verdict, visit.address = "allowed", str(streams[1].get_extra_info("peername")[0])
        return streams

    async def _greet(self, ask: ProxyRequest, run: StreamPair, host: StreamPair, visit: _Visit) -> None:
        """Let the run begin, and pass its greeting on when it is TLS for the host that was judged.

        Raises:
            NotTls: it is something else.
        """
        run[1].write(proxy_reply(200, "allowed", ""))
        await run[1].drain()
        try:
            async with asyncio.timeout(self.limits.greeting_s):
                raw, name = await read_client_hello(run[0], ask.rest)
        except TimeoutError:
            raise InvalidClientHello("no TLS greeting came in time") from None
        if not _is_for(ask.destination.host, name):
            raise InvalidClientHello("the TLS greeting is for another host")
        visit.meter.count_out(len(raw))
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


async def _tell(run: StreamPair, visit: _Visit, verdict: Verdict, status: int, mark: str, reason: str) -> None:
    visit.verdict, visit.reason = verdict, reason
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


def _leave(slots: asyncio.Semaphore, connection: socket.socket, _: asyncio.Task[None]) -> None:
    connection.close()  # also when its task was ended before it began
    slots.release()


async def _hang_up(streams: StreamPair) -> None:
    """Say goodbye where everything was written, else break off."""
    _, writer = streams
    try:
        writer.close()
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(1):
                await writer.wait_closed()
    finally:
        writer.transport.abort()
