"""The Host and Origin check before every request, and the security headers on every answer.

A page that somebody visits must not reach the server through the visitor's browser: neither under a name of its own that
leads here (DNS rebinding: the `Host` header must name this server), nor by a request from elsewhere (the `Origin` must be the
server itself). Following a link to a page of the server is no such request. Programs send no `Origin`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.datastructures import Headers

from skillyard.errors import PermissionDenied
from skillyard.server.responses import problem_response

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from skillyard.server.settings import AccessPolicy


_HEADERS: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'; sandbox"),
)
"""Unless an answer says otherwise: our own page has a policy that its scripts pass, and nothing else has scripts."""


class HostOriginCheck:
    """Passes only requests that name this server and come from no foreign page, and puts the headers of safety on answers."""

    def __init__(self, app: ASGIApp, policy: AccessPolicy) -> None:
        self._app = app
        self._policy = policy

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse, or pass on."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})  # no protocol here is spoken over one
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = message.get("headers", ())
                names = {name for name, _ in given}
                message["headers"] = [*given, *(header for header in _HEADERS if header[0] not in names)]
            await send(message)

        refusal = self._refusal(scope, Headers(scope=scope))
        await (problem_response(refusal) if refusal else self._app)(scope, receive, safely)

    def _refusal(self, scope: Scope, headers: Headers) -> PermissionDenied | None:
        host = headers.get("host", "")
        if not self._policy.answers_to(host) or len(headers.getlist("host")) != 1:
            hint = "use the address that the server printed, or start it with --allowed-host and this name"
            return PermissionDenied("the Host header does not name this server", hint=hint)
        origin = headers.get("origin")
        foreign = origin is not None and origin.lower() != f"{scope['scheme']}://{host}".lower()
        if foreign or (headers.get("sec-fetch-site") == "cross-site" and not _is_navigation(scope, headers)):
            return PermissionDenied("requests from other sites are refused", hint="call it from a program of your own")
        return None


def _is_navigation(scope: Scope, headers: Headers) -> bool:
    """Whether it is a top-level navigation from another site."""
    return (
        scope["method"] == "GET" and headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
    )
