"""What belongs to each request: its id, which comes back with the answer, and the services of its organisation, held open."""

from __future__ import annotations

import contextlib
import os
import re
from typing import TYPE_CHECKING, Final

from skillyard.access import DEFAULT_ORGANISATION

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send


_HEADER: Final = b"x-request-id"
_GIVEN: Final = re.compile(rb"[A-Za-z0-9._:-]{1,128}")


class RequestIds:
    """Puts `request_id` into the state of each request, and `X-Request-Id` on its answer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Name it and pass it on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = next((value for name, value in scope["headers"] if name == _HEADER), b"")
        request_id = given.decode() if _GIVEN.fullmatch(given) else f"req_{os.urandom(16).hex()}"
        scope.setdefault("state", {})["request_id"] = request_id

        async def named(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), (_HEADER, request_id.encode())]
            await send(message)

        await self._app(scope, receive, named)


class OrganisationScope:
    """Keeps the rooms that a request asks for open until it has been answered; those of the default one are always."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass it on."""
        if scope["type"] != "http" or scope["state"]["caller"].organisation == DEFAULT_ORGANISATION:
            await self._app(scope, receive, send)
            return
        async with contextlib.AsyncExitStack() as held:
            scope["state"]["held"] = held
            await self._app(scope, receive, send)
