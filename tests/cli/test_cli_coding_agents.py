"""Coding agents on the command line: which are here, skills put into their folders, our server in their configuration."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Call = Callable[..., Any]


@pytest.fixture
def agents(home: Path) -> Path:
    """A home with two coding agents."""
    (home / ".claude").mkdir()
    (home / ".codex").mkdir()
    return home


def test_skills_are_installed_into_agents_followed_and_taken_out(
    call: Call, agents: Path, project: Path, tmp_path: Path, make_skill: Call
) -> None:
    source = make_skill(tmp_path / "sources", "tidy")
    assert call("install", source, "--copy").code == 2
    assert call("install", source, "--to", "clade").err.startswith("error: 'clade' is no coding agent")
    answer = call("install", source, "--to", "claude,codex", "--json").data
    assert [(link["status"], link["agents"]) for link in answer["links"]] == [("linked", ["claude"]), ("linked", ["codex"])]
    assert call("link", "tidy", "--to", "claude", "--in-project").code == 0
    copy = project / ".claude/skills/tidy"
    assert copy.is_dir() and not copy.is_symlink()
    assert call("link", "tidy", "--to", "codex", "--in-project").out.startswith("copied tidy for codex")
    (copy / "notes.md").write_text("mine\n")
    listed = call("link")
    assert listed.code == 1 and "edited" in listed.out
    assert "+ notes.md" in call("diff", "tidy", "--in", "claude").out or call("diff", "tidy", "--in", "claude").code == 0
    assert call("adopt", "tidy").out.startswith("updated tidy")
    assert (project / ".agents/skills/tidy/notes.md").read_text() == "mine\n"
    detected = {agent["name"]: agent for agent in call("agents", "detected", "--json").data["agents"]}
    assert (detected["claude"]["detected"], detected["claude"]["skills"], detected["claude"]["connected"]) == (True, 2, [])
    assert call("unlink", "tidy", "--from", "claude", "--in-project").out.startswith("removed tidy for claude")
    assert call("unlink", "tidy").code == 0
    assert call("link", "--json").data == {"links": []}


def test_a_skill_of_a_project_is_not_taken_for_a_namesake_of_the_users(
    call: Call, agents: Path, project: Path, make_skill: Call
) -> None:
    make_skill(project / ".agents/skills", "tidy")
    assert "tidy is the skill of this project" in call("link", "tidy", "--to", "claude").err


def test_a_copy_in_one_agent_is_compared_with_what_is_current(
    call: Call, agents: Path, tmp_path: Path, make_skill: Call
) -> None:
    call("install", make_skill(tmp_path / "sources", "tidy"), "--to", "claude", "--copy")
    assert "no file differs" in call("diff", "tidy", "--in", "claude").err
    (agents / ".claude/skills/tidy/notes.md").write_text("mine\n")
    assert "+ notes.md" in call("diff", "tidy", "--in", "claude").out
    assert call("diff", "tidy", "--in", "codex").err.startswith("error: codex has no copy of 'tidy'")


def test_the_edited_copy_of_the_project_is_meant_before_that_of_the_user(
    call: Call, agents: Path, project: Path, tmp_path: Path, make_skill: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    call("install", make_skill(tmp_path / "sources", "tidy"), "--to", "claude")
    assert call("link", "tidy", "--to", "claude", "--in-project").code == 0
    assert "no file differs" in call("diff", "tidy", "--in", "claude").err
    (project / ".claude/skills/tidy/notes.md").write_text("mine\n")
    assert "+ notes.md" in call("diff", "tidy", "--in", "claude").out
    monkeypatch.chdir(tmp_path)
    assert "+ notes.md" in call("diff", "tidy", "--in", "claude", "--project", "project").out
    assert "+ notes.md" in call("diff", "tidy", "--in", "claude").out, "the only one that was edited, from anywhere"
    other = tmp_path / "other"
    (other / ".git").mkdir(parents=True)
    assert call("link", "tidy", "--to", "claude", "--in-project", "--project", "other").code == 0
    (other / ".claude/skills/tidy/more.md").write_text("mine too\n")
    for command in (("diff", "tidy", "--in", "claude"), ("adopt", "tidy", "--from", "claude")):
        refused = call(*command)
        assert refused.code == 1 and f"{other}/.claude/skills/tidy" in refused.err, command
        assert f"{project}/.claude/skills/tidy" in refused.err and "--project" in refused.err, command
    assert "+ more.md" in call("diff", "tidy", "--in", "claude", "--project", "other").out
    assert call("adopt", "tidy", "--from", "claude", "--project", "other").code == 0
    monkeypatch.chdir(project)
    shown = call("diff", "tidy", "--in", "claude").out
    assert "+ notes.md" in shown and "- more.md" in shown


def test_connect_shows_of_one_long_line_only_what_is_new(call: Call, agents: Path) -> None:
    (agents / ".claude.json").write_text('{"mcpServers": {"other": {"env": {"TOKEN": "secret-1"}}}, "theme": "secret-2"}')
    shown = call("connect", "claude", "--dry-run").out
    assert '"skillyard"' in shown and "secret" not in shown


def test_what_took_the_place_of_a_link_is_said_and_stays(call: Call, agents: Path, tmp_path: Path, make_skill: Call) -> None:
    call("install", make_skill(tmp_path / "sources", "tidy"), "--to", "claude")
    (agents / ".claude/skills/tidy").unlink()
    (agents / ".claude/skills/tidy").mkdir()
    assert "something else stands there now" in call("unlink", "tidy").out
    assert (agents / ".claude/skills/tidy").is_dir()


def test_connect_shows_the_change_and_asks_before_it_writes(call: Call, agents: Path) -> None:
    shown = call("connect", "auto", "--dry-run")
    assert shown.code == 0 and shown.out.count("add to ") == 2 and '+     "skillyard": {' in shown.out
    assert not (agents / ".claude.json").exists()
    assert "nobody can be asked" in call("connect", "claude").err
    assert call("connect", "claude", "codex", "--yes").code == 0
    assert json.loads((agents / ".claude.json").read_text())["mcpServers"]["skillyard"]["args"][-1] == "mcp"
    assert call("connect", "claude", "--yes", "--json").data["changes"][0]["status"] == "unchanged"
    assert call("connect", "claude", "--url", "127.0.0.1:8787").code == 2
    assert call("connect", "claude", "--tool-prefix", "yard_", "--yes").code == 0
    written = json.loads((agents / ".claude.json").read_text())["mcpServers"]["skillyard"]
    assert written["args"][-2:] == ["--tool-prefix", "yard_"]
    assert "cannot be before" in call("connect", "claude", "--tool-prefix", "a b").err
    refused = call("connect", "claude", "--url", "http://127.0.0.1:8787/mcp", "--tool-prefix", "yard_")
    assert refused.code == 2 and "[server] mcp" in refused.err
    assert call("disconnect", "auto", "--yes").code == 0
    assert "skillyard" not in (agents / ".claude.json").read_text() + (agents / ".codex/config.toml").read_text()
