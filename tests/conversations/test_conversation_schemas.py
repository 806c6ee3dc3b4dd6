"""Every object that a skill leaves open is open in the request that reaches a model's service; what a model passes arrives."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from pydantic_ai import Agent
from scripted_models import Call, Say

from skillyard import Catalog, SkillTools
from skillyard.conversations import SkillToolset

MODELS = [
    "openai-chat:gpt-5",
    "openai:gpt-5",
    "openai-chat:gpt-4o",
    "anthropic:claude-sonnet-4-6",
    "anthropic:claude-opus-4-8",
    "google:gemini-2.5-flash",
    "google:gemini-3-pro-preview",
]
ECHO = "import json, sys\nprint(json.dumps(json.load(sys.stdin), sort_keys=True))\n"
RUN = {"skill": "echo", "input": {"text": "hi", "nested": {"deep": [1, {"er": None}]}}}
DECLARED = """\
name: declared
description: Declares tools of its own. Use when one is wanted.
protocol: abp
abp:
  kind: action
  tools:
    - name: store
      description: Stores anything.
      parameters:
        record: {type: object, description: What to store, required: true}
        marks: {type: array, required: false}
        extra: {type: any, required: false}
resources: {entry: ./scripts/main.py}
"""
SCHEMA = """\
name: typed
description: Takes a typed input. Use when one is wanted.
protocol: abp
abp: {kind: action}
input_schema:
  type: object
  properties:
    settings: {type: object}
    fixed: {type: object, properties: {a: {type: integer}}, additionalProperties: false}
    rows: {type: array, items: {type: object, properties: {id: {type: string}}}}
    either: {anyOf: [{type: object}, {type: string}]}
    named: {$ref: '#/$defs/named'}
  $defs:
    named: {type: object, properties: {label: {type: string}}}
resources: {entry: ./scripts/main.py}
"""
STORE = {"record": {"any": {"thing": [1, 2]}}}
TYPED = {
    "settings": {"depth": {"x": 1}},
    "rows": [{"id": "a", "more": 2}],
    "either": {"k": "v"},
    "named": {"label": "b", "own": 3},
}


@pytest.fixture
def catalog(skills_root: Path, make_skill: Callable[..., Path]) -> Catalog:
    files = {"scripts/main.py": ECHO}
    make_skill(skills_root, "echo", description="Gives back what it gets. Use when an echo is wanted.", files=files)
    make_skill(skills_root, "declared", front_matter=DECLARED, files=files)
    make_skill(skills_root, "typed", front_matter=SCHEMA, files=files)
    return Catalog.discover(roots=[skills_root], cache=False)


@pytest.mark.parametrize("model", MODELS)
async def test_an_open_object_stays_open_in_the_toolset(model: str, models: Any, catalog: Catalog) -> None:
    models.script(Call("run_skill", RUN), Say("Done."))
    async with Agent(model, toolsets=[SkillToolset(catalog)]) as agent:
        assert (await agent.run("Echo this")).output == "Done."
    models.seen[0].check_open("run_skill", RUN)
    assert '"nested": {"deep": [1, {"er": null}]}' in models.seen[1].last.replace('\\"', '"')
    assert models.faults == []


@pytest.mark.parametrize("model", MODELS)
async def test_an_open_object_stays_open_in_a_conversation(model: str, open_chat: Any, catalog: Catalog) -> None:
    harness = await open_chat(model=model, catalog=catalog)
    harness.models.script(Call("run_skill", RUN), Call("store", STORE), Call("typed", TYPED), Say("Done."))
    turn, events = await harness.say("Do all three")
    assert turn.answer == "Done."
    first = harness.models.seen[0]
    for tool, arguments in (("run_skill", RUN), ("store", STORE), ("typed", TYPED)):
        first.check_open(tool, arguments)
    assert not jsonschema_rs.is_valid(first.schemas["typed"], {"fixed": {"b": 1}})  # what is closed stays closed
    assert not jsonschema_rs.is_valid(first.schemas["run_skill"], {"skill": "echo", "else": 1})
    assert [result["ok"] for result in harness.results(events)] == [True, True, True]
    given = [text.replace('\\"', '"') for _, text in harness.models.seen[-1].results]
    for text, wanted in zip(given, (RUN["input"], STORE, TYPED), strict=True):
        assert json.dumps(wanted, sort_keys=True) in text
    assert harness.models.faults == []


@pytest.mark.parametrize(
    "model",
    [
        "openai:gpt-5",
        pytest.param("anthropic:claude-sonnet-4-6", marks=pytest.mark.long),  # each imports another part of langchain
        pytest.param("google_genai:gemini-2.5-flash", marks=pytest.mark.long),
    ],
)
async def test_an_open_object_stays_open_through_langchain(model: str, models: Any, catalog: Catalog) -> None:
    from langchain.agents import create_agent
    from langchain.chat_models import init_chat_model
    from langchain_core.tools import StructuredTool

    tools = SkillTools(catalog)

    def as_tool(name: str) -> StructuredTool:
        async def call(**arguments: object) -> str:
            return (await tools.call(name, arguments)).text

        shape = tools.define(name)
        return StructuredTool(name=name, description=shape.description, args_schema=shape.schema(), coroutine=call)

    models.script(Call("run_skill", RUN), Say("Done."))
    options: dict[str, Any] = {"use_responses_api": False} if model.startswith("openai") else {}
    if model.startswith("google"):
        options = {"base_url": models.address}
    agent: Any = create_agent(init_chat_model(model, **options), tools=[as_tool(name) for name in tools.names()])
    await agent.ainvoke({"messages": [{"role": "user", "content": "Echo this"}]})
    models.seen[0].check_open("run_skill", RUN)
    assert '"nested": {"deep": [1, {"er": null}]}' in models.seen[1].last.replace('\\"', '"')
    assert models.faults == []
