"""Spans for OpenTelemetry, where the program that uses Skillyard has loaded it.

Nothing is imported for this: without OpenTelemetry, or with it unconfigured, a call costs a dictionary look-up more. Names of
spans are constants; skills and steps are attributes, cut and counted, so that a model that makes up names floods no label.
Calls of tools and the skills they are about have the attributes of the GenAI conventions (`gen_ai.*`).
"""

from __future__ import annotations

import json
import os
import re
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol

from skillyard.errors import SkillyardError
from skillyard.text import shorten, single_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


SCOPE: Final = "skillyard"
LABEL: Final = 64  # characters
_CAPTURED: Final = frozenset({"true", "span_only", "span_and_event"})
_CAPTURED_TEXT: Final = 16_000  # characters of a text in a span
_SKILLS: Final = 256


def loaded_trace() -> Any:
    """OpenTelemetry's module of traces where the program has loaded it, else None."""
    return sys.modules.get("opentelemetry.trace")


def is_traced() -> bool:
    """Whether spans are collected."""
    trace = loaded_trace()
    return trace is not None and type(trace.get_tracer_provider()).__name__ not in ("ProxyTracerProvider", "NoOpTracerProvider")


def captures_content() -> bool:
    """Whether what is said and what tools are given may be in spans: only where the program's variable for that is set."""
    return os.environ.get("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "").strip().lower() in _CAPTURED


class BoundedLabels:
    """The first `limit` different names as they are, cut to 64 characters; all later ones are `other`."""

    def __init__(self, limit: int = _SKILLS) -> None:
        self._limit = limit
        self._names: set[str] = set()
        self._lock = threading.Lock()

    def bounded(self, name: str) -> str:
        """The name to put on a label."""
        shown = shorten(single_line(name), LABEL)
        with self._lock:
            if shown not in self._names and len(self._names) < self._limit:
                self._names.add(shown)
            return shown if shown in self._names else "other"


_names: Final = BoundedLabels()
_ids: Final = BoundedLabels()


class TracedSkill(Protocol):
    """What a span says of a skill."""

    @property
    def id(self) -> str: ...  # noqa: D102
    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def version(self) -> str | None: ...  # noqa: D102
    def digest(self) -> str: ...  # noqa: D102


@contextmanager
def open_span(name: str, attributes: Mapping[str, object]) -> Iterator[Any]:
    """A span around what is done inside; gives None where nobody collects spans."""
    if not is_traced():
        yield None
        return
    with loaded_trace().get_tracer(SCOPE).start_as_current_span(name, attributes=dict(attributes)) as span:
        yield span


_PARENT: Final = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")


def current_parent() -> str:
    """The open span as a W3C `traceparent`, for spans of another process below it; empty if there is none."""
    trace = loaded_trace()
    context = trace.get_current_span().get_span_context() if trace is not None else None
    if context is None or not context.is_valid:
        return ""
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags):02x}"


@contextmanager
def below(parent: str) -> Iterator[None]:
    """What is traced inside is below a span of another process, by its `traceparent`; what is none of these changes nothing."""
    trace, read = loaded_trace(), _PARENT.fullmatch(parent)
    if trace is None or read is None:
        yield
        return
    ids = (int(read[1], 16), int(read[2], 16))
    context = trace.SpanContext(*ids, is_remote=True, trace_flags=trace.TraceFlags(int(read[3], 16)))
    with trace.use_span(trace.NonRecordingSpan(context)):
        yield


@contextmanager
def tool_span(given: str, known: str | None, arguments: object, call_id: str | None) -> Iterator[Any]:
    """The span of one call of a tool; gives None where nobody collects spans.

    `given` is the name that was called, `known` the tool it stands for, None when a model made it up: such a name is no label.
    A span for this very call that the caller has open, of an agent's framework or of MCP's SDK (`tools/call`), is used in
    place of a new one: a call is counted once.
    """
    if not is_traced():
        yield None
        return
    name = known or "other"
    attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name, "gen_ai.tool.type": "function"}
    if call_id is not None:
        attributes["gen_ai.tool.call.id"] = call_id
    if captures_content():
        shown = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False, default=str)
        attributes["gen_ai.tool.call.arguments"] = shown[:_CAPTURED_TEXT]
    trace = loaded_trace()
    around = trace.get_current_span()
    if not _is_about(around, given):
        with open_span(f"execute_tool {name}", attributes) as span:
            yield span
        return
    around.set_attributes(attributes)
    if known is None:
        around.update_name(f"{around.name.partition(' ')[0]} {name}")
    yield around


def _is_about(span: Any, tool: str) -> bool:
    """Whether an open span is that of a call of this tool, perhaps under a name with a prefix."""
    attributes = getattr(span, "attributes", None)  # spans of an SDK have them
    if not span.is_recording() or not attributes or attributes.get("gen_ai.operation.name") != "execute_tool":
        return False
    return str(attributes.get("gen_ai.tool.name", "")).endswith(tool)


def end_tool_span(span: Any, *, text: str, code: str | None, skill: Mapping[str, str]) -> None:
    """Write on the span of a call how it ended: its answer where that is switched on, the code of its error, its skill."""
    span.set_attributes(dict(skill))
    if captures_content():
        span.set_attribute("gen_ai.tool.call.result", text[:_CAPTURED_TEXT])
    if code is not None:
        span.set_attributes({"error.type": code, "skillyard.error.code": code})  # MCP's SDK replaces the first by `tool_error`
        span.set_status(loaded_trace().StatusCode.ERROR)


def skill_attributes(skill: TracedSkill, digest: str | None = None) -> dict[str, str]:
    """Which skill a span is about, in the words of the GenAI conventions, with the digest of its content. Blocks."""
    found = {"gen_ai.skill.name": _names.bounded(skill.name), "skillyard.skill.id": _ids.bounded(skill.id)}
    try:
        found["skillyard.skill.digest"] = digest or skill.digest()
        version = skill.version
    except (SkillyardError, OSError):  # removed since it was listed
        return found
    return found | ({"gen_ai.skill.version": shorten(single_line(version), LABEL)} if version else {})


def bounded_id(skill_id: str) -> str:
    """The id of a skill as it may stand on a label."""
    return _ids.bounded(skill_id)


def flush_spans() -> None:
    """Send the pending spans; for a process that exits without the usual clean-up."""
    trace = loaded_trace()
    flush = getattr(trace.get_tracer_provider(), "force_flush", None) if trace is not None else None
    if flush is not None:
        flush(2000)
