"""The tools a skill declares: defaults, kinds, schemas, validation, and how parameters are filled in."""

from __future__ import annotations

from typing import Any

import pytest

from skillyard.document import Metadata, parse_document
from skillyard.execution import (
    AbpTool,
    abp_tool_definitions,
    fill_parameters,
    infer_abp_kind,
    validate_abp_format,
)
from skillyard.execution.skill_call import find_problems


def metadata(front_matter: str) -> Metadata:
    return parse_document(f"---\n{front_matter}\n---\n".encode(), directory_name="weather-query").metadata


# The example of the document, to the letter.
WEATHER = """\
name: weather-query
displayName: 天气查询
description: 查询指定城市的天气信息
version: 1.0.0
type: service
protocol: abp
abp:
  kind: query
  tools:
    - name: getWeather
      description: 获取指定城市的天气信息
      parameters:
        location:
          type: string
          description: 城市名称
          required: true
        unit:
          type: string
          description: 温度单位（celsius/fahrenheit）
          required: false
          default: celsius
      returns:
        type: object
        description: 天气信息"""


@pytest.mark.row("000-18", "000-19", "000-29")
def test_the_documents_weather_tool_is_read_whole() -> None:
    (tool,) = abp_tool_definitions(metadata(WEATHER))
    assert tool.to_dict() == {
        "name": "getWeather",
        "description": "获取指定城市的天气信息",
        "kind": "query",
        "parameters": {
            "location": {"type": "string", "description": "城市名称", "required": True},
            "unit": {
                "type": "string",
                "description": "温度单位（celsius/fahrenheit）",
                "required": False,
                "default": "celsius",
            },
        },
        "returns": {"type": "object", "description": "天气信息"},
        "version": "1.0.0",
        "author": "天气查询",
    }
    assert tool.schema() == {
        "type": "object",
        "properties": {
            "location": {"type": "string", "description": "城市名称"},
            "unit": {"type": "string", "description": "温度单位（celsius/fahrenheit）", "default": "celsius"},
        },
        "required": ["location"],
        "additionalProperties": False,
    }


@pytest.mark.row("000-30")
def test_what_a_tool_leaves_out_has_the_originals_defaults() -> None:
    fields = "name: x\ndescription: Does x.\nabp:\n  tools:\n    - name: t\n      parameters:\n"
    found = abp_tool_definitions(metadata(fields + '        a: {}\n        b: {required: "false"}\n        c: string\n'))[0]
    assert (found.description, found.kind, found.version, found.author) == ("Does x.", "action", "1.0.0", "x")
    assert found.returns == {"type": "any", "description": ""}
    assert [(item.type, item.required, item.has_default) for item in found.parameters] == [
        ("any", True, False),
        ("any", True, False),  # only `false` itself says no
        ("string", True, False),
    ]
    assert found.schema()["properties"] == {"a": {}, "b": {}, "c": {"type": "string"}}


