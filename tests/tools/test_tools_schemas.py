"""A schema that a skill declares is sent in a form that every service takes, and never costs more than its size."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillyard.tools import SkillTools
from skillyard.tools.tool_arguments import SKILL_ARGUMENTS
from skillyard.tools.tool_definitions import EXPANDED_LIMIT, service_schema
from skillyard.workspace import Workspace

ANYTHING = {"type": "object", "properties": {}, "additionalProperties": True}


def doubled(levels: int) -> dict[str, Any]:
    """A schema of which each level refers to the next one twice."""
    definitions: dict[str, Any] = {"d0": {"type": "string"}}
    for level in range(1, levels):
        twice = {"$ref": f"#/$defs/d{level - 1}"}
        definitions[f"d{level}"] = {"type": "object", "properties": {"a": twice, "b": twice}}
    return {"type": "object", "properties": {"x": {"$ref": f"#/$defs/d{levels - 1}"}}, "$defs": definitions}


@pytest.mark.parametrize(
    "declared",
    [
        doubled(30),
        {"properties": {"x": {"$ref": "https://example.com/schema.json"}}},
        {"properties": {"x": {"$ref": "#/$defs/nowhere"}}},
        {"properties": {"x": {"$ref": 7}}},
        {"properties": ["a"]},
        {"properties": {"x": {"type": "no such type"}}},
        {"properties": {"x": {"enum": ["y" * 40_000]}}},
        {"$defs": {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(300)}, "properties": {"x": {"$ref": "#/$defs/d0"}}},
        "no mapping",
        None,
    ],
)
@pytest.mark.abuse("G20")
def test_a_schema_that_a_service_would_refuse_or_choke_on_becomes_an_object_that_takes_anything(declared: Any) -> None:
    assert service_schema(declared) == ANYTHING


@pytest.mark.parametrize("key", ["anyOf", "oneOf", "allOf", "not", "enum", "const", "$ref", "$schema"])
@pytest.mark.abuse("G20")
def test_nothing_stands_at_the_root_that_services_refuse_there(key: str) -> None:
    value = {"not": {"type": "array"}, "const": 1, "$ref": "#/$defs/a", "$schema": "https://example.com/"}.get(key, [{}])
    sent = service_schema({"type": "array", key: value, "properties": {"a": {"type": "string"}}})
    assert sent == {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": True}


def test_a_schema_that_holds_itself_and_one_that_is_used_twice_stay_as_they_are() -> None:
    tree = {"type": "object", "properties": {"kids": {"type": "array", "items": {"$ref": "#/$defs/tree"}}}}
    declared = {"type": "object", "properties": {"a": {"$ref": "#/$defs/tree"}, "b": {"$ref": "#/$defs/tree"}}}
    sent = service_schema(declared | {"$defs": {"tree": tree}})
    assert sent["properties"] == declared["properties"]
    assert sent["$defs"] == {"tree": tree | {"additionalProperties": True}}
    assert service_schema(doubled(8)) != ANYTHING
    assert EXPANDED_LIMIT > 2**8


SCHEMAS = st.recursive(
    st.sampled_from([{"type": "string"}, {"type": "object"}, {"type": ["object", "null"]}, {}, True]),
    lambda inner: st.one_of(
        st.builds(lambda a, b: {"type": "object", "properties": {"a": a, "b": b}}, inner, inner),
        st.builds(lambda a: {"type": "object", "properties": {"a": a}, "additionalProperties": False}, inner),
        st.builds(lambda a: {"type": "object", "additionalProperties": a}, inner),
        st.builds(lambda a: {"type": "array", "items": a}, inner),
        st.builds(lambda a, b: {"anyOf": [a, b]}, inner, inner),
        st.builds(lambda a, b: {"oneOf": [a, b]}, inner, inner),
    ),
    max_leaves=8,
)
VALUES = st.recursive(
    st.sampled_from(["x", None, 1]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["a", "b", "c"]), inner, max_size=3),
    max_leaves=8,
)


@given(SCHEMAS, VALUES)
def test_what_is_sent_takes_exactly_what_the_skill_takes(declared: Any, value: Any) -> None:
    whole = {"type": "object", "properties": {"x": declared}}
    assert jsonschema_rs.is_valid(service_schema(whole), {"x": value}) == jsonschema_rs.is_valid(whole, {"x": value})


@pytest.mark.abuse("G20")
def test_one_bad_skill_does_not_take_the_tools_of_the_others_away(
    skills_root: Path, make_skill: Callable[..., Path], tools: Callable[..., SkillTools]
) -> None:
    schema = json.dumps({"type": "array", "properties": {"x": {"$ref": "https://example.com/"}}})
    header = "name: {0}\ndescription: The skill {0}.\nprotocol: abp\ninput_schema: {1}"
    for name, written in (("bad", schema), ("good", '{"type": "object", "properties": {"free": {"type": "object"}}}')):
        make_skill(skills_root, name, front_matter=header.format(name, written), files={"scripts/execute.py": "print(1)\n"})
    found: list[Any] = tools().definitions("anthropic", abp_tools=True)
    shown = {tool["name"]: tool["input_schema"] for tool in found}
    assert shown["bad"] == ANYTHING
    assert shown["good"]["properties"]["free"] == {"type": "object", "additionalProperties": True}
    assert shown["run_skill"]["properties"]["input"]["additionalProperties"] is True


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_tool_takes_a_skill_under_one_name_and_knows_the_older_ones(
    language: Any, skills_root: Path, make_skill: Callable[..., Path], tools: Callable[..., SkillTools], tmp_path: Path
) -> None:
    for number in range(11):  # so that all tools are offered
        make_skill(skills_root, f"runs-{number}", files={"scripts/execute.py": "print(1)\n"})
    made = tools(language=language, workspace=Workspace(tmp_path))
    sent: dict[tuple[str, str], set[str]] = {}
    for definition in made.definitions("openai"):
        function: Any = definition["function"]
        sent["openai", function["name"]] = set(function["parameters"]["properties"])
    for dialect, key in (("anthropic", "input_schema"), ("mcp", "inputSchema")):
        for shown in made.definitions(dialect):  # type: ignore[arg-type]
            sent[dialect, shown["name"]] = set(shown[key]["properties"])  # type: ignore[index,call-overload]
    named = {tool: names & {*SKILL_ARGUMENTS, "skillName", "skill_id", "skillId"} for tool, names in sent.items()}
    if language == "zh":
        assert named.pop(("openai", "read_skill_file")) == {"skill_name"}, "the row 003-9 fixes this one definition"
    over_skills = [tool for tool, names in named.items() if names]
    assert all(named[tool] == {"skill"} for tool in over_skills)
    assert len(over_skills) == (12 if language == "en" else 11)
    assert len(sent) == 3 * (6 + 7)
    own = [made.define(name) for name in ("skill", "skills_load", "read_skill_file", "run_skill")]
    for definition in own:
        (parameter,) = [one for one in definition.parameters if one.name == "skill"]
        assert {parameter.name, *parameter.aliases} == {"skill", "name", "skill_name", "id"}
