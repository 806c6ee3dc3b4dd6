"""Coding agents on the command line: which are here, skills put into their folders, our server in their configuration."""

from __future__ import annotations

import json
import os
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
    assert call("install", source, "--to", "clade").err.startswith("error: 'clade' is not a coding agent")
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


def test_who_will_leave_a_linked_skill_out_is_said(call: Call, agents: Path, tmp_path: Path) -> None:
    source = tmp_path / "sources/fill"
    source.mkdir(parents=True)
    text = "---\nname: fill\ndescription: Fills forms. Use it for forms.\ntriggers:\n  phrases: [fill]\n---\nFill.\n"
    (source / "SKILL.md").write_text(text)
    linked = call("install", source, "--to", "claude,codex,openhands")
    assert (linked.code, linked.err.count("does not show")) == (0, 1)
    assert "warning: openhands does not show fill: the field triggers must be a list" in linked.err
    assert "does not show" not in call("unlink", "fill").err


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
    assert "something else is there now" in call("unlink", "tidy").out
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


def _there(*folders: Path) -> list[bool]:
    return [(folder / "tidy/SKILL.md").exists() for folder in folders]


def test_what_a_set_leaves_out_is_out_of_the_projects_folders_and_comes_back(
    call: Call, agents: Path, project: Path, tmp_path: Path, make_skill: Call
) -> None:
    (project / "skillyard.toml").write_text('[sets]\nbackend = ["other"]\nall = ["tidy", "other"]\n')
    claude, codex, user = project / ".claude/skills", project / ".agents/skills", agents / ".claude/skills"
    call("install", make_skill(tmp_path / "sources", "tidy"), "--to", "claude,codex", "--in-project")
    call("link", "tidy", "--to", "claude")
    left = call("use", "backend")
    assert left.out.splitlines()[1:5:2] == [f"removed tidy for codex: {codex}/tidy", f"removed tidy for claude: {claude}/tidy"]
    assert _there(claude, codex, user) == [False, False, True], "the user's folders serve every project"
    listed = call("link")
    assert listed.code == 0 and listed.out.count("not in the set backend") == 2
    (tmp_path / "sources/tidy/more.md").write_text("new")
    assert call("update", "tidy").code == 0 and _there(claude, codex) == [False, False]
    assert call("link", "tidy", "--to", "codex", "--in-project").err.count("not in the set 'backend'") == 1
    assert call("use", "all").out.splitlines()[1:] == [
        f"copied tidy for codex: {codex}/tidy", f"copied tidy for claude: {claude}/tidy"
    ]  # fmt: skip
    assert (codex / "tidy/more.md").read_text() == "new"
    (claude / "tidy/more.md").write_text("mine")
    assert "was edited and is left as it is" in call("use", "backend").out
    assert (_there(claude, codex), (claude / "tidy/more.md").read_text()) == ([True, False], "mine")
    other = call("install", make_skill(tmp_path / "sources", "third"), "--to", "codex", "--in-project", "--json").data
    assert [link["status"] for link in other["links"]] == ["withheld"]
    assert "edited" not in call("use", "--none").out, "it stays where it belongs"
    assert _there(claude, codex, user) == [True, True, True] and (codex / "third/SKILL.md").exists()


