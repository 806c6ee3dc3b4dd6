"""The list of tools a skill brings along: a hint by default, a limit when asked for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skillyard.tools import SkillTools

Tools = Callable[..., SkillTools]
HOST = ["Read", "Bash", "Write", "skill", "read_skill_file"]


@pytest.fixture
def two(skills_root: Path, make_skill: Any) -> None:
    make_skill(skills_root, "reader", front_matter="name: reader\ndescription: d\nallowed-tools: Read, Bash(git:*)")
    make_skill(skills_root, "writer", front_matter="name: writer\ndescription: d\nallowed-tools: [Write]")
    make_skill(skills_root, "plain")


@pytest.mark.usefixtures("two")
@pytest.mark.row("004-5", "C-12")
async def test_by_default_the_model_is_told_and_nothing_is_blocked(tools: Tools) -> None:
    calls = tools()
    text = (await calls.call("skill", {"skill": "reader"})).text
    inside, _, frame = text.partition("</skill_text nonce=")
    assert "Allowed tools: Read, Bash(git:*)" in inside
    assert "Follow its list of allowed tools when possible." in frame
    assert "Read" not in frame
    assert calls.permits("Write")
    assert calls.filter(HOST) == HOST


@pytest.mark.usefixtures("two")
@pytest.mark.row("C-12")
async def test_when_it_is_off_nobody_is_told(tools: Tools) -> None:
    calls = tools(allowed_tools="off")
    assert "llowed tools" not in (await calls.call("skill", {"skill": "reader"})).text
    assert calls.permits("Write")


@pytest.mark.usefixtures("two")
@pytest.mark.row("C-12")
async def test_when_it_is_enforced_the_loaded_skills_limit_the_session(tools: Tools) -> None:
    calls = tools(allowed_tools="enforce")
    assert calls.filter(HOST) == HOST
    assert "Other tools are refused." in (await calls.call("skill", {"skill": "reader"})).text
    assert calls.filter(HOST) == ["Read", "Bash", "skill", "read_skill_file"]
    assert calls.permits("Bash", "git status")
    assert not calls.permits("Bash", "rm -rf /")
    assert not calls.permits("Write")
    assert calls.permits("read_skill_file")
    assert calls.permits("Write", session="another")


@pytest.mark.usefixtures("two")
@pytest.mark.row("C-12")
async def test_several_loaded_skills_add_up_and_a_session_can_end(tools: Tools) -> None:
    calls = tools(allowed_tools="enforce")
    await calls.call("read_skill_file", {"skill": "reader", "file_path": "SKILL.md"})
    await calls.call("skills_load", {"skill": "writer"})
    await calls.call("skill", {"skill": "plain"})
    assert calls.filter(HOST) == HOST
    assert not calls.permits("WebFetch")
    calls.end_session("default")
    assert calls.permits("WebFetch")
