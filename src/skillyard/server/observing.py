"""Each request is counted and logged in one line that does not say what it was about; spans of requests are FastAPI's own."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from skillyard.server.callers import Caller
from skillyard.server.logs import event

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from skillyard.server.metrics import Metrics
    from skillyard.server.stopping import Stopping

__all__ = ["Observer"]

_UNMATCHED: Final = "unmatched"
_QUIET: Final = frozenset({"/healthz", "/readyz", "/metrics"})  # what asks for them asks all the time
_FAILED: Final = 500
_GONE: Final = 499  # the client left before the answer began


class Observer:
    """Stands before everything else and looks at what comes back."""

    def __init__(self, app: ASGIApp, metrics: Metrics, stopping: Stopping) -> None:
        self._app = app
        self._metrics = metrics
        self._stopping = stopping

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass it on, and tell of it when it has ended."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, seen = time.perf_counter(), _Seen()
        scope.setdefault("state", {})

        async def watched(message: Message) -> None:
            if message["type"] == "http.response.start":
                seen.begin(message, self._metrics)
            await send(message)

        with self._stopping.under_way():
            try:
                await self._app(scope, receive, watched)
            except Exception:  # it is answered and logged further out
                seen.status = _FAILED
                raise
            finally:
                if seen.stream:
                    self._metrics.stream_closed()
                self._tell(scope, seen, time.perf_counter() - began)

    def _tell(self, scope: Scope, seen: _Seen, seconds: float) -> None:
        route, caller = _route(scope), scope["state"].get("caller")
        self._metrics.answered(scope["method"], route, seen.status, seconds, stream=seen.stream)
        if route in _QUIET and seen.status < 400:
            return
        event(
            "request",
            method=scope["method"][:16],
            route=route,
            status=seen.status,
            ms=round(seconds * 1000, 1),
            caller=caller.name if isinstance(caller, Caller) else None,
            request_id=scope["state"].get("request_id"),
        )


class _Seen:
    """What is known of an answer that is on its way."""

    __slots__ = ("status", "stream")

    def __init__(self) -> None:
        self.status = _GONE
        self.stream = False

    def begin(self, message: Message, metrics: Metrics) -> None:
        self.status = message["status"]
        kinds = [value for name, value in message.get("headers", ()) if name.lower() == b"content-type"]
        if any(kind.startswith(b"text/event-stream") for kind in kinds):
            self.stream = True
            metrics.stream_opened()


def _route(scope: Scope) -> str:
    """The template of the route, such as `/api/v1/runs/{run_id}`; paths are made up by callers without end."""
    route = scope.get("route")
    path = getattr(route, "path_format", None) or getattr(route, "path", None)
    return str(path) if path else _UNMATCHED
