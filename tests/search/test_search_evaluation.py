"""Prompts with the skill expected: the shapes they come in, and what is measured."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillyard import Catalog
from skillyard.errors import InvalidInput
from skillyard.search import TriggerCase, evaluate_triggers, read_trigger_cases

RIGHT = TriggerCase("merge files", ("pdf",))


@pytest.mark.parametrize(
    "value",
    [
        [{"query": "merge files", "expected_skill": "pdf"}],
        {"evals": [{"query": "merge files", "expected_skill": "skills/pdf/SKILL.md"}]},
        [{"prompt": "merge files", "expected_skills": "pdf"}],
        {"skill_name": "pdf", "evals": [{"prompt": "merge files"}]},
        {"trigger": [{"query": "merge files", "should_trigger": True}], "skill": "pdf"},
        {"skill": "pdf", "queries": ["merge files"]},
        [{"trigger": [{"input": "merge files", "expected_skill": ["pdf"]}]}],
    ],
)
def test_the_shapes_of_public_skills_are_read(value: object) -> None:
    assert read_trigger_cases(json.dumps(value)) == [RIGHT]


def test_json_lines_and_yaml_are_read() -> None:
    line = '{"input": "merge files", "expected_skill": "pdf"}'
    assert read_trigger_cases(f"{line}\n{line}\n") == [RIGHT, RIGHT]
    assert read_trigger_cases("- query: merge files\n  expected_skill: pdf\n- query: bake\n  expected_skill: null\n") == [
        RIGHT,
        TriggerCase("bake"),
    ]


def test_should_trigger_speaks_of_the_skill_that_is_named() -> None:
    text = json.dumps([{"query": "merge files", "should_trigger": True}, {"query": "bake", "should_trigger": False}])
    assert read_trigger_cases(text, skill="pdf") == [RIGHT, TriggerCase("bake", (), ("pdf",))]


@pytest.mark.parametrize("text", ["", "[]", "{", "a: [", "just words", '[{"query": ""}]', "1", "[" * 100_000])
def test_a_file_without_prompts_is_refused_with_a_hint(text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        read_trigger_cases(text)
    assert caught.value.hint


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        assert read_trigger_cases(text, skill="pdf")
    except InvalidInput as error:
        assert error.hint


@pytest.fixture
def catalog(skills_root: Path, make_skill: Any) -> Catalog:
    make_skill(skills_root, "pdf", description="Merge PDF files and fill in forms.")
    make_skill(skills_root, "bread", description="Bake sourdough bread.")
    return Catalog.discover(roots=[skills_root])


def test_hits_misses_and_false_alarms_are_counted(catalog: Catalog) -> None:
    cases = [
        TriggerCase("merge these PDF files", ("pdf",)),
        TriggerCase("sail a boat", ("bread",)),
        TriggerCase("bake bread"),
        TriggerCase("fix my car"),
        TriggerCase("bake some bread", (), ("pdf",)),
    ]
    done = evaluate_triggers(cases, lambda prompt, limit: catalog.search(prompt, limit, min_confidence=0))
    assert done.to_dict() == {
        "prompts": 5,
        "hits": {"1": 0.5, "5": 0.5, "10": 0.5},
        "false_alarms": 0.3333,
        "misses": ["sail a boat"],
        "alarms": ["bake bread"],
    }


def test_without_prompts_of_a_kind_there_is_no_share_of_it(catalog: Catalog) -> None:
    done = evaluate_triggers([TriggerCase("fix my car")], lambda prompt, limit: catalog.search(prompt, limit))
    assert done.to_dict()["hits"] == {"1": None, "5": None, "10": None}
