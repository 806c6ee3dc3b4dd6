"""`skillyard check`: findings with file, line and a fix; the safe fixes applied on demand."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skillyard.cli import check_targets
from skillyard.cli.commands import check_commands
from skillyard.offload import forked_map

Call = Callable[..., Any]
_COLON = "name: colon\ndescription: Use when: a colon is unquoted."


@pytest.mark.row("002-17")
def test_the_answer_for_programs_has_its_promised_shape(call: Call, skills_root: Path, make_skill: Call) -> None:
    make_skill(skills_root, "good")
    make_skill(skills_root, "wrong", front_matter="name: Wrong Name\ndescription: Says something.")
    answer = call("check", skills_root, "--profile", "spec", "--json")
    assert answer.code == 1
    assert set(answer.data) == {"files", "summary"}
    good, wrong = answer.data["files"]
    assert good == {"path": str(skills_root / "good/SKILL.md"), "ok": True, "diagnostics": []}
    assert wrong["ok"] is False
    assert all(set(found) == {"rule", "severity", "message", "file", "line", "fix"} for found in wrong["diagnostics"])
    errors = sum(found["severity"] == "error" for found in wrong["diagnostics"])
    warnings = sum(found["severity"] == "warning" for found in wrong["diagnostics"])
    assert answer.data["summary"] == {"files": 2, "ok": 1, "errors": errors, "warnings": warnings}


def test_two_processes_find_what_one_finds_in_the_same_order(
    call: Call, skills_root: Path, make_skill: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(70):
        make_skill(skills_root, f"skill-{number:02}", **({"raw": b"---\nname: [\n---\n"} if number % 9 == 0 else {}))
    alone = call("check", skills_root, "--json")
    forks: list[int] = []
    fork = os.fork
    monkeypatch.setattr(os, "fork", lambda: forks.append(fork()) or forks[-1])
    monkeypatch.setattr(check_commands, "_WORTH_SHARING", 50)
    monkeypatch.setattr(forked_map, "_may_fork", lambda: True)
    together = call("check", skills_root, "--json")
    assert (together.code, together.data) == (alone.code, alone.data)
    assert len(forks) == 1
    assert len(together.data["files"]) == 70


def test_people_see_file_and_line_rule_message_and_fix(call: Call, skills_root: Path, make_skill: Call) -> None:
    make_skill(skills_root, "wrong", front_matter="name: Wrong Name\ndescription: Says something.")
    answer = call("check", skills_root, "--profile", "spec")
    first, second = answer.out.splitlines()[:2]
    assert first.startswith(f"{skills_root}/wrong/SKILL.md:2 error ")
    assert second.startswith("    fix: ")
    assert answer.out.splitlines()[-1].startswith("0 of 1 file ")


@pytest.mark.parametrize("place", ["SKILL.md", "", ".."])
def test_a_path_may_be_a_file_a_skill_or_a_tree(call: Call, skills_root: Path, make_skill: Call, place: str) -> None:
    folder = make_skill(skills_root / "deep" / "er", "one")
    files = call("check", folder / place, "--json").data["files"]
    assert [Path(file["path"]).resolve() for file in files] == [folder / "SKILL.md"]


def test_paths_come_back_as_they_were_written(call: Call, project: Path, make_skill: Call) -> None:
    make_skill(project / "skills", "one")
    assert call("check", "skills", "--json").data["files"][0]["path"] == "skills/one/SKILL.md"
    assert call("check", "./skills/one", "--json").data["files"][0]["path"] == "skills/one/SKILL.md"
    assert call("check", "skills/one/SKILL.md", "--json").data["files"][0]["path"] == "skills/one/SKILL.md"


def test_a_draft_under_another_name_can_be_checked(call: Call, project: Path) -> None:
    (project / "draft.md").write_text("---\nname: draft\ndescription: Not yet a skill.\n---\n\nBody.\n")
    answer = call("check", "draft.md", "--json")
    assert answer.code == 0
    assert answer.data["files"][0]["path"] == "draft.md"


def test_without_paths_the_roots_are_checked(call: Call, project: Path, make_skill: Call, skills_root: Path) -> None:
    make_skill(project / ".agents/skills", "mine")
    make_skill(skills_root, "other")
    assert [Path(file["path"]).parent.name for file in call("check", "--json").data["files"]] == ["mine"]
    assert [Path(file["path"]).parent.name for file in call("check", "--root", skills_root, "--json").data["files"]] == [
        "other"
    ]


def test_the_configured_profile_holds_unless_another_is_named(call: Call, project: Path, make_skill: Call) -> None:
    (project / "skillyard.toml").write_text('[skills]\nprofile = "spec"\n')
    make_skill(project / ".agents/skills", "extra", front_matter="name: extra\ndescription: Has more.\nmodel: opus")
    assert call("check").code == 1
    assert call("check", "--profile", "minimal").code == 0


def test_safe_fixes_are_applied_and_reported(call: Call, skills_root: Path, make_skill: Call) -> None:
    folder = make_skill(skills_root, "colon", front_matter=_COLON + "\n# a comment stays")
    (folder / "SKILL.md").chmod(0o640)
    answer = call("check", skills_root, "--fix", "--profile", "spec", "--json")
    assert answer.code == 0
    assert answer.data["files"][0]["fixed"]
    text = (folder / "SKILL.md").read_text()
    assert "# a comment stays" in text
    assert (folder / "SKILL.md").stat().st_mode & 0o777 == 0o640
    assert [path.name for path in folder.iterdir()] == ["SKILL.md"]
    again = call("check", skills_root, "--fix", "--profile", "spec")
    assert "fixed" not in again.out
    assert (folder / "SKILL.md").read_text() == text


def test_a_fix_follows_a_linked_file_instead_of_replacing_the_link(call: Call, skills_root: Path, make_skill: Call) -> None:
    folder = make_skill(skills_root, "colon", front_matter=_COLON)
    (folder / "SKILL.md").rename(folder / "real.md")
    (folder / "SKILL.md").symlink_to("real.md")
    call("check", skills_root, "--fix", "--profile", "spec")
    assert (folder / "SKILL.md").is_symlink()
    assert "Use when: a colon" in (folder / "real.md").read_text()


def test_an_installed_version_goes_by_the_name_of_its_skill_and_is_never_fixed(
    call: Call, skills_root: Path, make_skill: Call
) -> None:
    folder = make_skill(skills_root, "colon", front_matter=_COLON)
    written = (folder / "SKILL.md").read_bytes()
    assert call("install", folder, "--yes").code == 0
    answer = call("check", "--fix", "--json")
    (installed,) = (one for one in answer.data["files"] if one["path"].endswith("/colon/current/SKILL.md"))
    assert "name-folder-mismatch" not in {found["rule"] for found in installed["diagnostics"]}
    assert answer.code == 1
    assert "was not changed: an installed version never changes" in answer.err
    assert Path(installed["path"]).read_bytes() == written
    assert call("check", "--fix", Path(installed["path"]).parent).code == 1
    assert Path(installed["path"]).read_bytes() == written


def test_files_that_cannot_be_read_are_findings_and_hide_nothing(call: Call, skills_root: Path, make_skill: Call) -> None:
    make_skill(skills_root, "good")
    make_skill(skills_root, "latin", raw="---\nname: latin\ndescription: café\n---\n".encode("latin-1"))
    make_skill(skills_root, "huge", body="x" * (2 * 1024 * 1024))
    (skills_root / "folder" / "SKILL.md").mkdir(parents=True)
    (skills_root / "dangling").mkdir()
    (skills_root / "dangling" / "SKILL.md").symlink_to("nowhere")
    data = call("check", skills_root, "--json").data
    verdicts = {Path(file["path"]).parent.name: file["ok"] for file in data["files"]}
    assert verdicts == {"good": True, "latin": False, "huge": False, "folder": False, "dangling": False}
    assert all(found["fix"] for file in data["files"] for found in file["diagnostics"] if found["severity"] == "error")


def test_a_folder_without_skills_is_a_failure_not_a_success(call: Call, skills_root: Path) -> None:
    answer = call("check", skills_root, "--json")
    assert answer.code == 1
    assert answer.data["error"]["code"] == "skill_not_found"
    assert "skillyard new" in answer.data["error"]["hint"]


def test_a_path_that_is_not_there_is_wrong_usage(call: Call) -> None:
    assert call("check", "nowhere").code == 2


def test_a_file_that_cannot_be_written_stops_no_other_fix(
    call: Call, skills_root: Path, make_skill: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed, open_ = (make_skill(skills_root, name, front_matter=_COLON) for name in ("closed", "open"))
    replace = check_targets._replace

    def refusing(target: check_targets.CheckTarget, data: bytes) -> None:
        if str(closed) in target.path:
            raise PermissionError(13, "Permission denied", f"{target.path}.1.fixing")
        replace(target, data)

    monkeypatch.setattr(check_targets, "_replace", refusing)
    answer = call("check", skills_root, "--fix")
    assert answer.code == 1
    assert f"warning: {closed / 'SKILL.md'} was not changed: Permission denied\n" in answer.err
    assert f"{open_ / 'SKILL.md'}:3 fixed" in answer.out
    assert f"{closed / 'SKILL.md'}:3 warning" in answer.out


def test_a_folder_that_cannot_be_searched_is_not_taken_for_an_empty_one(
    call: Call, skills_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def closed(folder: str) -> None:
        raise PermissionError(13, "Permission denied", folder)

    monkeypatch.setattr("os.scandir", closed)
    answer = call("check", skills_root, "--no-cache")
    assert answer.code == 1
    assert f"error: {skills_root} cannot be searched: it cannot be read: Permission denied\n" in answer.err
    assert "skillyard new" not in answer.err


def test_a_pipe_in_the_place_of_a_file_keeps_nobody_waiting(call: Call, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "draft.md")
    answer = call("check", tmp_path / "draft.md")
    assert answer.code == 1
    assert "error file-not-regular: " in answer.out
    assert "it is a pipe or a device, not a regular file" in answer.out
    assert "permission" not in answer.out


def test_a_rule_that_trusts_a_name_alone_is_reported_by_check_and_doctor(call: Any, project: Path) -> None:
    (project / "skillyard.toml").write_text(
        '[permissions.skills]\n"deploy" = "allow"\n"a source=x.org" = "allow"\n"b" = "ask"\n'
    )
    assert call("check").err.count("trusts any skill of that name") == 1
    (found,) = [one for one in call("doctor", "--json").data["checks"] if one["name"] == "permissions"]
    assert (found["status"], "'deploy'" in found["detail"]) == ("warning", True)
    assert "deploy source=" in found["fix"]


def test_check_and_scan_find_what_an_installation_refuses(call: Call, tmp_path: Path, make_skill: Call) -> None:
    folder = tmp_path / "refused"
    make_skill(folder, "heavy")
    make_skill(folder, "linked")
    with (folder / "heavy" / "data.bin").open("wb") as file:
        file.truncate(21 << 20)
    (folder / "linked" / "inside").symlink_to("SKILL.md")
    (folder / "linked" / "outside").symlink_to("/etc/hostname")
    found = [one for file in call("check", folder, "--json").data["files"] for one in file["diagnostics"]]
    assert [one["message"] for one in found if one["rule"] == "package-refused"] == [
        "'data.bin' is over 20 MB",
        "'inside' is a link",
        "'outside' is a link",
    ]
    assert call("check", folder, "--profile", "manifest").code == 1
    report = call("scan", folder / "linked", "--json").data["reports"][0]
    assert [(one["rule"], one["file"]) for one in report["findings"]] == [("link-outside", "outside")]
    (folder / "linked" / "outside").unlink()
    assert "nothing found in what was scanned; 1 link not scanned" in call("scan", folder / "linked").out
    for name in ("a\x1b.md", "b\n.md"):
        (folder / "linked" / name).write_text("x")
    assert "1 link and 2 other files not scanned" in call("scan", folder / "linked").out


@pytest.mark.row("002-13", "003-2", "C-3")
def test_a_package_is_valid_exactly_when_an_install_takes_it(call: Call, tmp_path: Path, make_skill: Call) -> None:
    root = tmp_path / "packages"
    make_skill(root, "whole")
    make_skill(root, "nameless", front_matter="description: Does it. Use in a test.")
    make_skill(root, "undescribed", front_matter="name: undescribed")
    make_skill(root, "bare").joinpath("SKILL.md").write_text("# Bare\n\nOnly words.\n")
    make_skill(root, "bytes").joinpath("SKILL.md").write_bytes(b"---\nname: bytes\ndescription: \xff\n---\n")
    make_skill(root, "linked").joinpath("inside").symlink_to("SKILL.md")
    make_skill(root, "odd", front_matter="name: odd\ndescription: Odd. Use in a test.\nversion: [1]\nsecurity: strict")
    names = sorted(folder.name for folder in root.iterdir())
    checked = {name: call("check", "--package", root / name).code for name in names}
    assert checked == {name: call("install", root / name, "--dry-run", "--yes").code for name in names}
    assert [name for name, code in checked.items() if code == 0] == ["odd", "whole"]
    assert "error: SKILL.md does not declare its name and description" in call("check", "--package", root / "bare").out
