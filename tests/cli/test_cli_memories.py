"""`skillyard memories`: what was remembered, for people and for programs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Call = Callable[..., Any]


@pytest.fixture
def remembered(call: Call, examples: Path) -> None:
    """Two preferences, of two users."""
    for user, preference in (("ada", "I like green tea"), ("bob", "我喜欢乌龙茶")):
        given = f'{{"preference": "{preference}", "category": "drink"}}'
        done = call("run", "preference-recorder", "--root", examples, "--input", given, "--context", f'{{"userId": "{user}"}}')
        assert done.code == 0


@pytest.mark.row("000-42", "000-44")
def test_memories_are_listed_searched_and_forgotten(call: Call, remembered: None) -> None:
    listed = call("memories", "--json").data["memories"]
    assert [memory["userId"] for memory in listed] == ["bob", "ada"]
    lines = call("memories", "--user", "ada").out.splitlines()
    assert lines[0].split() == ["MEMORY", "OWNER", "TYPE", "WEIGHT", "CONTENT"]
    assert len(lines) == 2
    (found,) = call("memories", "search", "乌龙茶", "--json").data["memories"]
    assert (found["userId"], found["score"]) == ("bob", 1.0)
    assert "FIT" in call("memories", "search", "green tea").out
    assert call("memories", "search", "coffee").err == "no memories\n"
    assert call("memories", "forget", found["id"]).out == f"forgot {found['id']}\n"
    assert call("memories", "forget", found["id"]).code == 1
    assert len(call("memories", "--json").data["memories"]) == 1


@pytest.mark.parametrize("arguments", [["search"], ["list", "x"], ["forget"], ["search", "x", "--threshold", "7"]])
def test_what_cannot_be_meant_is_wrong_usage(call: Call, arguments: list[str]) -> None:
    assert call("memories", *arguments).code == 2


def test_the_record_of_a_run_says_what_was_saved(call: Call, remembered: None) -> None:
    run_id = call("runs", "--json", "--limit", "1").data["runs"][0]["run_id"]
    shown = call("runs", "show", run_id).out
    assert "Memories" in shown
    assert "saved" in shown
    assert call("runs", "show", run_id, "--json").data["memory_writes"][0]["saved"] is True


@pytest.mark.row("000-22")
def test_a_kept_result_is_shown_as_one_and_can_be_declined(call: Call, skills_root: Path, make_skill: Any) -> None:
    header = "name: dice\ndescription: Throws dice. Use for a test.\nttl: 60"
    make_skill(skills_root, "dice", front_matter=header, files={"scripts/execute.py": "import os; print(os.urandom(8).hex())"})
    first = call("run", "dice", "--root", skills_root, "--json").data["output"]
    again = call("run", "dice", "--root", skills_root)
    assert again.out.startswith("dice: ok, a cached result")
    assert first in again.out
    assert call("run", "dice", "--root", skills_root, "--no-cache-result", "--json").data["output"] != first
    assert "cached result" in call("runs").out
    hit = next(run for run in call("runs", "--json").data["runs"] if run["cache_hit"])
    assert "a cached result" in call("runs", "show", hit["run_id"]).out


@pytest.mark.row("000-42", "000-44")
def test_without_a_user_what_a_run_wants_remembered_is_the_local_user_s(call: Call, examples: Path) -> None:
    given = '{"preference": "I like green tea", "category": "drink"}'
    assert call("run", "preference-recorder", "--root", examples, "--input", given).code == 0
    (memory,) = call("memories", "--json").data["memories"]
    assert memory["userId"] == "default/local user"
    assert len(call("memories", "--owner", "user:default/local user", "--json").data["memories"]) == 1
    assert call("memories", "--owner", "household:home", "--json").data["memories"] == []
    assert call("memories", "forget", memory["id"], "--owner", "household:home").code == 1
    assert call("memories", "forget", memory["id"], "--owner", "a", "--user", "b").code == 2
    assert call("memories", "--owner", "task:").code == 1
