"""`skillyard list`: every skill, also those no model is offered, and why."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skillyard import Catalog
from skillyard.cli.check_targets import CheckedFile
from skillyard.cli.commands import check_commands, show_commands
from skillyard.cli.screen import cell_width

Call = Callable[..., Any]


@pytest.mark.row("001-21", "004-9")
def test_the_list_for_programs_has_its_promised_shape(call: Call, skills_root: Path, make_skill: Call) -> None:
    make_skill(skills_root, "good", description="Does good. Use when good is needed.")
    make_skill(skills_root, "bad", raw=b"---\nnever closed")
    answer = call("list", "--root", skills_root, "--json")
    assert answer.code == 0
    assert set(answer.data) == {"skills", "roots"}
    assert answer.data["roots"] == [{"path": str(skills_root), "source": "config", "status": "ok"}]
    bad, good = answer.data["skills"]
    assert good == {
        "id": "config:good",
        "name": "good",
        "description": "Does good. Use when good is needed.",
        "source": "config",
        "directory": str(skills_root / "good"),
        "status": "ok",
        "reason": None,
        "state": "automatic",
        "diagnostics": [],
    }
    assert bad["status"] == "broken"
    assert bad["reason"]
    assert set(bad["diagnostics"][0]) == {"rule", "severity", "message", "file", "line", "fix"}


def test_the_ready_made_list_says_what_the_skills_themselves_say(call: Call, examples: Path) -> None:
    catalog = Catalog.discover(roots=[examples])
    data = call("list", "--root", examples, "--json").data
    assert data == {"skills": [skill.to_dict() for skill in catalog.all()], "roots": [root.to_dict() for root in catalog.roots]}


def test_a_folder_whose_name_is_not_utf8_leaves_json_that_every_reader_reads(
    call: Call, skills_root: Path, make_skill: Call
) -> None:
    make_skill(skills_root, "odd").rename(os.fsdecode(os.fsencode(skills_root) + b"/odd-\xff"))
    for command in (("list",), ("list", "--status", "ok"), ("show", "odd")):
        data = call(*command, "--json", "--root", skills_root).data
        (skill,) = data.get("skills") or [data]
        assert skill["directory"] == f"{skills_root}/odd-?", command


def test_roots_may_repeat_and_the_first_wins_a_name(call: Call, tmp_path: Path, make_skill: Call) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    make_skill(first, "twin")
    make_skill(second, "twin")
    winner, loser = call("list", "--root", first, "--root", second, "--json").data["skills"]
    assert (winner["status"], winner["directory"]) == ("ok", str(first / "twin"))
    assert (loser["status"], loser["directory"]) == ("shadowed", str(second / "twin"))
    assert loser["id"] != winner["id"]
    assert winner["id"] in loser["reason"] or str(first / "twin") in loser["reason"]


@pytest.mark.row("001-19")
def test_a_rule_of_the_configuration_marks_skills_denied(call: Call, project: Path, make_skill: Call) -> None:
    (project / "skillyard.toml").write_text('[permissions.skills]\n"internal-*" = "deny"\n')
    make_skill(project / ".agents/skills", "internal-pay")
    make_skill(project / ".agents/skills", "public-pay")
    skills = call("list", "--json").data["skills"]
    assert {skill["name"]: skill["status"] for skill in skills} == {"internal-pay": "denied", "public-pay": "ok"}


def test_people_see_one_line_a_skill_and_the_reason_of_what_is_broken(call: Call, skills_root: Path, make_skill: Call) -> None:
    make_skill(skills_root, "good", description="Does good.")
    make_skill(skills_root, "bad", raw=b"\xff\xfe\x00broken")
    answer = call("list", "--root", skills_root)
    assert answer.code == 0
    heading, bad, good = answer.out.splitlines()
    assert heading.split() == ["NAME", "SOURCE", "STATUS", "DESCRIPTION"]
    assert good.split() == ["good", "config", "ok", "Does", "good."]
    assert bad.split()[:3] == ["bad", "config", "broken"]
    assert answer.err == "2 skills in 1 root: 1 ok, 1 broken\n"


def test_people_see_the_names_in_order(call: Call, skills_root: Path, make_skill: Call) -> None:
    for folder, name in (("a", "Zebra"), ("b", "apple"), ("c", "Mango")):
        make_skill(skills_root, folder, front_matter=f"name: {name}\ndescription: Does it.")
    assert [line.split()[0] for line in call("list", "--root", skills_root).out.splitlines()[1:]] == ["apple", "Mango", "Zebra"]


def test_a_terminal_gets_descriptions_as_wide_as_it_is(on_terminal: Call, skills_root: Path, make_skill: Call) -> None:
    make_skill(skills_root, "wordy", description="word " * 100 + "end")
    shown = on_terminal("list", "--root", skills_root, "--no-color")[1]
    row = next(line for line in shown.splitlines() if line.startswith("wordy"))
    assert row.rstrip().endswith("…")
    assert len(row.rstrip()) <= 100


def test_quiet_leaves_the_notes_out(call: Call, examples: Path) -> None:
    assert call("list", "--root", examples, "-q").err == ""


def test_a_status_can_be_asked_for(call: Call, skills_root: Path, make_skill: Call) -> None:
    make_skill(skills_root, "good")
    make_skill(skills_root, "bad", raw=b"")
    assert [skill["name"] for skill in call("list", "--root", skills_root, "--status", "broken", "--json").data["skills"]] == [
        "bad"
    ]
    assert call("list", "--status", "wrong").code == 2


def test_an_empty_list_says_where_it_looked_and_what_to_do(call: Call, skills_root: Path) -> None:
    answer = call("list", "--root", skills_root)
    assert (answer.code, answer.out) == (0, "")
    what, fix = answer.err.splitlines()
    assert what == f"no skills in {skills_root}"
    assert fix.startswith("hint: make one with `skillyard new")


def test_a_root_that_is_not_there_is_said_aloud(call: Call, tmp_path: Path) -> None:
    answer = call("list", "--root", tmp_path / "nowhere", "--json")
    assert answer.code == 2
    assert answer.data["roots"][0]["status"] == "missing"
    assert answer.err.startswith(f"warning: {tmp_path / 'nowhere'}: there is no such folder\n")


@pytest.mark.parametrize("command", [("search", "words"), ("show", "pdf"), ("run", "pdf"), ("prompt",)])
def test_nothing_found_in_a_root_that_is_not_there_is_wrong_usage(call: Call, tmp_path: Path, command: tuple[str, ...]) -> None:
    answer = call(*command, "--root", tmp_path / "nowhere")
    assert answer.code == 2
    assert f"{tmp_path / 'nowhere'}" in answer.err


def test_a_root_without_a_name_is_wrong_usage(call: Call) -> None:
    assert call("list", "--root", "").code == 2


def test_a_shadowed_skill_goes_by_the_id_that_other_commands_take(call: Call, tmp_path: Path, make_skill: Call) -> None:
    make_skill(tmp_path / "first", "twin")
    make_skill(tmp_path / "second", "twin")
    roots = ("--root", tmp_path / "first", "--root", tmp_path / "second")
    names = [line.split()[0] for line in call("list", *roots).out.splitlines()[1:]]
    assert [call("show", name, *roots, "--json").data["directory"] for name in names] == [
        str(tmp_path / "first/twin"),
        str(tmp_path / "second/twin"),
    ]


def test_a_broken_settings_file_is_an_error_with_its_path(call: Call, project: Path) -> None:
    (project / "skillyard.toml").write_text("[skills\n")
    answer = call("list", "--json")
    assert answer.code == 1
    assert answer.data["error"]["code"] == "invalid_configuration"
    assert "skillyard.toml" in answer.data["error"]["message"]


def test_without_cache_nothing_is_kept(call: Call, home: Path, examples: Path) -> None:
    call("list", "--root", examples, "--json", "--no-cache")
    assert not list(home.rglob("*cache*/**/*"))
    call("list", "--root", examples, "--json")
    assert list(home.rglob("*cache*/**/*"))


@pytest.mark.row("001-4", "001-23")
def test_the_project_option_looks_from_another_folder(call: Call, tmp_path: Path, make_skill: Call) -> None:
    other = tmp_path / "other"
    make_skill(other / ".claude/skills", "elsewhere")
    below = other / "deep" / "down"
    below.mkdir(parents=True)
    (other / ".git").mkdir()
    assert [skill["name"] for skill in call("list", "--project", below, "--json").data["skills"]] == ["elsewhere"]
    assert call("list", "--project", tmp_path / "nowhere").code == 2


def test_the_json_of_a_terminal_is_the_same_data(call: Call, on_terminal: Call, skills_root: Path, make_skill: Call) -> None:
    make_skill(skills_root, "zero", front_matter='name: zero\ndescription: "zero\\u200bwidth 技能"')
    shown = on_terminal("list", "--root", skills_root, "--json", "--no-color")[1]
    assert json.loads(shown) == call("list", "--root", skills_root, "--json").data


def test_one_very_long_name_moves_only_its_own_row(call: Call, skills_root: Path, make_skill: Call) -> None:
    make_skill(skills_root, "short")
    make_skill(skills_root, "long", front_matter=f"name: {'n' * 205}\ndescription: d\n")
    header, long, short = call("list", "--root", skills_root).out.splitlines()
    assert header.index("SOURCE") == short.index("config") == len("short") + 2
    assert long.startswith("n" * 205 + "  config  ok")


def test_a_pipe_gets_one_line_a_skill_that_can_be_read_at_a_glance(call: Call, skills_root: Path, make_skill: Call) -> None:
    long = "Reads PDF files.\n" + "Use when the user mentions a PDF, a form or a scan. " * 12 + "The end."
    make_skill(skills_root, "pdf", front_matter=f"name: pdf\ndescription: {json.dumps(long)}")
    make_skill(skills_root, "表格", front_matter="name: sheets\ndescription: " + "处理表格。" * 60)
    for command, many in ((("list",), 2), (("search", "PDF form"), 1)):
        lines = call(*command, "--root", skills_root).out.splitlines()
        assert [line.endswith("…") for line in lines[1:]] == [True] * many
        assert max(map(cell_width, lines)) < 160
        whole = call(*command, "--root", skills_root, "--wide").out.splitlines()
        assert len(whole) == 1 + many
        assert any(line.endswith("The end.") for line in whole)
    assert "The end." in call("list", "--root", skills_root, "--json").out


def test_skills_in_the_hidden_folders_of_collections_are_found_by_list_and_check_and_install(
    call: Call, tmp_path: Path, make_skill: Any
) -> None:
    collection = tmp_path / "collection"
    for place in ("skills/.curated", "skills/.experimental", "skills/.system", "skills", "skills/.git"):
        make_skill(collection / place, f"in-{place.rpartition('/')[2].strip('.')}")
    found = ["in-curated", "in-experimental", "in-skills", "in-system"]
    listed = call("list", "--root", collection, "--json").data["skills"]
    assert sorted(skill["name"] for skill in listed) == found
    checked = call("check", collection, "--json").data
    assert sorted(Path(one["path"]).parent.name for one in checked["files"]) == found
    assert call("check", collection / "skills/.curated").code == 0
    installed = call("install", collection, "--json").data["results"]
    assert sorted(one["skill_id"] for one in installed) == found


def test_numbers_over_a_thousand_are_written_alike(examples: Path) -> None:
    catalog = Catalog.discover(roots=[examples])
    skills = [skill for skill in catalog.all() if skill.usable][:1] * 1_200
    assert show_commands._summary(catalog, skills) == "1,200 skills in 1 root: 1,200 ok"
    closing = check_commands._closing([CheckedFile("SKILL.md", ())] * 1_200, "standard")
    assert closing == "1,200 of 1,200 files are fine under profile standard: 0 errors, 0 warnings"
