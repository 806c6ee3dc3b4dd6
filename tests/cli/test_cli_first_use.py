"""What somebody writes who has not read the manual: paths, usual verbs, slips of the pen, nothing at all."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Call = Callable[..., Any]


@pytest.fixture
def skills(project: Path, examples: Path) -> Path:
    """A project with a folder `skills`, which is no root of its own."""
    for name in ("text-statistics", "pdf-miner"):
        shutil.copytree(examples / name, project / "skills" / name)
    return project / "skills"


def test_a_folder_of_skills_is_listed_by_its_path(call: Call, skills: Path) -> None:
    answer = call("list", "./skills", "--json")
    assert answer.code == 0
    assert [skill["id"] for skill in answer.data["skills"]] == ["config:pdf-miner", "config:text-statistics"]
    assert call("list", "./nothing").code == 2


def test_a_folder_of_skills_that_is_no_root_is_named(call: Call, skills: Path) -> None:
    assert "`skillyard list ./skills`" in call("list").err
    assert "for the folder here write its path: ./skills/pdf-miner" in call("show", "pdf-miner").err


@pytest.mark.parametrize("path", ["./skills/text-statistics", "skills/text-statistics", "skills/text-statistics/SKILL.md"])
def test_a_skill_is_named_by_its_path(call: Call, skills: Path, path: str) -> None:
    assert call("show", path, "--json").data["id"] == "config:text-statistics"
    assert call("read", path).out == (skills / "text-statistics" / "SKILL.md").read_text()


def test_a_skill_of_a_root_that_is_named_by_its_path_is_the_one_in_the_root(
    call: Call, project: Path, make_skill: Call
) -> None:
    make_skill(project / ".claude" / "skills", "mine")
    assert call("disable", "./.claude/skills/mine").code == 0
    assert call("show", "mine", "--json").data["status"] == "disabled"


def test_a_skill_runs_by_its_path_and_says_limits_only_when_asked(call: Call, skills: Path) -> None:
    answer = call("run", "./skills/text-statistics", "--input", '{"text": "one two"}')
    assert answer.code == 0
    assert "Output" in answer.out
    assert "Limits" not in answer.out


def test_a_path_without_a_skill_says_what_is_there(call: Call, skills: Path) -> None:
    answer = call("show", "./skills")
    assert answer.code == 1
    assert "name one of those in it: ./skills/pdf-miner, ./skills/text-statistics" in answer.err
    assert call("show", "./skills/nope").code == 2
    assert "--root" in call("disable", "./skills/pdf-miner").err


@pytest.mark.parametrize("command", ["check", "scan"])
def test_nothing_to_look_at_is_wrong_usage_and_says_what_to_give(call: Call, project: Path, command: str) -> None:
    answer = call(command)
    assert answer.code == 2
    assert answer.out == ""
    assert f"`skillyard {command} PATH`" in answer.err


@pytest.mark.parametrize(
    ("verb", "command"),
    [
        ("remove", "uninstall"),
        ("add", "install"),
        ("validate", "check"),
        ("lint", "check"),
        ("init", "new"),
        ("unpublish", "yank"),
    ],
)
def test_usual_verbs_lead_to_the_command(call: Call, verb: str, command: str) -> None:
    answer = call(verb, "x")
    assert answer.code == 2
    assert f"`skillyard {command}`" in answer.err


def test_a_slip_in_an_option_gets_the_nearest_one(call: Call) -> None:
    assert "did you mean --with?" in call("run", "x", "--wiht", "pypdf").err


def test_workspaces_say_what_was_done_or_that_there_is_none(call: Call) -> None:
    assert "there is no workspace" in call("workspace", "list").err
    assert "`skillyard workspace list`" in call("workspace", "remove", "nothing").err
    assert call("workspace", "exec", "--id", "mine", "--", "true").code == 0
    assert call("workspace", "remove", "mine").out == "removed mine\n"


def test_a_workspace_says_what_is_missing_and_what_was_held_back(call: Call, project: Path) -> None:
    for words, said in (
        (("exec",), "name the command to run"),
        (("exec", "--dir", project, "--id", "a", "--", "ls"), "give --dir or --id, not both"),
        (("exec", "--id", "trial", "ls", "-la"), "after `--`: -- ls -la"),
        (("exec", "--dir", "/", "--", "ls"), "cannot be a workspace"),
        (("remove",), "name the workspace to remove"),
    ):
        assert said in call("workspace", *words).err, words
    held = call("workspace", "exec", "--dir", project, "--", "mkdir .idea && echo x > .idea/a.xml")
    assert held.code == 1
    assert "error: held back: .idea: programs outside" in held.err
    assert "--writable .idea" in held.err
    assert call("workspace", "exec", "--dir", project, "--writable", ".idea/", "--", "mkdir .idea").code == 0


def test_words_of_the_command_line_that_cannot_be_end_with_2(call: Call, project: Path) -> None:
    for words, said in (
        (("list", "--root", project / "absent"), "check the path of --root"),
        (("prompt", "--root", project / "absent"), "there is no such folder"),
        (("install", project / "absent"), f"there is nothing at {project / 'absent'}"),
        (("workspace", "exec", "--writable", "/etc", "--", "ls"), "'/etc' is a path"),
        (("serve", "--port", "99999"), "a port is a number from 1 to 65535"),
        (("pin", "pdf", "9"), "`skillyard rollback NAME VERSION`"),
        (("event", "order.created", '{"a": 1}'), "comes after --data"),
        (("approvals", "approve"), "say which skill to approve"),
        (("migrate", project), "name the format of SOURCE"),
    ):
        answer = call(*words)
        assert (answer.code, said in answer.err) == (2, True), (words, answer.err)


def test_a_skill_file_that_is_too_long_is_listed_as_broken_and_shown(call: Call, skills_root: Path, make_skill: Call) -> None:
    folder = make_skill(skills_root, "big", body="x" * 3_000_000)
    assert "broken  the file is over 1 MiB: 3,0" in call("list", "--root", skills_root).out
    shown = call("show", "big", "--root", skills_root)
    assert (shown.code, str(folder) in shown.out, "over 1 MiB" in shown.out) == (0, True, True)
    make_skill(skills_root, "small")
    assert "- big" not in call("prompt", "--root", skills_root).out
    assert call("prompt", "--root", skills_root, "--budget", "5").code == 1


def test_what_an_install_brings_is_counted_and_listed_without_empty_columns(
    call: Call, tmp_path: Path, make_skill: Call
) -> None:
    scripts = {f"scripts/a{number}.py": "import pypdf\n" for number in range(9)}
    make_skill(tmp_path / "source", "many", files={**scripts, "scripts/run.sh": "qpdf a"})
    previewed = call("install", tmp_path / "source", "--dry-run").out
    assert "  has 10 scripts; --json names them\n  asks for program:qpdf\n  asks for pypdf\n" in previewed
    assert call("install", tmp_path / "source", "--list").out.splitlines()[0].split() == ["SKILL", "HERE", "DESCRIPTION"]


def test_a_workspace_of_a_server_must_be_there(call: Call, project: Path) -> None:
    answer = call("mcp", "--workspace", project / "missing")
    assert answer.code == 2
    assert not (project / "missing").exists()


@pytest.mark.parametrize(
    ("line", "cure"),
    [
        ("import urllib.request; urllib.request.urlopen('http://api.example.com')", "network-allowlist"),
        ("open('/elsewhere/x', 'w')", "--work DIR"),
        ("open(__file__, 'w')", "--work DIR"),
        ("import requests", "--with requests"),
    ],
)
def test_what_the_sandbox_kept_from_a_script_names_the_cure(
    call: Call, project: Path, make_skill: Call, line: str, cure: str
) -> None:
    folder = make_skill(project / "skills", "eager")
    (folder / "scripts").mkdir()
    (folder / "scripts" / "execute.py").write_text(f"{line}\n")
    answer = call("run", "./skills/eager")
    assert answer.code == 1
    assert cure in answer.out + answer.err
