"""Spans for OpenTelemetry, where the program that uses Skillyard has loaded it, and observers of ended runs.

Nothing is imported for this: without OpenTelemetry, or with it unconfigured, a run costs a dictionary look-up more. Names of
spans are constants; skills and steps are attributes, cut and counted, so that a model that makes up names floods no label.
"""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any, Final

from skillyard.text import shorten, single_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from skillyard.execution import Run


_SCOPE: Final = "skillyard"
_NAME: Final = 64  # characters
_SKILLS: Final = 256
_STEPS: Final = 100
_MS: Final = 1_000_000  # nanoseconds


def loaded_trace() -> Any:
    """OpenTelemetry's module of traces where the program has loaded it, else None."""
    return sys.modules.get("opentelemetry.trace")


class BoundedLabels:
    """The first `limit` different names as they are, cut to 64 characters; all later ones are `other`."""

    def __init__(self, limit: int = _SKILLS) -> None:
        self._limit = limit
        self._names: set[str] = set()
        self._lock = threading.Lock()

    def bounded(self, name: str) -> str:
        """The name to put on a label."""
        shown = shorten(single_line(name), _NAME)
        with self._lock:
            if shown not in self._names and len(self._names) < self._limit:
                self._names.add(shown)
            return shown if shown in self._names else "other"


_skills: Final = BoundedLabels()
_observers: Final[dict[object, Callable[[Run], object]]] = {}


def observe_runs(observer: Callable[[Run], object]) -> Callable[[], None]:
    """Call `observer` with every run that ends in this process; the result unregisters it."""
    token = object()
    _observers[token] = observer

    def stop() -> None:
        _observers.pop(token, None)

    return stop


def trace_run(run: Run, *, requested_ns: int, turn_ns: int, ended_ns: int) -> None:
    """Report a run that has ended: one span, below it the start of the sandbox, the process and its steps.

    Times are nanoseconds since the epoch: when it was requested, when it got its slot, when it ended.
    """
    for observer in tuple(_observers.values()):
        observer(run)
    trace = loaded_trace()
    if trace is None:
        return
    tracer = trace.get_tracer(_SCOPE)
    span = tracer.start_span("skillyard.run", start_time=requested_ns, attributes=_attributes(run))
    if not span.is_recording():
        return
    if run.error is not None:
        span.set_status(trace.StatusCode.ERROR, run.error.code)
    if run.isolation != "none" and not run.cache_hit:
        below = trace.set_span_in_context(span)
        begun_ns = max(turn_ns, ended_ns - run.duration_ms * _MS)
        tracer.start_span("skillyard.sandbox.start", below, start_time=turn_ns).end(begun_ns)
        process = tracer.start_span("skillyard.sandbox.process", below, start_time=begun_ns)
        _trace_steps(trace, tracer, trace.set_span_in_context(process), run, begun_ns)
        process.end(ended_ns)
    span.end(ended_ns)


def flush_spans() -> None:
    """Send the pending spans; for a process that exits without the usual clean-up."""
    trace = loaded_trace()
    flush = getattr(trace.get_tracer_provider(), "force_flush", None) if trace is not None else None
    if flush is not None:
        flush(2000)


def _attributes(run: Run) -> dict[str, object]:
    attributes: dict[str, object] = {
        "skillyard.run.id": run.run_id,
        "skillyard.skill": _skills.bounded(run.skill_id),
        "skillyard.run.status": run.status,
        "skillyard.isolation": run.isolation,
        "skillyard.cache_hit": run.cache_hit,
        "skillyard.steps": len(run.steps),
    }
    return attributes | ({"error.type": run.error.code} if run.error else {})


def _trace_steps(trace: Any, tracer: Any, below: Any, run: Run, begun_ns: int) -> None:
    """The first 100 steps, each beginning where the one before ended."""
    at = begun_ns
    for step in run.steps[:_STEPS]:
        name = shorten(single_line(step.step_name), _NAME)
        span = tracer.start_span("skillyard.step", below, start_time=at, attributes={"skillyard.step.name": name})
        if step.error:
            span.set_status(trace.StatusCode.ERROR)
        at += int(step.duration * _MS)
        span.end(at)
