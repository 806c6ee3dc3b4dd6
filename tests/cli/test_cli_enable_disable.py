"""`skillyard enable` and `skillyard disable`: the command that a hint prints does what it says, from anywhere."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def projects(tmp_path: Path, make_skill: Any) -> tuple[Path, Path]:
    """Two projects with a skill `deploy` each; the name of one needs quotes in a shell."""
    made = tmp_path / "it's one", tmp_path / "two"
    for folder in made:
        (folder / ".git").mkdir(parents=True)
        make_skill(folder / ".claude/skills", "deploy")
    return made


def _hint(said: str) -> list[str]:
    """The words of the command between backticks."""
    found = re.search(r"`(skillyard enable [^`]*)`", said.replace("\n", " "))
    assert found, said
    return shlex.split(found[1])[1:]


@pytest.mark.parametrize("by", ["--project", "--root"])
def test_the_printed_command_switches_it_on_again_from_another_folder(
    by: str, call: Any, projects: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = projects
    place = (by, one if by == "--project" else one / ".claude/skills")
    said = call("disable", "deploy", *place, "--json").data["skill"]
    assert said["status"] == "disabled"
    assert call("list", "--project", two, "--json").data["skills"][0]["status"] == "ok"
    monkeypatch.chdir(tmp_path)
    assert call(*_hint(said["reason"])).code == 0
    assert call("list", "--project", one, "--json").data["skills"][0]["status"] == "ok"


def test_the_printed_command_for_a_skill_of_the_user_works_where_a_project_has_a_namesake(
    call: Any, projects: tuple[Path, Path], home: Path, make_skill: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_skill(home / ".claude/skills", "deploy")
    monkeypatch.chdir(tmp_path)
    reason = call("disable", "deploy", "--json").data["skill"]["reason"]
    monkeypatch.chdir(projects[1])
    assert call(*_hint(reason)).code == 0
    monkeypatch.chdir(tmp_path)
    assert [skill["status"] for skill in call("list", "--json").data["skills"]] == ["ok"]


def test_doctor_says_what_is_switched_off_and_where(call: Any, projects: tuple[Path, Path], tmp_path: Path) -> None:
    call("disable", "deploy", "--project", projects[0])
    checks = call("doctor", "--json").data["checks"]
    found = [check for check in checks if check["name"] == "switched off"]
    assert [check["detail"] for check in found] == [f"deploy in {projects[0]}/.claude/skills"]
    assert _hint(f"`{found[0]['fix']}`")[:2] == ["enable", "deploy"]


def test_a_state_is_given_and_listed_and_taken_back(call: Any, skills_root: Path, make_skill: Any) -> None:
    make_skill(skills_root, "pdf")
    named = ("--root", str(skills_root))
    assert call("state", *named).err.startswith("every skill is automatic")
    assert call("state", "pdf", "pinned", *named).out == "config:pdf is now pinned\n"
    assert call("state", *named).out.split() == ["pinned", "config:pdf"]
    assert "pinned" in call("list", *named).out
    assert call("state", "pdf", "off", *named).out.startswith("config:pdf is now disabled")
    assert call("state", "pdf", "automatic", *named).out == "config:pdf is now ok\n"
    assert call("state", "pdf", "loud", *named).code == 2


def test_a_set_of_the_project_is_used_and_listed(call: Any, tmp_path: Path, make_skill: Any) -> None:
    (tmp_path / "p/.git").mkdir(parents=True)
    for name in ("pdf", "docx"):
        make_skill(tmp_path / "p/.claude/skills", name)
    (tmp_path / "p/skillyard.toml").write_text('[skills]\nbuilt-in = false\n[sets]\nbackend = ["pdf", "sql"]\n')
    here = ("--project", str(tmp_path / "p"))
    assert call("use", *here).out.split() == ["backend", "pdf,", "sql"]
    used = call("use", "backend", *here)
    assert used.out == "in use: the set backend, 1 skill\n"
    assert "not found here: sql" in used.err
    assert call("use", *here).out.split() == ["*", "backend", "pdf,", "sql"]
    assert "not in the set 'backend'" in call("show", "docx", *here).out
    assert call("use", "frontend", *here).code == 1
    assert call("use", "--none", *here).out == "in use: all skills, 2 skills\n"
