"""Listening, until the process is asked to stop; requests that are under way are finished."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from skillyard.access import Keys
from skillyard.errors import InvalidInput, PermissionDenied, SkillyardError
from skillyard.library import Catalog
from skillyard.registry import Registry
from skillyard.server.admission import LOOPBACK, Admission

__all__ = ["serve"]

_GRACE_S: Final = 30  # for requests that are under way when the server is asked to stop


def serve(
    catalog: Catalog,
    registry: Registry,
    *,
    host: str = "127.0.0.1",
    port: int = 8787,
    ready: Callable[[str], object] | None = None,
    allowed_hosts: Sequence[str] = (),
    require_keys: bool = False,
) -> None:
    """Serve until a signal; `ready` is told the address as soon as requests are taken. Port 0 is any free one.

    On an address of this machine only, its users need no key, unless `require_keys`; on any other everybody does. Clients may
    call the server by its addresses and by the names in `allowed_hosts`.

    Raises:
        PermissionDenied: keys are needed, and there is none that could manage the server.
        InvalidInput: the port is taken or cannot be one.
    """
    admission = Admission.listening(host, allowed_hosts=allowed_hosts, require_keys=require_keys)
    if admission.keys_required and not Keys(lambda: catalog.records().database).has_admin():
        reason = "keys are required" if host in LOOPBACK else f"{host} can be reached from elsewhere"
        raise PermissionDenied(
            f"{reason}, and there is no key to manage the server with", hint="`skillyard keys create admin --scope admin`"
        )
    import socket

    import uvicorn

    from skillyard.server.application import create_app

    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server((host, port), family=family, backlog=512)
    except (OSError, OverflowError) as error:
        raise InvalidInput(f"port {port} of {host} cannot be used: {error}", hint="choose another with --port") from None
    shown = f"[{host}]" if ":" in host else host
    with listening:
        if ready:
            ready(f"http://{shown}:{listening.getsockname()[1]}")
        settings = uvicorn.Config(
            create_app(catalog, registry, admission=admission),
            log_level="warning",
            server_header=False,
            timeout_graceful_shutdown=_GRACE_S,
        )
        server = uvicorn.Server(settings)
        server.run(sockets=[listening])
        if not server.started:
            raise SkillyardError("the server did not start", hint="its log says why")
