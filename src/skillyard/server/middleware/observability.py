"""Observability: Prometheus metrics, the structured log, the audit records, and the middlewares that name and count requests.

Every label is bounded, and a log line has no content of a request: no tokens, headers, query strings or paths. Texts may come
from skills and callers, so control characters are taken out. Where several processes serve, each writes its metrics into the
folder of PROMETHEUS_MULTIPROC_DIR, and any of them answers for all.

Each change, and each refused one, has an audit record: no route has to think of it. What was recorded below, inside the
transaction of the change, is not recorded twice. Every other change is recorded before the caller sees the answer: who reads
the audit log afterwards finds it there.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import sys
import time
from collections.abc import Callable, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any, Final, Literal, TextIO

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, QueryParams

from skillyard.access import Actor, AuditOutcome
from skillyard.engine import observe_runs
from skillyard.errors import SkillyardError
from skillyard.offload import WorkOutcome, observe_helpers
from skillyard.registry import subscribe_operations
from skillyard.server.authorization import READ_METHODS, Caller
from skillyard.server.responses import internal_error
from skillyard.text import sanitize, single_line

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from skillyard.execution import Run
    from skillyard.server.organisation_services import OrganisationPool

METRICS_FOLDER_VARIABLE: Final = "PROMETHEUS_MULTIPROC_DIR"
"""The folder where the processes of one server count together; the library reads it when it is first imported."""

_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_ACTIONS: Final = frozenset({"install", "update", "rollback", "uninstall", "deprecate", "yank"})
_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


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
        ends = (observe_runs(self._ran), subscribe_operations(self._done), observe_helpers(self._helped))

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
        if os.environ.get(METRICS_FOLDER_VARIABLE):
            registry = CollectorRegistry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call] # it has no types
        return generate_latest(registry)

    def _counter(self, name: str, description: str, *labels: str) -> Counter:
        return Counter(f"skillyard_{name}", description, labels, registry=self.registry)

    def _ran(self, run: Run) -> None:
        self._runs.labels(run.status).inc()
        if run.isolation != "none" and not run.cache_hit:
            self._sandboxes.labels(run.isolation).inc()

    def _helped(self, outcome: WorkOutcome) -> None:
        self._helper_calls.labels(outcome).inc()

    def _done(self, action: str, outcome: str) -> None:
        self._operations.labels(action if action in _ACTIONS else "other", outcome).inc()


LogFormat = Literal["text", "json"]
_PLAIN: Final = re.compile(r'[^ "=]+')
_ORDER: Final = ("method", "route", "status", "ms", "caller", "request_id")
_QUIET_LOGGERS: Final = (
    "mcp",
    "httpx2",
    "httpcore2",
    "urllib3",
    "alembic",
    "watchfiles",
    "sse_starlette",
    "uvicorn.access",
    "asyncio",
)
_SERVER: Final = "skillyard.server"
_own: tuple[TextIO, Callable[..., Any]] | None = None  # where events of the server itself are written, and by what


def configure_logs(form: LogFormat, stream: TextIO | None = None) -> None:
    """Let everything that is logged in this process go to `stream` (standard error), one event a line."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.ExtraAdder(), *_FIRST],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *_LAST, _WRITERS[form]],
        )
    )
    global _own  # there is one log in a process
    _own = handler.stream, _WRITERS[form]
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    for name in _QUIET_LOGGERS:
        logging.getLogger(name).setLevel(logging.WARNING)


def log_event(name: str, **values: object) -> None:
    """Write an event of the server with its values, past `logging`: it is done for each request.

    Where no log is configured, nothing is written; a log that cannot be written to ends no request.
    """
    if _own is not None:
        stream, form = _own
        stamped = _STAMPED(None, "info", {"event": name, "level": "info", "logger": _SERVER, **values})
        line = form(None, "info", _clean(None, "info", stamped))
        with contextlib.suppress(OSError, ValueError):
            stream.write(f"{line}\n")


def _clean(_logger: object, _method: str, values: MutableMapping[str, Any]) -> Mapping[str, Any]:
    return {key: _cleaned(value) if key != "exception" else _indented(str(value)) for key, value in values.items()}


def _cleaned(value: object) -> object:
    if isinstance(value, str):
        return single_line(value)
    return value if value is None or isinstance(value, bool | int | float) else single_line(repr(value))


def _indented(text: str) -> str:
    """A traceback, each line of it recognisable as part of one."""
    return "\n".join(f"  | {sanitize(line)}" for line in text.splitlines())


def _as_text(_logger: object, _method: str, values: MutableMapping[str, Any]) -> str:
    """`time level event key=value …`; what the server itself says of a request is in one order."""
    head = " ".join(str(values.pop(key, "")) for key in ("timestamp", "level", "event"))
    exception = values.pop("exception", None)
    logger = values.pop("logger", None)
    keys = [*(key for key in _ORDER if key in values), *sorted(set(values) - set(_ORDER))]
    values_text = " ".join(f"{key}={_quoted(values[key])}" for key in keys)
    where = f"[{logger}]" if logger and logger != _SERVER else ""
    line = " ".join(part for part in (head, values_text, where) if part)
    return f"{line}\n{exception}" if exception else line


def _quoted(value: object) -> str:
    text = "-" if value is None else str(value)
    return text if _PLAIN.fullmatch(text) else f'"{text}"'.replace('""', '"') if text else '""'


