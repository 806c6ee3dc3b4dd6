"""Listening: on this machine only, until the process is asked to stop; requests that are under way are finished."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from skillyard.errors import InvalidInput, PermissionDenied, SkillyardError
from skillyard.library import Catalog
from skillyard.registry import Registry
from skillyard.server.admission import LOOPBACK

__all__ = ["serve"]

_GRACE_S: Final = 30  # for requests that are under way when the server is asked to stop


def serve(
    catalog: Catalog,
    registry: Registry,
    *,
    host: str = "127.0.0.1",
    port: int = 8787,
    ready: Callable[[str], object] | None = None,
) -> None:
    """Serve until a signal; `ready` is told the address as soon as requests are taken. Port 0 is any free one.

    Raises:
        PermissionDenied: `host` is not this machine's own: whoever reaches it could install and run.
        InvalidInput: the port is taken or cannot be one.
    """
    if host not in LOOPBACK:
        raise PermissionDenied(
            f"{host} can be reached from elsewhere, and the server asks nobody who they are", hint="leave --host out"
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
            create_app(catalog, registry), log_level="warning", server_header=False, timeout_graceful_shutdown=_GRACE_S
        )
        server = uvicorn.Server(settings)
        server.run(sockets=[listening])
        if not server.started:
            raise SkillyardError("the server did not start", hint="its log says why")
