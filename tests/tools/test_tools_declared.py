"""Tools that skills declare, as functions of their own."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from skillyard.mcp.mcp_server import create_server
from skillyard.permissions import ApprovalAnswer
from skillyard.tools import SkillTools

Tools = Callable[..., SkillTools]
ECHO = "def execute(p, context):\n    return {'got': p, 'call': context['abp'], 'id': context.get('callId')}\n"
WEATHER = """\
protocol: abp
abp:
  kind: query
  tools:
    - name: getWeather
      description: Tells the weather.
      parameters:
        location: {type: string, validation: {max: 20}}
        unit: {type: string, required: false, default: celsius, validation: {enum: [celsius, fahrenheit]}}
        lang: {type: string, required: false}"""


@pytest.fixture
def skill(skills_root: Path, make_skill: Any) -> Any:
    def make(name: str, fields: str = WEATHER, script: str = ECHO) -> None:
        header = f"name: {name}\ndescription: The skill {name}.\n{fields}"
        make_skill(skills_root, name, front_matter=header, files={"scripts/execute.py": script})

    return make


def functions(tools: SkillTools) -> dict[str, Any]:
    found: list[Any] = tools.definitions("anthropic", abp_tools=True)
    return {tool["name"]: tool for tool in found}


def test_a_skill_that_got_its_script_only_now_can_be_run(skills_root: Path, make_skill: Any, tools: Tools) -> None:
    folder = make_skill(skills_root, "weather", front_matter=f"name: weather\ndescription: Weather.\n{WEATHER}")
    here = tools()
    assert "getWeather" not in functions(here)
    (folder / "scripts").mkdir()
    (folder / "scripts/execute.py").write_text(ECHO)
    assert not here.access.catalog.refresh().any  # nothing in its SKILL.md
    assert "getWeather" in functions(here)


@pytest.mark.row("000-29", "000-30")
async def test_declared_tools_are_tools_of_mcp(skill: Any, tools: Tools) -> None:
    skill("weather")
    async with Client(create_server(tools())) as client:
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert listed["getWeather"].description == "Tells the weather."
        answer = await client.call_tool("getWeather", {"location": "Berlin"})
        assert not answer.is_error
        assert answer.structured_content is not None
        assert answer.structured_content["output"]["got"] == {"location": "Berlin", "unit": "celsius"}
        assert (await client.call_tool("getWeather", {})).is_error


@pytest.mark.row("000-29", "000-30")
def test_declared_tools_are_offered_when_the_host_asks(skill: Any, tools: Tools) -> None:
    skill("weather")
    skill("plain", "type: direct")
    assert "getWeather" not in str(tools().definitions("openai"))
    shown = functions(tools())
    assert list(shown) == ["skill", "skills_list", "skills_load", "read_skill_file", "run_skill", "getWeather"]
    assert shown["getWeather"] == {
        "name": "getWeather",
        "description": "Tells the weather.",
        "input_schema": {
            "type": "object",
            "properties": {
                "location": {"type": "string", "maxLength": 20},
                "unit": {"type": "string", "default": "celsius", "enum": ["celsius", "fahrenheit"]},
                "lang": {"type": "string"},
            },
            "required": ["location"],
            "additionalProperties": False,
        },
    }
    mcp: list[Any] = tools().definitions("mcp", abp_tools=True)
    assert mcp[-1]["annotations"]["readOnlyHint"] is False
    assert functions(tools(run_skills=False)).keys() == {"skill", "skills_list", "skills_load", "read_skill_file"}


@pytest.mark.row("000-29", "000-36")
async def test_a_declared_tool_runs_its_skill_with_the_parameters_filled_in(skill: Any, tools: Tools) -> None:
    skill("weather")
    calls = tools(preferences={"unit": "fahrenheit", "lang": "zh", "other": 1})
    result = await calls.call("getWeather", '{"location": "Oslo"}', call_id="c1")
    assert result.ok, result.text
    assert result.data["output"] == {
        "got": {"location": "Oslo", "unit": "celsius", "lang": "zh"},
        "call": {"tool": "getWeather", "action": "query"},
        "id": "c1",
    }
    assert "<run_result" in result.text


@pytest.mark.row("000-29")
@pytest.mark.parametrize(
    "given", [{}, {"location": 1}, {"location": "x" * 30}, {"location": "x", "unit": "k"}, {"location": "x", "y": 1}]
)
async def test_what_does_not_fit_the_declaration_is_refused_before_anything_runs(
    skill: Any, tools: Tools, given: dict[str, Any]
) -> None:
    skill("weather")
    result = await tools().call("getWeather", given)
    assert (result.ok, result.code) == (False, "invalid_input")
    assert "getWeather takes: lang, location, unit" in result.text


@pytest.mark.row("001-18", "001-19")
async def test_a_declared_tool_passes_the_gate_of_its_skill(skill: Any, tools: Tools) -> None:
    skill("weather")
    assert "getWeather" not in functions(tools(permissions={"weather": "deny"}))
    assert (await tools(permissions={"weather": "deny"}).call("getWeather", {"location": "x"})).code == "unknown_tool"
    assert (await tools(permissions={"weather": "ask"}).call("getWeather", {"location": "x"})).code == "approval_rejected"

    class Yes:
        async def ask(self, request: Any) -> ApprovalAnswer:
            return ApprovalAnswer("session")

    assert (await tools(permissions={"weather": "ask"}, approver=Yes()).call("getWeather", {"location": "x"})).ok


def test_functions_have_names_every_api_takes_and_no_name_twice(skill: Any, tools: Tools) -> None:
    names = ["getWeather", "查询天气", "get weather", "skill", "run_skill", "x" * 80, "<b>"]
    for number in (1, 2):
        skill(f"s{number}", "abp:\n  tools:\n" + "".join(f'    - name: "{name}"\n' for name in names))
    found = functions(tools())
    assert len(found) == 5 + 2 * len(names)
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name) for name in found)
    assert functions(tools()).keys() == found.keys()  # the same each time


async def test_the_tools_of_hidden_and_broken_skills_do_not_exist(skill: Any, tools: Tools, skills_root: Path) -> None:
    skill("weather")
    skill("hidden", WEATHER.replace("getWeather", "hiddenTool") + "\ndisable-model-invocation: true")
    calls = tools()
    assert "hiddenTool" not in functions(calls)
    assert (await calls.call("hiddenTool", {"location": "x"})).code == "unknown_tool"
    (skills_root / "weather/scripts/execute.py").unlink()
    calls.access.catalog.refresh()
    assert (await calls.call("getWeather", {"location": "x"})).ok is False


def test_what_a_skill_wrote_is_cleaned_before_a_model_reads_it(skill: Any, tools: Tools) -> None:
    skill(
        "weather",
        'abp:\n  tools:\n    - name: t\n      description: "a\\u202Eb\\nc"\n      parameters: {p: {description: "x\\u200By"}}',
    )
    shown = json.dumps(functions(tools())["t"])
    assert not re.search(r"\\u20(2e|0b)|\\n", shown)


def test_with_enforcement_declared_tools_stay_like_every_skill_tool(skill: Any, tools: Tools) -> None:
    skill("weather")
    calls = tools(allowed_tools="enforce")
    calls.definitions(abp_tools=True)
    assert calls.filter(["getWeather", "skill"]) == ["getWeather", "skill"]
    assert calls.permits("getWeather")
