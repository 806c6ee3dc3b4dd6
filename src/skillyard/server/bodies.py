"""How much of a request is taken, and how long that may take: little, but by routes that count what comes in for themselves.

FastAPI keeps the whole body of a request before a route sees it, also of one that nobody has to sign in for. A body that comes
slower than any line is sent by somebody who wants to hold the server. JSON is parsed on the event loop, in time that grows with
the number of its values and the length of its numbers rather than with its bytes: 4 MiB of empty lists held it for 0.4 s.
"""

from __future__ import annotations

import asyncio
import re
import time
from typing import TYPE_CHECKING, Final

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException

from skillyard.server.settings import ConnectionLimits

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["Bodies"]

_LARGEST: Final = 4 * 1024 * 1024
_MOST_VALUES: Final = 25_000
"""Of a JSON document: lists, objects, texts, numbers and constants at every level. They are parsed and checked within 25 ms."""
_MOST_DIGITS: Final = 300
"""Of a number in JSON; a thousand numbers of 4,000 digits are parsed in 64 ms."""
_DIGITS: Final = b"0123456789"
_LONG_NUMBER: Final = re.compile(rb"(?<![0-9])[0-9]{%d}" % (_MOST_DIGITS + 1))
_CLOSE: Final = {"Connection": "close"}  # what of the body still comes is no request


class Bodies:
    """Passes on at most 4 MiB of a body, and at most 25,000 values of one that is JSON.

    A route that describes its body itself (archives, files) reads and counts it.
    A body has to come within `limits.body_s` seconds, and longer the more of it has come.
    """

    def __init__(self, app: ASGIApp, limits: ConnectionLimits) -> None:
        self._app = app
        self._limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass it on, counted."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        announced, taken, whole = headers.get("content-length", ""), 0, False
        meter = _JsonMeter() if "json" in headers.get("content-type", "json").lower() else None
        began: float | None = None

        async def counted() -> Message:
            nonlocal taken, whole, began
            if whole:  # all that comes now is that the client leaves, whenever that is
                return await receive()
            began = time.monotonic() if began is None else began
            allowed = began + self._limits.body_s + taken / self._limits.bytes_a_second
            try:
                async with asyncio.timeout(allowed - time.monotonic()):
                    message = await receive()
            except TimeoutError:
                seconds = f"{self._limits.body_s:g} s"
                raise HTTPException(408, f"the body of the request did not come within {seconds}", headers=_CLOSE) from None
            taken += len(message.get("body", b""))
            whole = not message.get("more_body", False)
            if max(taken, int(announced) if announced.isdecimal() else 0) > _LARGEST and not _counts_itself(scope):
                raise HTTPException(413, f"the request is over {_LARGEST >> 20} MiB")  # all else FastAPI takes for bad JSON
            if meter is not None and not _counts_itself(scope) and (excess := meter.excess(message.get("body", b""))):
                raise HTTPException(413, f"the JSON of the request has {excess}")
            return message

        await self._app(scope, counted, send)


class _JsonMeter:
    """Measures a JSON document while it comes in, without parsing it; what is inside its texts does not count.

    Each value stands behind a comma or is the first of its list or object: an empty one counts as if it had one.
    """

    def __init__(self) -> None:
        self._values = 1
        self._in_text = False
        self._rest = b""
        self._digits = b""

    def excess(self, piece: bytes) -> str:
        """What there is too much of with the next piece of the document; nothing when all is within bounds."""
        text = (self._rest + piece).replace(rb"\\", b"")  # a run of backslashes is one of them, or none
        self._rest = text[-1:] if text.endswith(b"\\") else b""
        parts = text.removesuffix(b"\\").replace(rb"\"", b"").split(b'"')
        outside = self._digits + b"".join(parts[1 if self._in_text else 0 :: 2])
        self._in_text ^= len(parts) % 2 == 0
        self._values += sum(map(outside.count, (b",", b"[", b"{")))
        if _LONG_NUMBER.search(outside):
            return f"a number of over {_MOST_DIGITS} digits"
        self._digits = outside[len(outside.rstrip(_DIGITS)) :]
        return f"over {_MOST_VALUES:,} values" if self._values > _MOST_VALUES else ""


def _counts_itself(scope: Scope) -> bool:
    """Whether the route, which has been found when it begins to read, describes a body that it reads by itself."""
    return "requestBody" in (getattr(scope.get("route"), "openapi_extra", None) or {})
