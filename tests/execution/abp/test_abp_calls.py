"""Calls in a model's text: what is one, what is none, what is repaired, and what hostile text costs."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillyard.execution import parse_abp_calls
from skillyard.execution.abp_calls import extract_json_object

MEBIBYTE = 1 << 20


def block(body: str, tool: str = "getWeather") -> str:
    return f"[[ABP_TOOL:{tool}]]\n{body}\n[[END_ABP_TOOL]]"


def call(**fields: Any) -> str:
    return json.dumps({"action": "query", "parameters": {"location": "上海"}} | fields, ensure_ascii=False)


@pytest.mark.row("000-33")
def test_calls_are_found_in_order_and_the_text_around_them_is_kept() -> None:
    found = parse_abp_calls(f"Let me look.\n{block(call())}\nAnd\n{block(call(parameters={}), '天气 查询')}\nDone.")
    assert [(item.tool, item.action, dict(item.parameters)) for item in found.calls] == [
        ("getWeather", "query", {"location": "上海"}),
        ("天气 查询", "query", {}),
    ]
    assert found.text.split() == ["Let", "me", "look.", "And", "Done."]
    assert (found.success, found.fallback, found.problems) == (True, None, ())
    assert found.to_dict()["success"] is True


@pytest.mark.row("000-33")
def test_ids_tell_the_time_and_never_repeat() -> None:
    ids = [item.id for _ in range(5) for item in parse_abp_calls(block(call()) * 3).calls]
    assert all(re.fullmatch(r"abp_call_\d{13}_\d+", name) for name in ids)
    assert len(set(ids)) == 15


@pytest.mark.row("000-33")
@pytest.mark.parametrize(
    "text", ["", "It is sunny.", 'Use [[brackets]] and {"action": 1}', "[[ABP_TOOL:]]", "[[ABP_TOOL:a\nb]]"]
)
def test_text_without_a_block_is_an_ordinary_answer(text: str) -> None:
    found = parse_abp_calls(text)
    assert found.to_dict() == {"success": False, "calls": [], "problems": [], "text": text.strip(), "fallback": "plain-text"}


@pytest.mark.row("000-33")
@pytest.mark.parametrize(
    ("body", "parameters"),
    [
        ('```json\n{"action": "q", "parameters": {}}\n```', {}),
        ('{"action": "draft", "parameters": {}} no: {"action": "q", "parameters": {"a": 2}}', {"a": 2}),
        ('{curly} prose and {"action": "q", "parameters": {"a": "}"}}', {"a": "}"}),
        ('{oh {"action": "q", "parameters": {"a": "{"}}', {"a": "{"}),
        ('He said "so {"action": "q", "parameters": {"a": 3}}', {"a": 3}),
        ('{"action": "q", "parameters": {"a": "two\nlines"}}', {"a": "two\nlines"}),
        ('{"action": "q", "parameters": {"a": 1}}}}}', {"a": 1}),
    ],
)  # fmt: skip
def test_the_last_object_counts_whatever_stands_around_it(body: str, parameters: dict[str, Any]) -> None:
    found = parse_abp_calls(block(body))
    assert [(item.action, item.parameters) for item in found.calls] == [("q", parameters)], found.problems
    assert not found.calls[0].repaired


@pytest.mark.row("000-33")
@pytest.mark.parametrize(
    ("body", "parameters"),
    [
        ('{"action": "q", "parameters": {"a": 1}', {"a": 1}),
        ('{"action": "q", "parameters": {"a": [1, {"b": 2', {"a": [1, {"b": 2}]}),
        ('{"action": "q", "parameters": {"a": "text', {"a": "text"}),
        ('{"action": "q", "parameters": {"a": "text}}', {"a": "text"}),
        ('{"action": "q", "parameters": {"a": "text\\', {"a": "text"}),
        ('{"action": "q"\n "parameters": {"a": 1\n "b": [1 2] "c": true}}', {"a": 1, "b": [1, 2], "c": True}),
        ('{"action": "q" "parameters": {"a": "unclosed', {"a": "unclosed"}),
    ],
)  # fmt: skip
def test_a_missing_end_and_missing_commas_are_mended_and_said(body: str, parameters: dict[str, Any]) -> None:
    found = parse_abp_calls(block(body))
    assert [(item.action, item.parameters, item.repaired) for item in found.calls] == [("q", parameters, True)]


@pytest.mark.row("000-33")
def test_an_inner_object_never_passes_for_the_call_it_belongs_to() -> None:
    found = parse_abp_calls(block('{"action": "outer", "parameters": {"then": {"action": "inner", "parameters": {"x": 1}}'))
    assert [item.action for item in found.calls] == ["outer"]


@pytest.mark.row("000-33")
@pytest.mark.parametrize(
    ("text", "code", "tool"),
    [
        ("[[ABP_TOOL:a]]\n" + call(), "missing_end", "a"),
        ("[[ABP_TOOL:a]]\n" + block(call(), "b"), "nested", "a"),
        ("[[ABP_TOOL:a]] " + block(call(), "b") + " [[END_ABP_TOOL]]", "nested", "a"),
        (call() + "\n[[END_ABP_TOOL]]", "missing_start", ""),
        (block("no object"), "no_json", "getWeather"),
        (block('{"action": ]'), "no_json", "getWeather"),
        (block("[1, 2]"), "no_json", "getWeather"),
        (block('{"action": NaN, "parameters": {}}'), "no_json", "getWeather"),
        (block(call(action="")), "incomplete", "getWeather"),
        (block(call(action=1)), "incomplete", "getWeather"),
        (block(call(parameters=None)), "incomplete", "getWeather"),
        (block(call(parameters=[1])), "incomplete", "getWeather"),
        (block("{}"), "incomplete", "getWeather"),
    ],
)  # fmt: skip
def test_what_is_not_certain_is_a_problem_and_not_a_call(text: str, code: str, tool: str) -> None:
    found = parse_abp_calls(text)
    assert found.calls == ()
    assert (found.success, found.fallback) == (False, None)
    assert [(problem.code, problem.tool) for problem in found.problems] == [(code, tool)]
    assert found.problems[0].message


@pytest.mark.row("000-33")
def test_an_end_marker_inside_a_text_does_not_cut_a_call_short() -> None:
    found = parse_abp_calls(block('{"action": "delete", "parameters": {"path": "/tmp/a [[END_ABP_TOOL]] b"}}'))
    assert found.calls == ()
    assert {problem.code for problem in found.problems} == {"ambiguous_end", "missing_start"}


@pytest.mark.row("000-33")
def test_a_flood_of_calls_is_cut_and_said() -> None:
    found = parse_abp_calls(block(call()) * 100)
    assert len(found.calls) == 32
    assert {problem.code for problem in found.problems} == {"too_many"}


HOSTILE = ["{", '{"', '{"a":', '"\\', '{"\\"', "[", '{"k":[', "{}", "{x}", "1 ", "\\", "} ", "}x", '""', "[[ABP_TOOL:x]]",
           "[[END_ABP_TOOL]]", "[[ABP_TOOL:", "[[ABP_TOOL:x]]{[[END_ABP_TOOL]]"]  # fmt: skip


@pytest.mark.row("000-33")
@pytest.mark.parametrize("size", [MEBIBYTE // 4, pytest.param(MEBIBYTE, marks=pytest.mark.long)])
@pytest.mark.parametrize("piece", HOSTILE)
def test_much_hostile_text_is_read_to_its_end(piece: str, size: int) -> None:
    # Anything quadratic takes a quarter of an hour here, and the run of the tests would say so.
    found = parse_abp_calls(block(piece * (size // len(piece))))
    assert len(found.calls) == 0
    assert found.problems


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**12), 10**12) | st.text(max_size=20) | st.sampled_from(["{", "}", '"', "[["]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.row("000-33")
@given(parameters=st.dictionaries(st.text(max_size=8), json_values, max_size=4), around=st.sampled_from(["", "so:\n", "```\n"]))
def test_every_call_that_is_written_well_is_read_as_it_was_meant(parameters: dict[str, Any], around: str) -> None:
    found = parse_abp_calls(around + block(json.dumps({"action": "go", "parameters": parameters})) + around)
    assert [item.parameters for item in found.calls] == [parameters]
    assert not found.calls[0].repaired


@pytest.mark.row("000-33")
@given(parameters=st.dictionaries(st.text(max_size=8), json_values, max_size=4), cut=st.integers(0, 60))
def test_a_call_that_was_cut_off_gives_nothing_that_was_not_written(parameters: dict[str, Any], cut: int) -> None:
    whole = json.dumps({"action": "go", "parameters": parameters})
    found = extract_json_object(whole[: len(whole) - cut])
    if found is not None and "parameters" in found.value:
        assert _is_part(found.value["parameters"], parameters)


def _is_part(value: Any, whole: Any) -> bool:
    if isinstance(value, dict):
        return isinstance(whole, dict) and all(any(k.startswith(key) for k in whole) for key in value)
    return True


@pytest.mark.row("000-33")
@given(st.text(alphabet=st.sampled_from('{}[]",:\\ \n1a') | st.characters(), max_size=200))
def test_no_text_ever_raises(text: str) -> None:
    parse_abp_calls(text)
    found = parse_abp_calls(block(text))
    for item in found.calls:
        assert item.action
        assert json.dumps(item.to_dict())
