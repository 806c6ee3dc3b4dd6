"""Runs become spans where OpenTelemetry is in use, with few names on their labels."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from skillyard import Executor, Skill
from skillyard.engine import LocalEngine
from skillyard.execution import RunRequest
from skillyard.tracing import BoundedLabels

Write = Callable[..., Skill]
SCRIPT = """
import json
print(json.dumps({"output": 1, "intermediateSteps": [
    {"stepName": "read", "duration": 1}, {"stepName": "write " + "x" * 200, "duration": 2, "error": "full"}]}))
"""


def _by_name(spans: InMemorySpanExporter) -> dict[str, list[ReadableSpan]]:
    found: dict[str, list[ReadableSpan]] = {}
    for span in spans.get_finished_spans():
        found.setdefault(span.name, []).append(span)
    return found


@pytest.mark.row("000-45")
async def test_a_run_its_sandbox_and_its_steps_are_spans_below_the_callers(write: Write, spans: InMemorySpanExporter) -> None:
    with trace.get_tracer("host").start_as_current_span("request"):
        run = await LocalEngine(Executor()).run(RunRequest(write(SCRIPT), {}))
    found = _by_name(spans)
    (request,), (whole,), (start,), (process,) = (
        found[name] for name in ("request", "skillyard.run", "skillyard.sandbox.start", "skillyard.sandbox.process")
    )
    assert whole.attributes is not None
    assert whole.attributes["skillyard.run.id"] == run.run_id
    assert whole.attributes["skillyard.skill.id"] == "config:example"
    parents = [(whole, request), (start, whole), (process, whole), *((step, process) for step in found["skillyard.step"])]
    for span, parent in parents:
        assert span.parent is not None
        assert span.parent.span_id == parent.context.span_id
    assert start.end_time == process.start_time
    read, wrote = found["skillyard.step"]
    assert read.end_time == wrote.start_time
    assert wrote.status.status_code is trace.StatusCode.ERROR
    assert len(str((wrote.attributes or {})["skillyard.step.name"])) <= 64


async def test_a_failure_is_an_error_of_its_span(write: Write, spans: InMemorySpanExporter) -> None:
    await LocalEngine(Executor()).run(RunRequest(write("raise SystemExit(3)"), {}))
    (span,) = _by_name(spans)["skillyard.run"]
    assert span.status.status_code is trace.StatusCode.ERROR
    assert (span.attributes or {})["error.type"] == "SANDBOX_EXECUTION_ERROR"


def test_a_model_cannot_flood_labels_with_names() -> None:
    names = BoundedLabels(3)
    shown = {names.bounded(f"skill-{number}") for number in range(100)}
    assert shown == {"skill-0", "skill-1", "skill-2", "other"}
    assert names.bounded("skill-1") == "skill-1"
    assert len(BoundedLabels().bounded("x" * 1000)) <= 64


def test_without_it_nothing_of_opentelemetry_is_loaded(write: Write) -> None:
    root = Path(write("print(1)").directory).parent
    script = (
        f"import sys; from skillyard.cli import main; code = main(['run', 'example', '--root', {str(root)!r}])\n"
        "sys.exit(code or any(name.startswith('opentelemetry') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=60).returncode == 0
