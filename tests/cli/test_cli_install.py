"""Installing from the command line: what a person sees, what a program reads, and how each command ends."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skillyard.errors import NetworkFailed
from skillyard.registry import Registry

Call = Callable[..., Any]


@pytest.fixture
def source(tmp_path: Path, make_skill: Call) -> Path:
    """A skill that can be installed; `SKILL.md` alone."""
    folder: Path = make_skill(tmp_path / "sources", "tidy")
    return folder


def _widen(source: Path) -> None:
    (source / "scripts").mkdir()
    (source / "scripts/new.py").write_text("print(1)\n", "utf-8")


def test_install_tells_what_a_new_skill_may_do_and_list_shows_it(call: Call, source: Path) -> None:
    _widen(source)
    answer = call("install", source)
    assert answer.code == 0
    assert answer.out.startswith("installed tidy 20")
    assert "has the script scripts/new.py" in answer.out
    (skill,) = call("list", "--json").data["skills"]
    assert (skill["id"], skill["source"], skill["status"]) == ("installed:tidy", "installed", "ok")


def test_more_power_without_anybody_to_ask_is_refused_with_the_difference(call: Call, source: Path) -> None:
    call("install", source)
    _widen(source)
    answer = call("install", source)
    assert answer.code == 1
    assert "error: tidy would be allowed more than before: tidy has the script scripts/new.py" in answer.err
    assert "--yes" in answer.err
    assert call("install", source, "--json").data["error"]["code"] == "consent_required"
    agreed = call("install", source, "--yes")
    assert agreed.code == 0
    assert agreed.out.startswith("updated tidy")
    assert "+ has the script scripts/new.py" in agreed.err


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("n\n", 1), ("\n", 1)])
def test_a_person_at_the_terminal_is_asked(on_terminal: Call, call: Call, source: Path, answer: str, code: int) -> None:
    call("install", source)
    _widen(source)
    ended, shown = on_terminal("install", source, answer=answer)
    assert ended == code
    assert "+ has the script scripts/new.py" in shown
    assert "Allow this? [y/N]" in shown
    assert ("updated tidy" in shown) is (code == 0)


def test_progress_is_drawn_for_a_person_and_taken_away(on_terminal: Call, source: Path) -> None:
    code, shown = on_terminal("install", source)
    assert code == 0
    assert "download" in shown
    assert "90%  tidy: activate" in shown
    assert "%" not in on_terminal("install", source, "--quiet")[1]


def test_versions_show_one_glance_of_a_long_description(call: Call, tmp_path: Path, make_skill: Call) -> None:
    call("install", make_skill(tmp_path / "sources", "wordy", description="word " * 100 + "end"))
    assert len(call("versions").out.splitlines()[1]) < 140


def test_versions_rollback_and_history_tell_one_story(call: Call, source: Path) -> None:
    first = call("install", source, "--json").data["results"][0]["version"]
    (source / "more.md").write_text("more", "utf-8")
    second = call("update", "tidy", "--json").data["results"][0]["version"]
    versions = call("versions", "tidy", "--json").data["versions"]
    assert [(version["version"], version["current"]) for version in versions] == [(second, True), (first, False)]
    assert call("rollback", "tidy").out.startswith(f"rolled back tidy {first} (was version {second})")
    assert "deprecated" in call("versions", "tidy").out
    assert call("uninstall", "tidy").code == 0
    assert [log["operation"] for log in call("history", "--json").data["logs"]] == [
        "uninstall",
        "rollback",
        "update",
        "install",
    ]
    assert call("history", "tidy").out.count("success") == 4
    assert call("versions").err == "nothing is installed; `skillyard install SOURCE` does it\n"
    assert "uninstalled" in call("versions", "--all").out
    assert call("rollback", "tidy", first).code == 0
    assert "tidy" in call("versions").out


def test_deprecate_and_yank_mark_a_version(call: Call, source: Path) -> None:
    call("install", source)
    assert "still the current version" in call("deprecate", "tidy", "--reason", "use neat").err
    assert call("yank", "tidy", "--json").data["version"]["yanked"] is True
    assert "current, deprecated, yanked" in call("versions", "tidy").out
    assert call("yank", "tidy", "--undo").out.endswith("is no longer yanked\n")


def test_files_are_only_deleted_when_that_is_agreed_to(call: Call, source: Path) -> None:
    call("install", source)
    refused = call("uninstall", "tidy", "--prune")
    assert refused.code == 2
    assert "--prune --yes" in refused.err
    assert call("uninstall", "tidy", "--prune", "--yes").code == 0
    assert call("rollback", "tidy").code == 1


def test_a_project_lock_is_begun_held_checked_and_left(call: Call, source: Path, project: Path, tmp_path: Path) -> None:
    nothing = call("install")
    assert nothing.code == 2
    assert "--save` begins one" in nothing.err
    assert call("sync", "--check").code == 2
    call("install", source, "--save")
    lock = project / "skillyard.lock"
    locked = json.loads(lock.read_text("utf-8"))["skills"]["tidy"]["digest"]
    assert call("sync", "--check").code == 0
    assert call("install").out == "everything is installed as locked\n"
    (source / "more.md").write_text("more", "utf-8")
    call("install", source)
    checked = call("sync", "--check", "--json")
    assert checked.code == 1
    assert checked.data["skills"][0]["state"] == "changed"
    (source / "more.md").unlink()
    assert call("sync").out.startswith("updated tidy")
    (source / "more.md").write_text("more", "utf-8")
    assert call("update").code == 0
    assert json.loads(lock.read_text("utf-8"))["skills"]["tidy"]["digest"] != locked
    call("uninstall", "tidy", "--save")
    assert json.loads(lock.read_text("utf-8"))["skills"] == {}


def test_an_update_of_all_goes_on_after_one_that_fails(call: Call, source: Path, make_skill: Call, tmp_path: Path) -> None:
    import shutil

    other = make_skill(tmp_path / "sources", "other")
    call("install", source.parent)
    shutil.rmtree(other)
    (source / "more.md").write_text("more", "utf-8")
    answer = call("update")
    assert answer.code == 1
    assert "updated tidy" in answer.out
    assert "failed other:" in answer.out
    assert call("update", "--json").data["failed"][0]["skill_id"] == "other"


def test_skills_that_have_one_name_hide_no_other_one(call: Call, make_skill: Call, tmp_path: Path) -> None:
    for folder, name in (("one", "twin"), ("two", "twin"), ("tidy", "tidy")):
        make_skill(tmp_path / "sources", folder, front_matter=f"name: {name}\ndescription: Does it. Use when asked.")
    answer = call("install", tmp_path / "sources")
    assert (answer.code, [one["name"] for one in call("versions", "--json").data["skills"]]) == (1, ["tidy"])
    assert "failed the source has several skills called twin" in answer.out
    assert "--skill one or --skill two" in answer.err
    assert call("install", tmp_path / "sources", "--skill", "two").code == 0


@pytest.mark.parametrize("options", [(), ("--list",)])
def test_a_folder_that_was_taken_for_a_repository_is_named_as_one(
    call: Call, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    def fails(*_: object, **__: object) -> Any:
        raise NetworkFailed("the address of github.com cannot be found", hint="check the network")

    for method in ("install", "inspect"):
        monkeypatch.setattr(Registry, method, fails)
    answer = call("install", "my/skills/tidy", *options)
    assert answer.code == 1
    assert answer.err.endswith("hint: check the network; if a folder is meant, write ./my/skills/tidy\n")
    assert "folder" not in call("install", "https://github.com/my/skills", *options).err


def test_several_skills_of_a_source_can_be_chosen(call: Call, source: Path, make_skill: Call, tmp_path: Path) -> None:
    make_skill(tmp_path / "sources", "other")
    results = call("install", source.parent, "--skill", "other", "--json").data["results"]
    assert [result["skill_id"] for result in results] == ["other"]
    unknown = call("install", source.parent, "--skill", "nope")
    assert unknown.code == 1
    assert "there are other, tidy" in unknown.err


@pytest.mark.parametrize(
    "words",
    [
        ("install", "/nowhere"), ("install", "ext::sh -c id"), ("install", "file:///etc"), ("install", "-"), ("install", ""),
        ("versions", "nope"), ("rollback", "nope"), ("update", "nope"), ("uninstall", "../../etc"), ("yank", "nope", "1"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_two_lines(call: Call, words: tuple[str, ...]) -> None:
    answer = call(*words)
    assert answer.code in (1, 2)
    assert answer.out == ""
    error, hint = answer.err.splitlines()
    assert error.startswith("error: ")
    assert hint.startswith("hint: ")


def test_doctor_tells_what_an_installed_skill_requires(call: Call, tmp_path: Path, make_skill: Call) -> None:
    front = "name: needy\ndescription: Needs things. Use it never.\nrequires: {bins: [nosuchprogram], skills: [needy]}"
    answer = call("install", make_skill(tmp_path / "sources", "needy", front_matter=front))
    assert "needs: needy: the program nosuchprogram is missing: install it" in answer.err
    checks = {check["detail"]: check for check in call("doctor", "--json").data["checks"]}
    assert checks["the program nosuchprogram is missing"]["fix"] == "install it"
    assert checks["skills require each other in a cycle"]["fix"] == "needy → needy"


@pytest.mark.row("003-16")
def test_backfill_writes_down_what_is_on_the_disk(call: Call, source: Path) -> None:
    call("install", source)
    home = Path(os.environ["SKILLYARD_HOME"])
    for path in home.glob("skillyard.db*"):
        path.unlink()
    assert call("versions", "tidy").code == 1
    assert call("db", "backfill").out == "1 version on the disk, 1 of them new to the records\n"
    assert call("versions", "tidy").code == 0
    assert call("db", "backfill", "--json").data["added"] == []


def test_listing_loads_nothing_of_the_registry(process: Call, source: Path, call: Call) -> None:
    call("install", source)
    script = "import sys; from skillyard.cli import main; main(['list']); print([m for m in sys.modules if 'registry' in m])"
    import subprocess
    import sys

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert "tidy" in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"