_STAMPED: Final = structlog.processors.TimeStamper(fmt="iso", utc=True)
_FIRST: Final = (
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.stdlib.PositionalArgumentsFormatter(),
    _STAMPED,
)
_LAST: Final = (structlog.processors.format_exc_info, _clean)
_WRITERS: Final[Mapping[LogFormat, Any]] = {"text": _as_text, "json": structlog.processors.JSONRenderer(ensure_ascii=True)}


if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from skillyard.server.background.running_work import Shutdown


_UNMATCHED: Final = "unmatched"
_UNLOGGED_ROUTES: Final = frozenset({"/healthz", "/readyz", "/metrics"})  # probes request them all the time
_FAILED: Final = 500
_GONE: Final = 499  # the client left before the answer began


class RequestObserver:
    """The outermost middleware: measures each request and its answer."""

    def __init__(self, app: ASGIApp, metrics: Metrics, stopping: Shutdown) -> None:
        self._app = app
        self._metrics = metrics
        self._stopping = stopping

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass it on, and report it when it has ended."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, seen = time.perf_counter(), _ResponseStatus()
        scope.setdefault("state", {})

        async def watched(message: Message) -> None:
            if message["type"] == "http.response.start":
                seen.begin(message, self._metrics)
            await send(message)

        with self._stopping.request_in_progress():
            try:
                await self._app(scope, receive, watched)
            except Exception:  # it is answered and logged further out
                seen.status = _FAILED
                raise
            finally:
                if seen.stream:
                    self._metrics.stream_closed()
                self._report(scope, seen, time.perf_counter() - began)

    def _report(self, scope: Scope, seen: _ResponseStatus, seconds: float) -> None:
        route, caller = _route(scope), scope["state"].get("caller")
        self._metrics.answered(scope["method"], route, seen.status, seconds, stream=seen.stream)
        if route in _UNLOGGED_ROUTES and seen.status < 400:
            return
        log_event(
            "request",
            method=scope["method"][:16],
            route=route,
            status=seen.status,
            ms=round(seconds * 1000, 1),
            caller=caller.name if isinstance(caller, Caller) else None,
            request_id=scope["state"].get("request_id"),
        )


class _ResponseStatus:
    """The state of an answer that is being sent."""

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


_NOT_TRIED: Final = frozenset({400, 401, 404, 405, 406, 413, 415, 416, 422, 429})
"""What was asked for could not be understood, or is not there: nothing was changed, and nobody was refused."""

_LOG: Final = logging.getLogger(__name__)


class AuditRecorder:
    """Writes an audit record of each change that goes through it.

    A route that is not in our description speaks a protocol in which a `POST` may only look: it records for itself.
    """

    def __init__(self, app: ASGIApp, pool: OrganisationPool) -> None:
        self._app = app
        self._pool = pool

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass it on, and record how it ended."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        streamed = 0  # the status of an answer whose end says how it went
        answered = False

        async def recording(message: Message) -> None:
            nonlocal streamed, answered
            if message["type"] == "http.response.start":
                answered, status = True, message["status"]
                worth_it = _is_recorded(scope["method"], status, scope["state"])
                streamed = status if worth_it and _is_stream(message) else 0
                if worth_it and not streamed:
                    await self._record(scope, status)
            await send(message)

        try:
            await self._app(scope, receive, recording)
        except Exception:
            if not answered:  # here, so that this answer too has an id and the headers of safety
                await internal_error()(scope, receive, recording)
            elif streamed:
                await self._record(scope, 500)
            raise
        if streamed:
            await self._record(scope, streamed)

    async def _record(self, scope: Scope, status: int) -> None:
        state = scope["state"]
        actor: Actor = state["actor"]
        route = scope.get("route")
        if route is None or not route.include_in_schema or actor.written:
            return
        caller: Caller = state["caller"]
        try:
            async with self._pool.of(caller.organisation) as service:
                await run_in_threadpool(
                    service.audit_log.record, _action(scope), _subject(scope, actor), _outcome(status), _details(state)
                )
        except SkillyardError:
            _LOG.exception("%s %s could not be recorded", scope["method"], scope["path"])


def _is_recorded(method: str, status: int, state: Mapping[str, object]) -> bool:
    """A change that was made, broke or was refused; and a look at what only those who manage the server may see, refused."""
    if method in READ_METHODS:
        return status == 403 and state.get("refused") == "admin"
    return status not in _NOT_TRIED and ("refused" in state or not state.get("unrecorded"))


def _is_stream(message: Message) -> bool:
    return Headers(raw=message["headers"]).get("content-type", "").startswith("text/event-stream")


def _action(scope: Scope) -> str:
    """The topic of the route and what it does: `catalog.toggle`."""
    route = scope["route"]
    topic = str(route.tags[0]).replace(" ", "-") if route.tags else "server"
    return f"{topic}.{route.name}"


def _subject(scope: Scope, actor: Actor) -> str:
    """The subject: the one that the route set, else the names in its path."""
    if actor.subject is not None:
        return actor.subject
    named = [str(value) for value in scope.get("path_params", {}).values()]
    return "/".join(named) or QueryParams(scope["query_string"]).get("skill") or scope["path"]


def _outcome(status: int) -> AuditOutcome:
    if status < 400:
        return "success"
    return "refused" if status == 403 else "failed"


def _details(state: Mapping[str, object]) -> dict[str, object] | None:
    return {"needs": state["refused"]} if "refused" in state else None
