"""`pack` and `verify`: a skill as one file, and whether a file is what was promised."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skillyard.interop.__main__ import main

Call = Callable[..., Any]


@pytest.mark.parametrize("name", ["zip", "tar.gz", "skill"])
def test_a_packed_skill_verifies_by_both_digests(call: Call, examples: Path, project: Path, name: str) -> None:
    folder = next(path for path in sorted(examples.iterdir()) if path.is_dir())
    packed = call("pack", folder, "--format", name, "--json").data
    assert packed["path"] == f"{folder.name}.{name}"
    for digest in (packed["digest"], packed["archive_sha256"].removeprefix("sha256:")):
        answer = call("verify", packed["path"], "--digest", digest, "--json")
        assert (answer.code, answer.data["ok"]) == (0, True)
    assert call("verify", folder, "--digest", packed["digest"]).code == 0


def test_another_content_fails(call: Call, project: Path, make_skill: Call, tmp_path: Path) -> None:
    folder = make_skill(tmp_path, "tidy")
    call("pack", folder, "-o", "tidy.zip")
    answer = call("verify", "tidy.zip", "--digest", "0" * 64)
    assert answer.code == 1
    assert "tidy.zip is not sha256:000" in answer.out


def test_rubbish_is_refused_in_two_lines_and_leaves_nothing(call: Call, project: Path) -> None:
    Path("a.zip").write_text("rubbish")
    for words in (("verify", "a.zip"), ("pack", "."), ("verify", "."), ("sign", ".")):
        answer = call(*words)
        assert (answer.code, answer.out) == (1, "")
        assert answer.err.count("\n") == 2
        assert "hint: " in answer.err
    assert sorted(path.name for path in project.iterdir()) == [".git", "a.zip"]


@pytest.mark.parametrize("command", ["verify", "install", "convert"])
def test_a_pipe_in_the_place_of_an_archive_is_told_and_not_read(call: Call, project: Path, command: str) -> None:
    os.mkfifo("pipe")
    answer = call(command, "pipe", *(("--to", "claude-plugin") if command == "convert" else ()))
    assert answer.code == 1
    assert "is a pipe or a device" in answer.err
    assert "hint: save what it gives to a file" in answer.err


def test_a_link_to_itself_is_no_skill(call: Call, project: Path) -> None:
    Path("loop").symlink_to("loop")
    answer = call("pack", "loop")
    assert answer.code == 1
    assert answer.err == "error: loop has no file SKILL.md\nhint: name the folder of one skill\n"


def test_a_folder_that_is_not_there_is_wrong_usage_in_the_same_words_for_all(call: Call, tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere"
    for command in (("pack",), ("sign",), ("verify",), ("check",), ("check", "--package"), ("convert", "--to", "codex")):
        answer = call(*command, nowhere)
        assert (answer.code, answer.out) == (2, "")
        assert answer.err.startswith(f"error: there is nothing at {nowhere}\nhint: ")
    for command in ("pack", "sign", "verify"):
        answer = call(command, tmp_path)
        assert (answer.code, answer.err.splitlines()[0]) == (1, f"error: {tmp_path} has no file SKILL.md")


def test_checked_packages_end_with_a_count_like_those_of_the_script(
    call: Call, tmp_path: Path, make_skill: Call, capsys: pytest.CaptureFixture[str]
) -> None:
    good = make_skill(tmp_path, "good")
    (tmp_path / "empty").mkdir()
    for folders in ([good], [good, tmp_path / "empty"], [tmp_path / "nowhere"]):
        answer = call("check", "--package", *folders)
        assert (main([str(folder) for folder in folders]), capsys.readouterr().out) == (answer.code, answer.out)
    assert call("check", "--package", good, tmp_path / "empty").out.endswith("\n1 of 2 packages are valid\n")
