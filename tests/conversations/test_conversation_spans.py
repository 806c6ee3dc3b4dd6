"""Turns, requests and calls are spans in the words of the GenAI conventions, where somebody collects spans."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import preloaded
import pytest
from scripted_models import Call, Say

SCRIPT = """\
import asyncio, json, sys
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from skillyard import Catalog
from skillyard.conversations import Chat

kept = InMemorySpanExporter()
if sys.argv[2] == "traced":
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    trace.set_tracer_provider(provider)

async def main():
    chat = Chat(Catalog.discover(roots=[sys.argv[1]]))
    turn = await chat.send(await chat.begin("ada", model="openai-chat:gpt-5"), "Fill it in")
    async for event in chat.events(turn):
        pass
    await chat.close()

asyncio.run(main())
spans = kept.get_finished_spans()
names = {span.context.span_id: span.name for span in spans}
print(json.dumps([[span.name, names.get(span.parent.span_id) if span.parent else None, span.status.status_code.name,
    {key: value for key, value in span.attributes.items() if isinstance(value, (str, int))}] for span in spans]))
"""


def _spans(skills_root: Path, how: str) -> list[Any]:
    done = preloaded.run([sys.executable, "-c", SCRIPT, str(skills_root), how], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    found: list[Any] = json.loads(done.stdout)
    return found


def test_a_turn_has_a_span_with_its_requests_and_calls_below(models: Any, pdf: Path, skills_root: Path) -> None:
    models.script(
        [Call("skill", {"skill": "pdf"}), Call("made_up", {})],
        Call("run_skill", {"skill": "pdf", "entry": "check_fillable_fields"}),
        Say("Done."),
    )
    spans = _spans(skills_root, "traced")
    names = [(name, parent, status) for name, parent, status, _ in spans]
    assert ("invoke_agent", None, "UNSET") in names
    assert names.count(("chat gpt-5", "invoke_agent", "UNSET")) == 3
    assert ("execute_tool skill", "invoke_agent", "UNSET") in names
    assert ("execute_tool other", "invoke_agent", "ERROR") in names, "a name that a model made up is no label"
    assert ("skillyard.run", "execute_tool run_skill", "ERROR") in names
    attributes = {name: values for name, _, _, values in spans}
    turn = attributes["invoke_agent"]
    assert (turn["gen_ai.request.model"], turn["gen_ai.provider.name"]) == ("gpt-5", "openai")
    assert turn["gen_ai.usage.output_tokens"] == 3 * attributes["chat gpt-5"]["gen_ai.usage.output_tokens"]
    assert attributes["invoke_agent"]["gen_ai.conversation.id"].startswith("chat_")
    assert attributes["chat gpt-5"]["gen_ai.usage.output_tokens"] == 7
    assert attributes["execute_tool skill"]["gen_ai.operation.name"] == "execute_tool"
    assert "made_up" not in str([(name, values) for name, _, _, values in spans if not name.startswith("chat")])
    assert not any(text in str(spans) for text in ("Fill it in", "Done.", "check_fillable_fields")), "what is said is in none"
    for tool in ("skill", "run_skill"):
        about = attributes[f"execute_tool {tool}"]
        assert about["gen_ai.skill.name"] == "pdf"
        assert about["skillyard.skill.digest"].startswith("sha256:")


def test_what_is_said_is_in_spans_where_that_is_switched_on(
    models: Any, pdf: Path, skills_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "SPAN_ONLY")
    models.script(Call("skill", {"skill": "pdf"}), Say("Well done."))
    attributes = {name: values for name, _, _, values in _spans(skills_root, "traced")}
    assert "Well done." in str(attributes["chat gpt-5"])
    assert json.loads(attributes["execute_tool skill"]["gen_ai.tool.call.arguments"]) == {"skill": "pdf"}
    assert "pdf" in attributes["execute_tool skill"]["gen_ai.tool.call.result"]


def test_where_nobody_collects_spans_there_are_none(models: Any, pdf: Path, skills_root: Path) -> None:
    models.script(Say("Done."))
    assert _spans(skills_root, "untraced") == []
