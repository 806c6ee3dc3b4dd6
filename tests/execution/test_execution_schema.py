"""Schemas that strangers wrote: small ones are checked at once, hostile ones are ended, and the loop goes on meanwhile."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillyard.document import UnusableSchema, schema_weight, value_weight
from skillyard.errors import WorkTimedOut
from skillyard.execution import Executor, RunRequest, skill_call
from skillyard.execution.skill_call import find_problems, schema_problems


def doubled(levels: int, end: object = None) -> dict[str, Any]:
    """A schema that is twice as large with each level, by two references to the one below."""
    parts: dict[str, Any] = {"a0": end or {"type": "string"}}
    for level in range(1, levels + 1):
        below = {"$ref": f"#/$defs/a{level - 1}"}
        parts[f"a{level}"] = {"anyOf": [below, below]}
    return {"$defs": parts, "$ref": f"#/$defs/a{levels}"}


CIRCLE = doubled(12, {"anyOf": [{"type": "string"}, {"type": "array", "items": {"$ref": "#/$defs/a12"}}]})
"""Twice as large with each level, for each level of the value: it cannot be counted beforehand."""
NESTED: Any = 1
for _ in range(6):
    NESTED = [NESTED]


@pytest.fixture
def executor() -> Executor:
    return Executor()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A check may take two seconds, which a busy machine has for the others of this file."""
    monkeypatch.setattr(skill_call, "_SECONDS", 2.0)
    monkeypatch.setattr(skill_call, "_MEMORY_MB", 2_048)  # on a quick machine it grows to the usual limit before that


@pytest.mark.abuse("G23")
@pytest.mark.parametrize("levels", [20, 26, 60])
async def test_a_schema_that_doubles_with_each_reference_is_refused_before_it_is_checked(levels: int) -> None:
    with pytest.raises(UnusableSchema, match=r"parts|nested"):
        await asyncio.wait_for(schema_problems(doubled(levels), {"x": 1}), 60)


@pytest.mark.abuse("G23")
async def test_a_check_that_does_not_end_is_ended_while_the_loop_goes_on(impatient: None) -> None:
    assert schema_weight(CIRCLE) is None
    checking = asyncio.ensure_future(schema_problems(CIRCLE, NESTED))
    beats = 0
    while not checking.done():
        await asyncio.sleep(0.01)
        beats += 1
    with pytest.raises(WorkTimedOut, match="schema"):
        await checking
    assert beats > 20


@pytest.mark.abuse("G23")
async def test_a_run_is_refused_when_its_parameters_cannot_be_checked_in_time(
    impatient: None, write_skill: Any, executor: Executor
) -> None:
    skill = write_skill(
        "raise SystemExit('it was started')", input_schema={"properties": {"x": CIRCLE["$defs"]["a12"]}} | CIRCLE
    )
    run = await executor.run(RunRequest(skill, {"x": NESTED}))
    assert run.error is not None
    assert (run.status, run.error.code, run.isolation) == ("error", "work_timeout", "none")
    assert "input_schema" in run.error.message


@pytest.mark.abuse("G23")
async def test_output_that_cannot_be_checked_in_time_is_a_warning(
    impatient: None, write_skill: Any, executor: Executor
) -> None:
    skill = write_skill("def execute(p):\n    return [[[[[[1]]]]]]", output_schema=CIRCLE)
    run = await executor.run(RunRequest(skill, {}))
    assert (run.status, run.output) == ("ok", NESTED)
    assert any("output_schema" in warning and "took longer" in warning for warning in run.warnings)


@pytest.mark.parametrize(
    "large",
    [
        {"enum": list(range(20_000))},
        {"description": "x" * 300_000},
        doubled(17),
    ],
)
def test_a_schema_beyond_all_measure_is_not_looked_at(large: dict[str, Any]) -> None:
    with pytest.raises(UnusableSchema, match="more than"):
        schema_weight(large)


def test_a_mapping_that_is_in_itself_is_counted_no_further_than_its_depth() -> None:
    inner: dict[str, Any] = {}
    inner["properties"] = inner
    with pytest.raises(UnusableSchema, match="deep"):
        schema_weight(inner)


@pytest.mark.parametrize(
    ("one", "weight"),
    [
        ({"type": "object"}, 1),
        ({"properties": {"a": {"type": "string"}, "b": {"enum": [1, 2, 3]}}}, 7),
        (doubled(1), 17),
        ({"$ref": "#"}, None),
        ({"$ref": "other.json"}, None),
        ({"$ref": "#named", "$defs": {"x": {"$anchor": "named"}}}, None),
        ({"$ref": "#/nowhere/9"}, None),
        ({"a/b": [True, {"type": "null"}], "$ref": "#/a~1b/1"}, 5),
        ({"unevaluatedProperties": False}, None),
        ({"pattern": "^[a-z]+$"}, 6),
        ({"pattern": "(a{1,1000}){1,1000}"}, None),
        ({"patternProperties": {"x{500}": True}}, None),
        ({"patternProperties": {"^x-": True}}, 7),
    ],
)
def test_what_a_schema_weighs(one: dict[str, Any], weight: int | None) -> None:
    assert schema_weight(one) == weight


def test_a_value_is_counted_no_further_than_asked() -> None:
    assert value_weight({"a": [1, 2], "b": "x"}, 100) == 5
    assert value_weight("x" * 10_240, 100) == 11
    assert value_weight(list(range(1_000_000)), 10) > 10


@given(
    value=st.recursive(st.integers() | st.text(max_size=3), lambda below: st.lists(below, max_size=4), max_leaves=30),
    declared=st.sampled_from([{"type": "array"}, {"items": {"type": "integer"}}, doubled(3), doubled(9), {"maxItems": 1}]),
)
def test_here_and_in_a_helper_a_check_says_the_same(value: object, declared: dict[str, Any]) -> None:
    assert asyncio.run(schema_problems(declared, value)) == find_problems(declared, value)


async def test_a_large_value_is_checked_in_a_helper_and_well() -> None:
    declared = {"items": {"type": "integer"}}
    assert await schema_problems(declared, list(range(50_000))) == ()
    (problem,) = await schema_problems(declared, [*range(50_000), "x" * 5_000])
    assert problem.startswith("50000: ")
    assert len(problem) <= 1_000