def test_a_set_used_outside_of_projects_is_that_of_the_users_folders(
    call: Call, agents: Path, tmp_path: Path, make_skill: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    (agents / ".config/skillyard").mkdir(parents=True)
    (agents / ".config/skillyard/skillyard.toml").write_text('[sets]\nfew = ["other"]\n')
    monkeypatch.chdir(agents)
    call("install", make_skill(tmp_path / "sources", "tidy"), "--to", "claude,codex")
    claude, codex = agents / ".claude/skills", agents / ".agents/skills"
    assert _there(claude, codex) == [True, True]
    assert call("use", "few").code == 0 and _there(claude, codex) == [False, False]
    assert call("use", "--none").code == 0 and _there(claude, codex) == [True, True]


def test_a_skill_that_is_off_leaves_the_folders_and_one_that_is_installed_while_it_is_waits(
    call: Call, agents: Path, project: Path, tmp_path: Path, make_skill: Call
) -> None:
    claude, here = agents / ".claude/skills", project / ".claude/skills"
    source = make_skill(tmp_path / "sources", "tidy")
    call("install", source)
    call("state", "installed:tidy", "manual")
    held = call("install", source, "--to", "claude")
    assert f"withheld tidy for claude: {claude}/tidy" in held.out and "manual, for people only" in held.out
    assert call("link").code == 0 and _there(claude) == [False]
    call("state", "tidy", "name-only")
    assert _there(claude) == [True], "agents know no such state: it is there as any other"
    call("link", "tidy", "--to", "claude", "--in-project")
    for leave, back in (("disable", "enable"), ("disable --all", "enable --all")):
        call(*leave.split(), *([] if "--" in leave else ["tidy"]))
        assert _there(claude, here) == [False, False], leave
        call(*back.split(), *([] if "--" in back else ["tidy"]))
        assert _there(claude, here) == [True, True], back
    make_skill(agents / ".agents/skills", "own")
    call("link", "own", "--to", "claude")
    call("state", "own", "off")
    assert not os.path.lexists(claude / "own") and (agents / ".agents/skills/own").is_dir()
    call("state", "own", "automatic")
    assert (claude / "own/SKILL.md").exists()


def test_a_copy_in_a_project_is_its_installed_skill_until_it_is_edited(
    call: Call, agents: Path, project: Path, tmp_path: Path, make_skill: Call
) -> None:
    call("install", make_skill(tmp_path / "sources", "tidy"), "--to", "claude", "--in-project")
    listed = [skill for skill in call("list", "--json").data["skills"] if skill["name"] == "tidy"]
    assert [(skill["id"], skill["status"], skill["state"]) for skill in listed] == [("installed:tidy", "ok", "automatic")]
    assert call("state", "tidy", "pinned").out == "installed:tidy is now pinned\n"
    copy = project / ".claude/skills/tidy"
    (copy / "notes.md").write_text("mine")
    skills = {skill["id"]: skill for skill in call("list", "--json").data["skills"] if skill["name"] == "tidy"}
    assert {name: skill["state"] for name, skill in skills.items()} == {"project:tidy": "automatic", "installed:tidy": "pinned"}
    assert "that is an edited copy" in skills["installed:tidy"]["reason"]
    shown = call("show", "project:tidy").out
    assert "copy of" in shown and "installed:tidy" in shown and "its state is its own" in shown
    call("link", "installed:tidy", "--to", "codex", "--in-project")
    reasons = {skill["id"]: skill.get("reason") for skill in call("list", "--json").data["skills"]}
    assert reasons["installed:tidy"] is None and "this is an edited copy" in reasons["project:tidy"]
    assert call("adopt", "tidy").code == 0
    assert call("state", "tidy").out.split() == ["pinned", "installed:tidy"]


def test_connect_serves_a_named_set(call: Call, agents: Path, project: Path) -> None:
    (project / "skillyard.toml").write_text('[sets]\nbackend = ["pdf"]\n')
    assert "no set of skills 'backand'" in call("connect", "claude", "--set", "backand", "--yes").err
    refused = call("connect", "claude", "--set", "backend", "--yes")
    assert (refused.code, "is of this project alone" in refused.err) == (2, True)
    assert '"--set"' in call("connect", "claude", "--set", "backend", "--in-project", "--dry-run").out
    assert not (project / ".mcp.json").exists()
    assert call("connect", "claude", "--set", "backend", "--in-project", "--yes").code == 0
    entry = json.loads((project / ".mcp.json").read_text())["mcpServers"]["skillyard"]
    assert entry["args"][-3:] == ["mcp", "--set", "backend"]
    assert call("connect", "claude", "--url", "http://127.0.0.1:8787/mcp", "--set", "backend").code == 2
    (agents / ".config/skillyard").mkdir(parents=True)
    (agents / ".config/skillyard/skillyard.toml").write_text('[sets]\nbackend = ["docx"]\n')
    assert call("connect", "codex", "--set", "backend", "--yes").code == 0
    assert call("disconnect", "claude", "--in-project", "--yes").code == 0
    assert "skillyard" not in (project / ".mcp.json").read_text()
    assert "no set of skills 'nothing'" in call("mcp", "--set", "nothing").err
