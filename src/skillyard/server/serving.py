"""Listening, in one process or in several, until the process is asked to stop."""

from __future__ import annotations

import asyncio
import functools
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from skillyard.access import Keys
from skillyard.errors import InvalidInput, PermissionDenied, SkillyardError
from skillyard.library import Catalog
from skillyard.registry import Registry
from skillyard.server.admission import LOOPBACK, Admission

if TYPE_CHECKING:
    from fastapi import FastAPI

    from skillyard.server.logs import LogFormat

__all__ = ["Listening", "Opening", "serve", "serve_here"]

Opening = Callable[[], tuple[Catalog, Registry]]
"""Makes what a server serves; each of several processes calls it, so it must be picklable."""

_MOST_PROCESSES: Final = 64


@dataclass(frozen=True, slots=True)
class Listening:
    """How a server listens.

    When it is asked to stop, it goes on for `drain_s` seconds and only says that it is not ready, for a balancer to notice.
    Then no request is taken any more, and those that are under way have `grace_s` seconds to end. `log` is the form of the
    process's log.
    """

    workers: int = 1
    drain_s: float = 0
    grace_s: float = 30
    log: LogFormat | None = None


def serve(
    open_both: Opening,
    *,
    host: str = "127.0.0.1",
    port: int = 8787,
    how: Listening = Listening(),  # it is frozen
    ready: Callable[[str], object] | None = None,
    allowed_hosts: Sequence[str] = (),
    require_keys: bool = False,
    trusted_proxies: Sequence[str] = (),
) -> None:
    """Serve until a signal; `ready` is told the address as soon as requests are taken. Port 0 is any free one.

    On an address of this machine only, its users need no key, unless `require_keys`; on any other everybody does. Clients may
    call the server by its addresses and by the names in `allowed_hosts`. Who asks, and whether over TLS, is believed of
    `trusted_proxies`, which are addresses and networks, and of nobody else.

    Raises:
        PermissionDenied: keys are needed, and there is none that could manage the server.
        InvalidInput: the port is taken or cannot be one, or there is not at least one process.
    """
    admission = Admission.listening(
        host, allowed_hosts=allowed_hosts, require_keys=require_keys, trusted_proxies=trusted_proxies
    )
    if not 1 <= how.workers <= _MOST_PROCESSES:
        raise InvalidInput(f"{how.workers} processes", hint=f"choose 1 to {_MOST_PROCESSES}")
    make = functools.partial(_application, open_both, admission=admission, alone=how.workers == 1, grace_s=how.grace_s)
    if admission.keys_required:
        _require_admin(open_both, host)
    with _listen(host, port) as listening:
        shown = f"[{host}]" if ":" in host else host
        announce = functools.partial(ready, f"http://{shown}:{listening.getsockname()[1]}") if ready else lambda: None
        if how.workers == 1:
            serve_here(make, listening, how, announce)
            return
        from skillyard.server.processes import serve_in_processes

        announce()
        serve_in_processes(make, listening, how)


def serve_here(
    make: Callable[[], FastAPI], listening: socket.socket, how: Listening, announce: Callable[[], object] | None = None
) -> None:
    """Serve in this process until a signal.

    Raises:
        SkillyardError: the server did not start.
    """
    import uvicorn

    from skillyard.server.connections import guarded_protocol

    if how.log:
        from skillyard.server.logs import configure_logs

        configure_logs(how.log)
    app = make()
    if announce:
        announce()

    class Server(uvicorn.Server):
        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            app.state.stopping.begin()
            if not self.force_exit:
                await asyncio.sleep(how.drain_s)
            app.state.stopping.last_call()
            await super().shutdown(sockets)

    server = Server(
        uvicorn.Config(
            app,
            http=guarded_protocol(app.state.settings.connections),
            proxy_headers=False,  # it would believe whoever is on this machine
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
        raise SkillyardError("the server did not start", hint="its log says why")


def _application(open_both: Opening, *, admission: Admission, alone: bool, grace_s: float) -> FastAPI:
    from skillyard.server.application import create_app

    return create_app(*open_both(), admission=admission, alone=alone, grace_s=grace_s)


def _require_admin(open_both: Opening, host: str) -> None:
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
    except (OSError, OverflowError) as error:
        raise InvalidInput(f"port {port} of {host} cannot be used: {error}", hint="choose another with --port") from None
