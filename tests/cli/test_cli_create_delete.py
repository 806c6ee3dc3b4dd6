"""`new`, `enable`, `disable`, `delete`, `show`: from nothing to a skill and back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Call = Callable[..., Any]
_ABOUT = "Writes reports: short ones. Use when someone asks for a report."


@pytest.mark.row("001-25", "D-23")
def test_a_new_skill_passes_every_check(call: Call, home: Path) -> None:
    answer = call("new", "report-writer", "--description", _ABOUT, "--json")
    assert answer.code == 0
    folder = Path(answer.data["skill"]["directory"])
    assert folder.is_relative_to(home)
    assert answer.data["skill"]["description"] == _ABOUT
    assert call("check", folder, "--profile", "spec").code == 0
    assert "TODO" not in (folder / "SKILL.md").read_text()


def test_a_new_skill_with_a_script_runs_at_once(call: Call, home: Path) -> None:
    answer = call("new", "word-counter", "--description", _ABOUT, "--with-script", "--json")
    assert answer.data["files"] == ["SKILL.md", "scripts/execute.py"]
    assert call("check", answer.data["skill"]["directory"]).code == 0
    ran = call("run", "word-counter", "--input", '{"text": "hello world"}', "--json")
    assert ran.data["output"] == {"words": 2}


@pytest.mark.parametrize("language", ["python", "javascript", "typescript", "shell"])
def test_a_new_script_runs_in_each_language(call: Call, home: Path, language: str) -> None:
    made = call("new", "counter", "--description", _ABOUT, "--with-script", language, "--json")
    assert made.code == 0
    assert call("check", made.data["skill"]["directory"]).code == 0
    ran = call("run", "counter", "--input", '{"text": "hello wide world"}', "--json")
    if language == "typescript" and ran.code:
        assert ran.data["error"]["code"] == "runtime_unavailable"  # a node that reads types is not everywhere
        pytest.skip(ran.data["error"]["message"])
    assert ran.data["output"] == {"words": 3}


def test_all_skills_are_switched_at_once(call: Call, home: Path) -> None:
    call("new", "one", "--description", _ABOUT)
    assert call("disable", "--all").code == 0
    assert call("show", "one", "--json").data["status"] == "disabled"
    assert "`skillyard enable --all`" in call("list").err
    assert call("enable", "--all").code == 0
    assert call("show", "one", "--json").data["status"] == "ok"
    assert call("enable").code == 2
    assert call("enable", "one", "--all").code == 2


def test_it_goes_where_one_says(call: Call, project: Path, tmp_path: Path) -> None:
    inside = call("new", "one", "--description", _ABOUT, "--in-project", "--json").data["skill"]
    assert Path(inside["directory"]).is_relative_to(project)
    elsewhere = call("new", "two", "--description", _ABOUT, "--in", tmp_path / "made", "--json").data["skill"]
    assert elsewhere["directory"] == str(tmp_path / "made" / "two")
    rooted = call("new", "three", "--description", _ABOUT, "--root", tmp_path / "made", "--json").data["skill"]
    assert rooted["directory"] == str(tmp_path / "made" / "three")
    assert call("new", "four", "--description", _ABOUT, "--in-project", "--user").code == 2


def test_it_tells_the_next_step(call: Call, tmp_path: Path) -> None:
    answer = call("new", "one", "--description", _ABOUT, "--in", tmp_path / "made", "--with-script")
    assert answer.out == f"created {tmp_path}/made/one/SKILL.md\n"
    assert f"skillyard check {tmp_path}/made/one" in answer.err
    assert "skillyard run one" in answer.err


@pytest.mark.row("001-25")
def test_nothing_is_overwritten(call: Call, home: Path) -> None:
    call("new", "report-writer", "--description", _ABOUT)
    answer = call("new", "report-writer", "--description", "Another one.", "--json")
    assert answer.code == 1
    assert answer.data["error"]["code"] == "skill_exists"


@pytest.mark.parametrize("name", ["Report Writer", "../up", "-x", "a--b", "x" * 65, "报告"])
def test_a_name_that_breaks_the_rule_is_refused_with_the_rule(call: Call, home: Path, name: str) -> None:
    answer = call("new", "--description", _ABOUT, "--json", "--", name)
    assert answer.code == 2
    assert answer.data["error"]["code"] == "usage"
    assert "lower-case" in answer.data["error"]["hint"]


@pytest.mark.row("001-21", "001-24")
def test_a_disabled_skill_stays_listed_and_can_come_back(call: Call, project: Path, make_skill: Call) -> None:
    make_skill(project / ".agents/skills", "mine")
    assert call("disable", "mine").out == f"project:mine is now {call('list', '--json').data['skills'][0]['reason']}\n"
    listed = call("list")
    described = call("show", "mine", "--json").data["description"]
    assert described[:40] in listed.out
    assert "enables it" in listed.err
    assert call("list", "--json").data["skills"][0]["status"] == "disabled"
    assert call("disable", "mine").code == 0
    assert call("enable", "mine", "--json").data["skill"]["status"] == "ok"
    assert call("list", "--json").data["skills"][0]["status"] == "ok"


@pytest.mark.row("001-26", "C-22")
def test_only_user_skills_are_deleted_and_only_after_a_yes(call: Call, project: Path, make_skill: Call) -> None:
    folder = Path(call("new", "old-one", "--description", _ABOUT, "--json").data["skill"]["directory"])
    asked = call("delete", "old-one")
    assert asked.code == 2
    assert "--yes" in asked.err
    assert folder.exists()
    assert call("delete", "old-one", "--yes").out == f"deleted {folder}\n"
    assert not folder.exists()
    make_skill(project / ".agents/skills", "shared")
    refused = call("delete", "shared", "--yes", "--json")
    assert refused.code == 1
    assert refused.data["error"]["code"] == "delete_refused"
    assert call("delete", "shared").err.startswith("error: Can only delete user skills")  # before it asks anybody


def test_a_person_is_asked_before_anything_is_deleted(call: Call, on_terminal: Call) -> None:
    folder = Path(call("new", "old-one", "--description", _ABOUT, "--json").data["skill"]["directory"])
    code, shown = on_terminal("delete", "old-one", answer="n\n")
    assert (code, folder.exists()) == (1, True)
    assert str(folder) in shown.replace("\r\n", "")
    assert on_terminal("delete", "old-one", answer="y\n")[0] == 0
    assert not folder.exists()


@pytest.mark.row("001-9", "001-10")
def test_show_tells_everything_about_one_skill(call: Call, home: Path, project: Path, make_skill: Call) -> None:
    (project / "skillyard.toml").write_text('[permissions.skills]\n"mi*" = "ask"\n')
    files = {"scripts/execute.py": "print()", "notes.md": "notes", "templates/a.txt": "a"}
    front_matter = "name: mine\ndescription: Is mine.\nversion: 2.0.0\nallowed-tools: Bash(git:*) Read"
    make_skill(project / ".agents/skills", "mine", front_matter=front_matter, files=files)
    make_skill(home / ".agents/skills", "mine")
    data = call("show", "mine", "--json").data
    assert data["id"] == "project:mine"
    assert data["version"] == "2.0.0"
    assert data["allowed_tools"] == ["Bash(git:*)", "Read"]
    assert {file["name"]: file["type"] for file in data["files"]} == {
        "notes.md": "markdown",
        "scripts/execute.py": "script",
        "templates/a.txt": "template",
    }
    assert data["inventory"]["totalFiles"] == 4
    assert data["root"]["path"] == str(project / ".agents/skills")
    assert data["namesakes"] == [{"id": "user:mine", "status": "shadowed", "directory": str(home / ".agents/skills/mine")}]
    assert data["permission"] == {"decision": "ask", "pattern": "mi*"}
    assert data["run"]["possible"] is True
    assert data["front_matter"]["version"] == "2.0.0"
    assert data["digest"].startswith("sha256:")
    shown = call("show", "mine").out
    for words in (
        "project:mine",
        "Is mine.",
        "2.0.0",
        "Bash(git:*)",
        "notes.md",
        "user:mine (shadowed)",
        "ask, by the rule mi*",
    ):
        assert words in shown


def test_show_explains_a_broken_skill(call: Call, skills_root: Path, make_skill: Call) -> None:
    make_skill(skills_root, "bad", raw=b"---\nname: bad\nname: bad\n---\n")
    answer = call("show", "bad", "--root", skills_root)
    assert answer.code == 0
    assert "status      broken" in answer.out
    assert "SKILL.md:" in answer.out
    assert "fix: " in answer.out
    assert "can run     no: it is broken" in answer.out


def test_show_offers_models_only_what_is_ok_and_names_the_script_that_runs(
    call: Call, skills_root: Path, make_skill: Call
) -> None:
    make_skill(skills_root, "bad", raw=b"---\nnever closed")
    make_skill(skills_root, "alone", files={"scripts/summarize.py": "print()"})
    make_skill(skills_root, "several", files={f"scripts/{name}.py": "print()" for name in ("__init__", "draw", "fill")})
    assert "for models  no: it is broken" in call("show", "bad", "--root", skills_root).out
    assert call("show", "alone", "--root", skills_root, "--json").data["run"]["entry"] == "scripts/summarize.py"
    assert "yes, in the sandbox: scripts/summarize.py" in call("show", "alone", "--root", skills_root).out
    assert "--entry scripts/draw.py" in call("show", "several", "--root", skills_root).out


def test_show_gives_names_of_files_whole_and_sizes_in_a_column(
    call: Call, on_terminal: Call, skills_root: Path, make_skill: Call
) -> None:
    long = f"references/{'long-name-' * 7}.md"
    make_skill(skills_root, "notes", files={long: "x" * 1234, "a.md": "x"})
    expected = ["  markdown      1 B  a.md", f"  markdown  1,234 B  {long}"]
    assert call("show", "notes", "--root", skills_root).out.splitlines()[-2:] == expected
    assert long in on_terminal("show", "notes", "--root", skills_root, "--no-color")[1].replace("\r\n", "").replace(" ", "")
