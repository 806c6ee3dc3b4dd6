"""What a server counts, for Prometheus: requests, streams, runs, sandboxes, helper processes and installs.

Every label is bounded: routes are templates, methods and outcomes are words of ours. Where several processes serve, each writes
into the folder of PROMETHEUS_MULTIPROC_DIR, and any of them answers for all. `/metrics` is for who manages the server itself:
the numbers are those of the whole process, and no admin of a single organisation is shown those of the others.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from fastapi import APIRouter, Request, Response
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector
from starlette.concurrency import run_in_threadpool

from skillyard.engine import hear_runs
from skillyard.offload import WorkOutcome, observe_helpers
from skillyard.registry import hear_operations
from skillyard.server.callers import SERVER_ADMIN, needs
from skillyard.server.problems import READING

if TYPE_CHECKING:
    from skillyard.execution import Run

__all__ = ["SHARED", "Metrics", "routes"]

SHARED: Final = "PROMETHEUS_MULTIPROC_DIR"
"""The folder where the processes of one server count together; the library reads it when it is first imported."""

_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_ACTIONS: Final = frozenset({"install", "update", "rollback", "uninstall", "deprecate", "yank"})
_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_MEDIA_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

routes: Final = APIRouter(tags=["metrics"], dependencies=[needs("admin"), SERVER_ADMIN])


class Metrics:
    """The counters of one application; they count from `listen()` on, until what it gives is called."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = self._counter("http_requests", "Requests that were answered.", "method", "route", "status")
        self._seconds = Histogram(
            "skillyard_http_request_duration_seconds",
            "From the request to the end of its answer; streams are left out.",
            ["method", "route"],
            registry=self.registry,
            buckets=_SECONDS,
        )
        self._streams = Gauge(
            "skillyard_http_streams_open",
            "Streams of events that are open.",
            registry=self.registry,
            multiprocess_mode="livesum",
        )
        self._runs = self._counter("runs", "Runs that ended.", "status")
        self._sandboxes = self._counter("sandbox_starts", "Sandboxes that were started for runs.", "isolation")
        self._helper_calls = self._counter("helper_calls", "Work that helper processes were asked for.", "outcome")
        self._operations = self._counter("skill_operations", "What was done to installed skills.", "operation", "outcome")

    def listen(self) -> Callable[[], None]:
        """Count the runs and operations of this process, by whichever interface they come."""
        ends = (hear_runs(self._ran), hear_operations(self._done), observe_helpers(self._helped))

        def stop() -> None:
            for end in ends:
                end()

        return stop

    def answered(self, method: str, route: str, status: int, seconds: float, *, stream: bool) -> None:
        """Count one request; `route` is a template, never a path."""
        method = method if method in _METHODS else "other"
        self._requests.labels(method, route, str(status)).inc()
        if not stream:
            self._seconds.labels(method, route).observe(seconds)

    def stream_opened(self) -> None:
        """Count a stream of events until `stream_closed`."""
        self._streams.inc()

    def stream_closed(self) -> None:
        """The stream has ended."""
        self._streams.dec()

    def text(self) -> bytes:
        """Everything in the text format of Prometheus, of all processes that count together."""
        registry = self.registry
        if os.environ.get(SHARED):
            registry = CollectorRegistry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call] # it has no types
        return generate_latest(registry)

    def _counter(self, name: str, said: str, *labels: str) -> Counter:
        return Counter(f"skillyard_{name}", said, labels, registry=self.registry)

    def _ran(self, run: Run) -> None:
        self._runs.labels(run.status).inc()
        if run.isolation != "none" and not run.cache_hit:
            self._sandboxes.labels(run.isolation).inc()

    def _helped(self, outcome: WorkOutcome) -> None:
        self._helper_calls.labels(outcome).inc()

    def _done(self, action: str, outcome: str) -> None:
        self._operations.labels(action if action in _ACTIONS else "other", outcome).inc()


@routes.get("/metrics", responses=READING, response_class=Response)
async def metrics(request: Request) -> Response:
    """The counters of this server, for Prometheus."""
    counted = request.app.state.metrics
    assert isinstance(counted, Metrics)  # noqa: S101 # the application puts it there
    return Response(await run_in_threadpool(counted.text), media_type=_MEDIA_TYPE)
