"""How much of a request is taken, and how long that may take: little, but by routes that count what comes in for themselves.

FastAPI keeps the whole body of a request before a route sees it, also of one that nobody has to sign in for. A body that comes
slower than any line is sent by somebody who wants to hold the server. And JSON is read by the task that serves everybody: what
takes long is not its length, but of how many values it is made, so those are counted before.
"""

from __future__ import annotations

import asyncio
import re
import time
from typing import TYPE_CHECKING, Final

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException

from skillyard.server.settings import ConnectionLimits

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["Bodies"]

_LARGEST: Final = 4 * 1024 * 1024
_MOST_VALUES: Final = 50_000
_MOST_KEYS: Final = 10_000
_FEW: Final = 4 * _MOST_KEYS  # bytes in which there cannot be too many
_MARK: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[\[{,:]', re.DOTALL)
"""A whole string, or what stands before a value outside of strings."""
_CLOSE: Final = {"Connection": "close"}  # what of the body still comes is no request


class Bodies:
    """Passes on at most 4 MiB of a body; a route that describes its body itself (archives, files) reads and counts it.

    JSON of more than 50,000 values or 10,000 keys is refused before it is read.

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
        written: list[bytes] | None = [] if "json" in headers.get("content-type", "json").lower() else None
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
            if written is not None and not _counts_itself(scope):
                written.append(message.get("body", b""))
                if whole and taken > _FEW and await run_in_threadpool(_has_too_many, b"".join(written)):
                    raise HTTPException(413, f"the request has over {_MOST_VALUES:,} values or {_MOST_KEYS:,} keys")
            return message

        await self._app(scope, counted, send)


def _counts_itself(scope: Scope) -> bool:
    """Whether the route, which has been found when it begins to read, describes a body that it reads by itself."""
    return "requestBody" in (getattr(scope.get("route"), "openapi_extra", None) or {})


def _has_too_many(text: bytes) -> bool:
    """Whether JSON is made of too many values or keys; it ends with the first that is too many."""
    values = keys = 0
    for mark in _MARK.finditer(text):
        sign = text[mark.start()]
        if sign == 0x3A:  # a colon
            keys += 1
        elif sign != 0x22:  # no string
            values += 1
        if values > _MOST_VALUES or keys > _MOST_KEYS:
            return True
    return False