@pytest.mark.row("000-30")
def test_a_skill_without_tools_is_one_tool_of_its_own_name() -> None:
    fields = "name: x\ndescription: Converts x.\ninput_schema:\n  properties:\n    n: {type: integer}\n  required: [n]\n"
    (tool,) = abp_tool_definitions(metadata(fields))
    assert (tool.name, tool.kind, tool.synthetic) == ("x", "transform", True)
    assert tool.schema() == {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    assert [(item.name, item.type, item.required) for item in tool.parameters] == [("n", "integer", True)]
    (declared,) = abp_tool_definitions(metadata(fields + "abp:\n  kind: validate"))
    assert (declared.kind, declared.synthetic) == ("validate", True)


@pytest.mark.row("000-29")
@pytest.mark.parametrize(
    ("parameter", "good", "bad"),
    [
        ("{type: number, validation: {min: 1, max: 2.5}}", [1, 2.5], [0.9, 3]),
        ("{type: string, validation: {min: 2, max: 3}}", ["ab"], ["a", "abcd"]),
        ("{type: array, validation: {max: 1}}", [[1]], [[1, 2]]),
        ('{type: string, validation: {pattern: "^a+$"}}', ["aa"], ["b"]),
        ("{validation: {enum: [1, two]}}", [1, "two"], ["one"]),
        ("{type: boolean}", [True], ["true"]),
        ("{type: object}", [{}], [[]]),
        ("{type: nonsense, validation: {min: x}}", ["anything", 1], []),
        ('{type: string, validation: {pattern: "(unclosed"}}', ["a"], [1]),
    ],
)
def test_validation_becomes_json_schema(parameter: str, good: list[Any], bad: list[Any]) -> None:
    (tool,) = abp_tool_definitions(
        metadata(f"name: x\ndescription: d\nabp:\n  tools:\n    - name: t\n      parameters:\n        p: {parameter}")
    )
    assert [value for value in good if find_problems(tool.schema(), {"p": value})] == []
    assert [value for value in bad if not find_problems(tool.schema(), {"p": value})] == []
    assert find_problems(tool.schema(), {})


@pytest.mark.row("000-31")
@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ("type: static", "query"),
        ("type: preprocessor", "transform"),
        ("type: internal\nkeywords: [查询]", "action"),
        ("keywords: [获取]", "query"),
        ("keywords: [格式化]", "transform"),
        ("keywords: [验证]", "validate"),
        ("keywords: [实时]", "stream"),
        ("keywords: [定时]", "schedule"),
        ("type: service\nkeywords: [query]", "query"),
        ("keywords: [converts]", "transform"),
        ("keywords: [checkout, information, upstream]", "action"),
        ("", "action"),
    ],
)
def test_a_kind_is_inferred_from_the_type_or_the_words(fields: str, kind: str) -> None:
    assert infer_abp_kind(metadata(f"name: thing\ndescription: Does a thing.\n{fields}")) == kind


@pytest.mark.row("000-32")
@pytest.mark.parametrize(
    ("front_matter", "errors"),
    [
        ({"description": "d"}, ["the abp block is missing"]),
        ({"description": "d", "abp": {}}, ["the abp block is missing"]),
        ({"description": "d", "abp": {"kind": "query"}}, []),
        ({"description": "d", "abp": {"kind": "ask"}}, ["abp.kind 'ask' is not one of"]),
        (
            {"description": "d", "abp": {"tools": [{"name": "a"}, {"description": "x"}, "b"]}},
            ["[1] has no name", "[2] has no name"],
        ),
        ({"abp": {"tools": [{"name": "a"}]}}, ["'a' has no description"]),
        ({"abp": {"tools": [{"name": "a", "description": "x"}]}}, []),
        ({"abp": {"kind": "query"}}, ["neither the skill nor a tool"]),
        ({"description": "d", "abp": {"tools": "a"}}, ["not a list"]),
    ],
)
def test_an_abp_block_is_validated_with_every_reason(front_matter: dict[str, Any], errors: list[str]) -> None:
    found = validate_abp_format(front_matter)
    assert found.valid is not bool(errors)
    assert len(found.errors) == len(errors)
    assert all(part in message for part, message in zip(errors, found.errors, strict=True))
    assert found.to_dict() == {"valid": found.valid, "errors": list(found.errors)}


@pytest.mark.row("000-32", "D-20")
def test_the_documents_own_example_passes_its_validator() -> None:
    assert validate_abp_format(metadata(WEATHER)).valid
    assert not validate_abp_format(metadata("name: x\ndescription: d")).valid


@pytest.mark.row("000-29")
def test_parameters_come_from_the_call_then_the_defaults_then_the_preferences() -> None:
    (tool,) = abp_tool_definitions(metadata(WEATHER))
    schema = {"properties": {"days": {"default": 1}, "unit": {"default": "kelvin"}, "lang": {}}}
    preferences = {"unit": "fahrenheit", "days": 7, "lang": "zh", "location": "上海", "password": "hunter2"}

    def filled(**given: Any) -> dict[str, object]:
        return fill_parameters(tool, given, input_schema=schema, preferences=preferences)

    assert filled() == {"location": "上海", "unit": "celsius", "days": 1, "lang": "zh"}
    assert filled(location="Oslo", unit="kelvin", days=0) == {"location": "Oslo", "unit": "kelvin", "days": 0, "lang": "zh"}
    assert fill_parameters(tool, {"unit": None}) == {"unit": None}


def test_a_tool_is_given_for_a_skill_as_for_its_metadata() -> None:
    class Skill:
        def document(self) -> Any:
            return parse_document(f"---\n{WEATHER}\n---\n".encode())

    found: tuple[AbpTool, ...] = abp_tool_definitions(Skill())
    assert found == abp_tool_definitions(metadata(WEATHER))
