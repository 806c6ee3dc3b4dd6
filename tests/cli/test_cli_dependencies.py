"""Skills that require others, from the command line: what comes along, why it is here, and what may go."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Call = Callable[..., Any]


def _header(name: str, more: str) -> str:
    return f"name: {name}\ndescription: Does one thing. Use when a test needs a skill.\n{more}"


@pytest.fixture
def sources(tmp_path: Path, make_skill: Call) -> Path:
    """A folder with `report`, which requires `tables`, which requires `numbers`; `tables` has a script."""
    folder = tmp_path / "sources"
    make_skill(
        folder, "report", front_matter=_header("report", "version: 1.0.0\nrequires: {skills: ['tables@^1.2'], bins: [nosuch]}")
    )
    tables: Path = make_skill(folder, "tables", front_matter=_header("tables", "version: 1.4.0\nrequires: {skills: [numbers]}"))
    (tables / "t.py").write_text("print(1)\n")
    make_skill(folder, "numbers")
    return folder


def test_without_a_person_to_ask_nothing_comes_along(call: Call, sources: Path) -> None:
    answer = call("install", sources, "--skill", "report")
    assert answer.code == 1
    assert (
        "tables, numbers would be installed as well: tables is a dependency: report requires tables@^1.2; tables has the"
        in answer.err
    )
    assert "--yes" in answer.err
    assert call("versions", "--json").data["skills"] == []
    alone = call("install", sources, "--skill", "report", "--no-deps")
    assert alone.code == 0 and "needs: report: the skill tables@^1.2 is missing: install it" in alone.err


def test_a_person_agrees_to_all_that_comes_along(on_terminal: Call, call: Call, sources: Path) -> None:
    ended, shown = on_terminal("install", sources, "--skill", "report", answer="y\n")
    assert ended == 0
    assert f"tables would be installed as a dependency from {sources} tables (report requires tables@^1.2):" in shown
    assert "+ has the script t.py" in shown and "+ uses the skill numbers" in shown
    assert "numbers would be installed as a dependency from" in shown and "+ has instructions only, no scripts" in shown
    results = {skill["skillId"] for skill in call("versions", "--json").data["skills"]}
    assert results == {"report", "tables", "numbers"}


def test_deps_draws_the_tree_and_says_why(call: Call, sources: Path) -> None:
    installed = call("install", sources, "--skill", "report", "--yes")
    assert installed.code == 0
    assert "installed tables" in installed.out and "because report requires tables@^1.2" in installed.out
    drawn = call("deps", "report")
    assert drawn.code == 1
    assert drawn.out.splitlines() == [
        "report 1.0.0",
        "├── program nosuch MISSING: install it",
        "└── tables 1.4.0 (wanted: tables@^1.2) met, installed",
        "    └── numbers met, installed",
        "  no skill requires it; it was installed by name",
    ]
    why = call("deps", "numbers")
    assert why.code == 0
    assert why.out.splitlines() == [
        "numbers",
        "  requires nothing",
        "  needed: tables requires numbers",
        "  installed because tables requires numbers",
    ]
    (tree,) = call("deps", "tables", "--json").data["trees"]
    assert (tree["skill_id"], tree["unmet"], tree["required_by"]) == ("tables", [], ["report requires tables@^1.2"])
    assert [one["name"] for one in tree["needs"]] == ["numbers"]
    assert [one["skill_id"] for one in call("deps", "--json").data["trees"]] == ["report", "tables"]
    assert call("deps", "nowhere").code == 1


def test_a_range_that_goes_on_and_on_is_shown_cut(call: Call, tmp_path: Path, make_skill: Call) -> None:
    make_skill(tmp_path, "long", front_matter=_header("long", f"requires: {{skills: ['tables@^1.{'9' * 5_000}']}}"))
    installed = call("install", tmp_path / "long")
    assert installed.code == 0 and "needs: long: the skill tables@^1.99" in installed.err
    drawn = call("deps", "long")
    assert "(wanted: tables@^1.99" in drawn.out
    assert max(map(len, (installed.err + drawn.out).splitlines())) < 500


def test_uninstall_refuses_what_others_need_and_offers_what_nobody_needs(call: Call, sources: Path) -> None:
    call("install", sources, "--skill", "report", "--yes")
    refused = call("uninstall", "tables")
    assert refused.code == 1
    assert "error: tables is needed: report requires tables@^1.2" in refused.err and "--no-deps" in refused.err
    gone = call("uninstall", "report")
    assert gone.code == 0
    assert "nothing requires numbers, tables any more: `skillyard uninstall numbers --unneeded`" in gone.err.replace(
        "tables, numbers", "numbers, tables"
    ).replace("uninstall tables --", "uninstall numbers --")
    assert call("uninstall", "tables", "--unneeded", "--json").data["results"][1]["skill_id"] == "numbers"
    assert call("versions", "--json").data["skills"] == []


@pytest.mark.parametrize(("answers", "left"), [("y\ny\n", {"report"}), ("y\nn\n", {"report", "numbers"}), ("n\n", None)])
def test_at_a_terminal_uninstall_asks(
    on_terminal: Call, call: Call, sources: Path, answers: str, left: set[str] | None
) -> None:
    call("install", sources, "--skill", "report", "--yes")
    ended, shown = on_terminal("uninstall", "tables", answer=answers)
    assert "tables is needed: report requires tables@^1.2" in shown
    here = {skill["skillId"] for skill in call("versions", "--json").data["skills"]}
    assert here == (left or {"report", "tables", "numbers"})
    assert (ended == 0) is (left is not None)


def test_the_lock_has_what_came_along_and_frozen_misses_what_it_lacks(call: Call, sources: Path, project: Path) -> None:
    call("install", sources, "--skill", "report", "--yes", "--save")
    lock = json.loads((project / "skillyard.lock").read_text())
    locked = {name: (entry.get("requires"), entry.get("required_by")) for name, entry in lock["skills"].items()}
    assert locked == {
        "report": (["tables@^1.2"], None),
        "tables": (["numbers"], ["report requires tables@^1.2"]),
        "numbers": (None, ["tables requires numbers"]),
    }
    assert call("sync", "--frozen").code == 0
    for name in ("report", "tables", "numbers"):
        call("uninstall", name, "--no-deps")
    assert call("sync").code == 0
    assert call("deps", "numbers", "--json").data["trees"][0]["installed_because"] == ["tables requires numbers"]
    del lock["skills"]["numbers"]
    (project / "skillyard.lock").write_text(json.dumps(lock))
    assert call("sync", "--frozen").code == 0
    call("uninstall", "numbers", "--no-deps")
    lacking = call("sync", "--frozen")
    assert lacking.code == 1
    assert "unmet      tables" in lacking.out and "requires: the skill numbers is missing: install it" in lacking.out
    lock["skills"]["report"]["requires"] = "tables"
    (project / "skillyard.lock").write_text(json.dumps(lock))
    assert "`requires` of report is not a list of texts" in call("sync", "--frozen").err


def test_a_project_skill_is_there_already(call: Call, sources: Path, project: Path, make_skill: Call) -> None:
    make_skill(project / ".claude/skills", "numbers")
    installed = call("install", sources, "--skill", "tables", "--json")
    assert [one["skill_id"] for one in installed.data["results"]] == ["tables"]
    assert installed.data["results"][0]["unmet"] == []


def test_the_lock_of_npx_skills_is_begun_only_when_asked_for_and_kept_then(call: Call, sources: Path, project: Path) -> None:
    theirs = project / "skills-lock.json"
    call("install", sources, "--skill", "numbers", "--save")
    assert not theirs.exists()
    assert call("install", sources, "--skill", "tables", "--skills-lock").code == 0
    begun = json.loads(theirs.read_text())
    assert (begun["version"], list(begun["skills"])) == (1, ["tables"])
    assert begun["skills"]["tables"]["sourceType"] == "local" and len(begun["skills"]["tables"]["computedHash"]) == 64
    call("install", sources, "--skill", "report", "--save")
    assert list(json.loads(theirs.read_text())["skills"]) == ["report", "tables"]
    assert list(json.loads((project / "skillyard.lock").read_text())["skills"]) == ["numbers", "report", "tables"]
    assert call("sync", "--frozen").code == 0
    assert call("install", "--skills-lock").code == 2


def test_a_dry_run_says_what_would_come_along_or_be_refused(call: Call, sources: Path, make_skill: Call) -> None:
    dry = call("install", sources, "--skill", "report", "--dry-run", "--json")
    (seen,) = dry.data["skills"]
    assert seen["warnings"] == [
        f"tables 1.4.0 would be installed as a dependency from {sources} tables: report requires tables@^1.2",
        f"numbers would be installed as a dependency from {sources} numbers: tables requires numbers",
    ]
    assert [(one["skill_id"], one["version"], one["source"]) for one in seen["dependencies"]] == [
        ("tables", "1.4.0", f"{sources} tables"),
        ("numbers", None, f"{sources} numbers"),
    ]
    shown = call("install", sources, "--skill", "report", "--dry-run")
    assert shown.code == 0
    assert shown.out.splitlines() == [
        "would install report (1.0.0)",
        "  uses the skill tables@^1.2",
        f"  would also install tables 1.4.0 from {sources} tables",
        "    because report requires tables@^1.2",
        "    uses the skill numbers",
        "    has the script t.py",
        f"  would also install numbers from {sources} numbers",
        "    because tables requires numbers",
        "  needs: the program nosuch is missing: install it",
    ]
    alone = call("install", sources, "--skill", "report", "--dry-run", "--no-deps").out
    assert "would also install" not in alone and "the skill tables@^1.2 is missing" in alone
    assert call("versions", "--json").data["skills"] == []
    call("install", make_skill(sources.parent / "old", "tables", front_matter=_header("tables", "version: 0.9.0")))
    make_skill(sources, "tables", front_matter=_header("tables", "version: 0.9.5"))
    refused = call("install", sources, "--skill", "report", "--dry-run", "--json")
    assert refused.code == 1
    assert [one["code"] for one in refused.data["skills"][0]["refusals"]] == ["dependency_conflict"]
