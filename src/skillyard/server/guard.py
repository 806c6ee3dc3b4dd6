"""What stands before every request of a server on this machine, and what every answer carries.

A page that somebody visits must not reach the server through the visitor's browser: neither under a name of its own that
leads to 127.0.0.1 (DNS rebinding: the `Host` header must name this machine), nor by a request from elsewhere (the `Origin` must
be the server itself). Programs send no `Origin`; they are the local user's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders

from skillyard.errors import PermissionDenied
from skillyard.server.callers import LOCAL_USER
from skillyard.server.problems import problem

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["LOOPBACK", "LocalGuard"]

LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})
_HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'; sandbox",
}


class LocalGuard:
    """Lets only requests of the local user pass to `app`, and puts the headers of safety on each answer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse, or pass on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        scope.setdefault("state", {})["caller"] = LOCAL_USER
        refusal = _refusal(scope["scheme"], Headers(scope=scope))
        await (problem(refusal) if refusal else self._app)(scope, receive, safely)


def _refusal(scheme: str, headers: Headers) -> PermissionDenied | None:
    host = headers.get("host", "")
    if _name(f"//{host}") not in LOOPBACK or len(headers.getlist("host")) != 1:
        return PermissionDenied("the Host header does not name this machine", hint="use the address that the server printed")
    origin = headers.get("origin")
    foreign = origin is not None and origin.lower() != f"{scheme}://{host}".lower()
    if foreign or headers.get("sec-fetch-site") == "cross-site":
        return PermissionDenied("pages from elsewhere may not use this server", hint="call it from a program of your own")
    return None


def _name(address: str) -> str | None:
    try:
        parts = urlsplit(address)
        _ = parts.port  # raises for what is no number
        return parts.hostname if not parts.username else None
    except ValueError:
        return None
