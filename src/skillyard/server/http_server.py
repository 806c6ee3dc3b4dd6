"""Listening on an address, in one process or in several, until the process is stopped; and the limits of its connections.

Several processes share the listening socket, the disk and the database. The first one only supervises: it starts the others,
replaces one that dies, and ends them when it leaves.

uvicorn has a deadline only between two requests of one connection. Here the head of each request has a deadline and a largest
size: a client that sends nothing, or one byte a minute, is cut off; one address opens only so many connections, and when all
together are too many the oldest that has not sent a head makes room. The deadline for bodies is in
`middleware.request_limits`.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import errno
import functools
import gc
import logging
import multiprocessing
import os
import signal
import socket
import tempfile
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from multiprocessing.process import BaseProcess
from types import FrameType
from typing import TYPE_CHECKING, Any, ClassVar, Final

from skillyard.access import Keys
from skillyard.errors import InvalidInput, PermissionDenied, SkillyardError
from skillyard.library import Catalog
from skillyard.registry import Registry
from skillyard.server.middleware.observability import METRICS_FOLDER_VARIABLE
from skillyard.server.server_settings import LOOPBACK, AccessPolicy

if TYPE_CHECKING:
    from fastapi import FastAPI

    from skillyard.server.middleware.observability import LogFormat
    from skillyard.server.server_settings import ConnectionLimits

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


OpenCatalog = Callable[[], tuple[Catalog, Registry]]
"""Makes what a server serves; each of several processes calls it, so it must be picklable."""

_MOST_PROCESSES: Final = 64


@dataclass(frozen=True, slots=True)
class ListenOptions:
    """How a server listens.

    When it is stopped, it continues for `drain_s` seconds and only reports that it is not ready, for a load balancer to notice.
    Then no request is taken any more, and those that are under way have `grace_s` seconds to end. `log` is the form of the
    process's log.
    """

    workers: int = 1
    drain_s: float = 0
    grace_s: float = 30
    log: LogFormat | None = None


def serve(
    open_both: OpenCatalog,
    *,
    host: str = "127.0.0.1",
    port: int = 8787,
    how: ListenOptions = ListenOptions(),  # it is frozen
    ready: Callable[[str], object] | None = None,
    allowed_hosts: Sequence[str] = (),
    require_keys: bool = False,
    trusted_proxies: Sequence[str] = (),
) -> None:
    """Serve until a signal; `ready` is called with the address as soon as requests are accepted. Port 0 is any free one.

    On an address of this machine only, its users need no key, unless `require_keys`; on any other everybody does. Clients may
    call the server by its addresses and by the names in `allowed_hosts`. The client address and TLS are accepted from
    `trusted_proxies`, which are addresses and networks, and from nobody else.

    Raises:
        PermissionDenied: keys are needed, and there is none that could manage the server.
        InvalidInput: the port is taken or cannot be one, or there is not at least one process.
    """
    access_policy = AccessPolicy.listening(
        host, allowed_hosts=allowed_hosts, require_keys=require_keys, trusted_proxies=trusted_proxies
    )
    if not 1 <= how.workers <= _MOST_PROCESSES:
        raise InvalidInput(f"{how.workers} processes", hint=f"choose 1 to {_MOST_PROCESSES}")
    make = functools.partial(_application, open_both, access_policy=access_policy, alone=how.workers == 1, grace_s=how.grace_s)
    if access_policy.keys_required:
        _require_admin(open_both, host)
    with _listen(host, port) as listening:
        shown = f"[{host}]" if ":" in host else host
        announce = functools.partial(ready, f"http://{shown}:{listening.getsockname()[1]}") if ready else lambda: None
        if how.workers == 1:
            serve_in_process(make, listening, how, announce)
            return

        gc.enable()
        announce()
        serve_in_processes(make, listening, how)


def serve_in_process(
    make: Callable[[], FastAPI], listening: socket.socket, how: ListenOptions, announce: Callable[[], object] | None = None
) -> None:
    """Serve in this process until a signal.

    Raises:
        SkillyardError: the server did not start.
    """
    import uvicorn

    if how.log:
        from skillyard.server.middleware.observability import configure_logs

        configure_logs(how.log)
    app = make()
    _prepare_mcp()
    if announce:
        announce()

    class Server(uvicorn.Server):
        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            app.state.stopping.begin()
            if not self.force_exit:
                await asyncio.sleep(how.drain_s)
            app.state.stopping.stop_accepting()
            await super().shutdown(sockets)

    server = Server(
        uvicorn.Config(
            app,
            http=limited_protocol(app.state.settings.connections),
            proxy_headers=False,  # it would trust every client on this machine
            ws="none",  # no protocol here is spoken over one
            log_config=None,
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=max(1, round(how.grace_s)),
        )
    )
    server.run(sockets=[listening])
    if not server.started:
        raise SkillyardError("the server did not start", hint="its log has the reason")


def _prepare_mcp() -> None:
    """Import what MCP needs: clients of it begin without the tools of a server that is slow at first.

    It is the last of what a server loads. All of that stays, so it counts as old for the garbage collector, which looks through
    nothing until then: that saves as much as this takes.
    """
    gc.disable()
    try:
        with contextlib.suppress(ImportError):  # a request for it gets an error
            import_module("skillyard.mcp.transports")
    finally:
        if not gc.get_freeze_count():
            gc.freeze()
            gc.unfreeze()
        gc.enable()


def _application(open_both: OpenCatalog, *, access_policy: AccessPolicy, alone: bool, grace_s: float) -> FastAPI:
    from skillyard.server.application import create_app

    return create_app(*open_both(), access_policy=access_policy, alone=alone, grace_s=grace_s)


def _require_admin(open_both: OpenCatalog, host: str) -> None:
    catalog, _ = open_both()
    if not Keys(lambda: catalog.records().database).has_admin():
        reason = "keys are required" if host in LOOPBACK else f"{host} can be reached from elsewhere"
        raise PermissionDenied(
            f"{reason}, and there is no key to manage the server with", hint="`skillyard keys create admin --scope admin`"
        )


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=2048)
    except OverflowError:
        raise InvalidInput(f"there is no port {port}", hint="a port is a number from 1 to 65535") from None
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            problem = f"another program uses port {port} of {host}"
        else:
            problem = f"port {port} of {host} cannot be used: {os.strerror(error.errno) if error.errno else error}"
        raise InvalidInput(problem, hint="choose another port with --port") from None


if TYPE_CHECKING:
    import socket

    from fastapi import FastAPI


_LOOK_S: Final = 0.2
_YOUNG_S: Final = 5  # a process that dies younger than this did not start
_DEATHS: Final = 5  # such deaths in a row, and the server gives up
_PR_SET_PDEATHSIG: Final = 1
_log = logging.getLogger("skillyard.server")


def serve_in_processes(make: Callable[[], FastAPI], listening: socket.socket, how: ListenOptions) -> None:
    """Serve in `how.workers` processes until a signal.

    Raises:
        SkillyardError: the processes die as soon as they are started.
    """
    if how.log:
        from skillyard.server.middleware.observability import configure_logs

        configure_logs(how.log)
    with tempfile.TemporaryDirectory(prefix=f"skillyard-metrics-{os.getpid()}-") as folder:
        os.environ[METRICS_FOLDER_VARIABLE] = folder
        try:
            _ProcessSupervisor(make, listening, how).run()
        finally:
            del os.environ[METRICS_FOLDER_VARIABLE]


class _ProcessSupervisor:
    """The processes of one server, as their parent sees them."""

    def __init__(self, make: Callable[[], FastAPI], listening: socket.socket, how: ListenOptions) -> None:
        self._arguments = (make, listening, how, os.getpid())
        self._how = how
        self._living: dict[BaseProcess, float] = {}
        self._deaths = 0
        self._stop = False

    def run(self) -> None:
        before = {number: signal.signal(number, self._on_signal) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            while not self._stop:
                while len(self._living) < self._how.workers and not self._stop:
                    self._start()
                time.sleep(_LOOK_S)
                self._replace_dead()
        finally:
            self._end_all()
            for number, handler in before.items():
                signal.signal(number, handler)

    def _start(self) -> None:
        process = multiprocessing.get_context("spawn").Process(target=_serve_child, args=self._arguments)
        process.start()
        self._living[process] = time.monotonic()

    def _replace_dead(self) -> None:
        for process, began in list(self._living.items()):
            if process.exitcode is None:
                continue
            del self._living[process]
            _log.warning("process %s of the server ended with %s", process.pid, process.exitcode)
            _forget_metrics(process.pid or 0)
            self._deaths = self._deaths + 1 if time.monotonic() - began < _YOUNG_S else 0
            if self._deaths >= _DEATHS:
                raise SkillyardError("the server does not start", hint="its log has the reason")

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._stop = True

    def _end_all(self) -> None:
        """Terminate all of them, and kill those that do not end."""
        for process in self._living:
            process.terminate()
        last = time.monotonic() + self._how.drain_s + self._how.grace_s + 10
        for process in self._living:
            process.join(max(0.1, last - time.monotonic()))
            if process.exitcode is None:
                process.kill()
                process.join()


def _serve_child(make: Callable[[], FastAPI], listening: socket.socket, how: ListenOptions, parent: int) -> None:
    """One process: it serves until it is stopped, or its parent has ended."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
    if os.getppid() == parent:
        serve_in_process(make, listening, how)


def _forget_metrics(process: int) -> None:
    """Take what a dead process counted as open out of the metrics."""
    from prometheus_client.multiprocess import mark_process_dead

    mark_process_dead(process)  # type: ignore[no-untyped-call] # it has no types
