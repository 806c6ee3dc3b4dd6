"""Spans for OpenTelemetry in the words of its GenAI conventions, where the program has loaded it; otherwise they cost nothing.

`invoke_agent` is a turn, `chat` (made by pydantic-ai) a request to the model, `execute_tool` a call. Names that a model made up
are no labels: they all are `other`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from skillyard.tools import ToolResult

__all__ = ["CallSpan", "call_span", "is_traced", "turn_span"]

_MODULE: Final = "opentelemetry.trace"
_KNOWN: Final = frozenset({"skill", "skills_list", "skills_load", "read_skill_file", "run_skill", "search_skills"})


@dataclass(frozen=True, slots=True)
class CallSpan:
    """The span of one call, if there is one."""

    span: Any = None

    def ended(self, result: ToolResult) -> None:
        """Say how the call ended."""
        if self.span is None or result.ok:
            return
        self.span.set_attribute("error.type", result.code or "error")
        self.span.set_status(sys.modules[_MODULE].StatusCode.ERROR)


def is_traced() -> bool:
    """Whether somebody collects spans."""
    trace: Any = sys.modules.get(_MODULE)
    return trace is not None and type(trace.get_tracer_provider()).__name__ not in ("ProxyTracerProvider", "NoOpTracerProvider")


@contextmanager
def turn_span(conversation_id: str, model: str, agent: str | None) -> Iterator[None]:
    """The span of a turn."""
    attributes = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.conversation.id": conversation_id,
        "gen_ai.request.model": model,
    }
    with _span("invoke_agent", attributes | ({"gen_ai.agent.name": agent} if agent else {})):
        yield


@contextmanager
def call_span(tool: str, call_id: str) -> Iterator[CallSpan]:
    """The span of a call."""
    name = tool if tool in _KNOWN else "other"
    attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name, "gen_ai.tool.call.id": call_id}
    with _span(f"execute_tool {name}", attributes) as span:
        yield CallSpan(span)


@contextmanager
def _span(name: str, attributes: dict[str, str]) -> Iterator[Any]:
    if not is_traced():
        yield None
        return
    trace: Any = sys.modules[_MODULE]
    with trace.get_tracer("skillyard").start_as_current_span(name, attributes=attributes) as span:
        yield span
