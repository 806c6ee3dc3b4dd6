"""How much of a request is taken: little, but by the routes that count what comes in for themselves.

FastAPI keeps the whole body of a request before a route sees it, also of one that nobody has to sign in for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["Bodies"]

_LARGEST: Final = 4 * 1024 * 1024


class Bodies:
    """Passes on at most 4 MiB of a body; a route that describes its body itself (archives, files) reads and counts it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass it on, counted."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        announced, taken = Headers(scope=scope).get("content-length", ""), 0

        async def counted() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if max(taken, int(announced) if announced.isdecimal() else 0) > _LARGEST and not _counts_itself(scope):
                raise HTTPException(413, f"the request is over {_LARGEST >> 20} MiB")  # all else FastAPI takes for bad JSON
            return message

        await self._app(scope, counted, send)


def _counts_itself(scope: Scope) -> bool:
    """Whether the route, which has been found when it begins to read, describes a body that it reads by itself."""
    return "requestBody" in (getattr(scope.get("route"), "openapi_extra", None) or {})
