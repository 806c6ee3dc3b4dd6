"""`skillyard agents`: agents from the command line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]


@pytest.fixture
def root(skills_root: Path, make_skill: Any) -> str:
    """A folder with two skills."""
    for name in ("pdf", "docx"):
        make_skill(skills_root, name, front_matter=f"name: {name}\ndescription: Works with {name} files.\n")
    return str(skills_root)


def test_an_agent_is_made_changed_shown_reported_and_deleted(call: Run, root: str, tmp_path: Path) -> None:
    words = tmp_path / "prompt.txt"
    words.write_text("Be exact.\n", "utf-8")
    made = call("agents", "create", "clerk", "--system-prompt-file", str(words), "--skill", "pdf@^1", "--root", root, "--json")
    assert made.code == 0, made.err
    assert made.data["skills"][0] == {
        "skill_id": "config:pdf", "version_lock": "^1", "auto_update": True, "position": 0,
    }  # fmt: skip
    assert call("agents", "update", "clerk", "--model", "openai:gpt-5", "--rename", "Clerk", "--root", root).code == 0
    shown = call("agents", "show", "Clerk").out
    assert "openai:gpt-5" in shown
    assert "Be exact." in shown
    assert "config:pdf@^1" in call("agents").out
    reported = call("agents", "prompt", "Clerk", "--style", "xml-index", "--root", root)
    assert reported.out.startswith("Be exact.\n\n---\n\n<available_skills>")
    assert "docx" not in reported.out
    assert "pdf: whole" in reported.err
    assert call("agents", "delete", "Clerk").out == "deleted Clerk\n"
    assert call("agents", "show", "Clerk").code == 1
    assert call("agents", "--json").data == {"agents": []}


def test_what_is_missing_says_what_to_do(call: Run, root: str) -> None:
    assert call("agents", "show").code == 2
    unknown = call("agents", "create", "a", "--skill", "pfd", "--root", root)
    assert unknown.code == 1
    assert "hint: " in unknown.err
    assert call("agents", "create", "a", "--system-prompt-file", "/nowhere", "--root", root).code == 2


def test_rules_about_skills_are_given_by_pattern(call: Any, examples: Path) -> None:
    made = call("agents", "create", "strict", "--permission", "weather-*=deny", "--root", examples, "--json")
    assert made.code == 0, made.err
    changed = call("agents", "update", "strict", "--permission", "pdf*=ask", "--root", examples, "--json")
    assert changed.code == 0, changed.err
    settings = call("agents", "show", "strict", "--json").data["settings"]
    assert list(settings["permissions"].items()) == [("pdf*", "ask"), ("weather-*", "deny")]
    assert "permissions: pdf*=ask, weather-*=deny" in call("agents", "show", "strict").out
    assert call("agents", "create", "wrong", "--permission", "pdf=maybe").code == 2
