"""`check --collisions` and `eval triggers`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Call = Callable[..., Any]


def test_collisions_are_shown_and_end_with_one(call: Call, skills_root: Path, make_skill: Any) -> None:
    for name in ("red-paint", "paint-red"):
        make_skill(skills_root, name, description="Paints fences in bright red colour.")
    answer = call("check", "--collisions", "--root", skills_root)
    assert answer.code == 1
    assert "config:paint-red" in answer.out
    assert "fix: " in answer.out
    (collision,) = call("check", "--collisions", "--root", skills_root, "--json").data["collisions"]
    assert set(collision) == {"skills", "alike", "shared", "apart", "advice"}


def test_without_collisions_all_is_well(call: Call, examples: Path) -> None:
    assert call("check", "--collisions", "--root", examples).code == 0
    assert call("check", "--collisions", examples).code == 2


def test_prompts_are_evaluated_and_compared_with_an_earlier_answer(call: Call, examples: Path, tmp_path: Path) -> None:
    prompts = examples.parent / "trigger-prompts.json"
    now = call("eval", "triggers", prompts, "--root", examples, "--json")
    assert now.code == 0
    assert set(now.data) == {"prompts", "hits", "false_alarms", "misses", "alarms", "worse"}
    before = tmp_path / "before.json"
    before.write_text(json.dumps(now.data))
    assert call("eval", "triggers", prompts, "--root", examples, "--against", before, "--at-least", "0.9").code == 0
    prompts = tmp_path / "prompts.json"
    prompts.write_text(json.dumps([{"query": "sail a boat", "expected_skill": "text-statistics"}]))
    worse = call("eval", "triggers", prompts, "--root", examples, "--against", before)
    assert worse.code == 1
    assert "hit@1 went from 100% to 0%" in worse.out
    assert "not among the first ten: sail a boat" in worse.out
    assert call("eval", "triggers", prompts, "--root", examples, "--at-least", "0.5").code == 1


def test_the_skill_that_should_trigger_is_reported_by_its_folder(call: Call, skills_root: Path, make_skill: Any) -> None:
    case = json.dumps([{"query": "paint my fence", "should_trigger": True}])
    folder = make_skill(skills_root, "painter", description="Paints fences.", files={"evals/trigger_eval.json": case})
    assert call("eval", "triggers", folder / "evals/trigger_eval.json", "--root", skills_root, "--json").data["hits"]["1"] == 1


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"[]", b"{"])
def test_rubbish_is_refused_in_two_lines(call: Call, examples: Path, tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "rubbish.json"
    file.write_bytes(content)
    answer = call("eval", "triggers", file, "--root", examples)
    assert answer.code == 1
    assert answer.err.startswith("error: ")
    assert "\nhint: " in answer.err


def test_what_is_not_there_or_no_earlier_answer_is_said(call: Call, examples: Path, tmp_path: Path) -> None:
    prompts = examples.parent / "trigger-prompts.json"
    assert call("eval", "triggers", tmp_path / "gone.json", "--root", examples).code == 1
    assert call("eval", "triggers", prompts, "--root", examples, "--against", prompts).code == 2
    assert call("eval", "nothing", prompts).code == 2
    assert call("eval", "triggers", prompts, "--at-least", "7").code == 2
