"""`skillyard read`: the text of one file of a skill, exactly, or its bytes in a file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Call = Callable[..., Any]
_PNG = b"\x89PNG\r\n\x1a\n\x00\x00"


@pytest.mark.row("001-21", "003-10")
def test_a_pipe_gets_the_very_bytes(process: Call, skills_root: Path, make_skill: Call) -> None:
    make_skill(skills_root, "notes", files={"windows.md": b"one\r\ntwo \xe2\x80\xaehidden", "reference.md": "plain"})
    done = process("read", "notes", "windows.md", "--root", skills_root)
    assert done.stdout.encode() == b"one\ntwo \xe2\x80\xaehidden" or done.stdout.encode() == b"one\r\ntwo \xe2\x80\xaehidden"
    assert process("read", "notes", "reference.md", "--root", skills_root).stdout == "plain"


def test_without_a_file_it_is_the_skill_md(call: Call, skills_root: Path, make_skill: Call) -> None:
    folder = make_skill(skills_root, "notes")
    assert call("read", "notes", "--root", skills_root).out == (folder / "SKILL.md").read_text()


@pytest.mark.row("D-11")
def test_a_file_asked_for_in_the_wrong_case_is_found_and_said(call: Call, skills_root: Path, make_skill: Call) -> None:
    make_skill(skills_root, "pdf", files={"forms.md": "# Forms"})
    answer = call("read", "pdf", "FORMS.md", "--root", skills_root)
    assert (answer.code, answer.out) == (0, "# Forms")
    assert "forms.md" in answer.err


def test_what_is_not_text_is_refused_with_the_way_to_get_it(
    call: Call, skills_root: Path, make_skill: Call, tmp_path: Path
) -> None:
    make_skill(skills_root, "art", files={"logo.png": _PNG})
    answer = call("read", "art", "logo.png", "--root", skills_root, "--json")
    assert answer.code == 1
    assert answer.data["error"]["code"] == "binary_file"
    assert "--output" in answer.data["error"]["hint"]
    copy = call("read", "art", "logo.png", "--root", skills_root, "--output", tmp_path / "copy.png")
    assert (copy.code, copy.out) == (0, "")
    assert (tmp_path / "copy.png").read_bytes() == _PNG


@pytest.mark.row("001-20", "D-2")
@pytest.mark.parametrize("path", ["../secret", "/etc/passwd", "~/x", "a/../../secret"])
def test_no_path_leaves_the_skill(call: Call, skills_root: Path, make_skill: Call, path: str) -> None:
    make_skill(skills_root, "notes")
    (skills_root / "secret").write_text("secret")
    answer = call("read", "notes", path, "--root", skills_root, "--json")
    assert answer.code == 1
    assert answer.data["error"]["code"] == "path_refused"


def test_a_missing_file_names_near_ones(call: Call, skills_root: Path, make_skill: Call) -> None:
    make_skill(skills_root, "notes", files={"reference.md": "text"})
    answer = call("read", "notes", "refrence.md", "--root", skills_root)
    assert answer.code == 1
    assert "reference.md" in answer.err


def test_the_answer_for_programs_carries_the_text(call: Call, skills_root: Path, make_skill: Call) -> None:
    make_skill(skills_root, "notes", files={"a.md": "text"})
    data = call("read", "notes", "a.md", "--root", skills_root, "--json").data
    assert data == {"id": "config:notes", "path": "a.md", "size": 4, "text": "text", "note": None}


def test_a_folder_is_called_a_folder(call: Call, skills_root: Path, make_skill: Call) -> None:
    make_skill(skills_root, "notes", files={"references/a.md": "text"})
    (skills_root / "odd" / "SKILL.md").mkdir(parents=True)
    assert "error: 'SKILL.md' is a folder\n" in call("read", "odd", "--root", skills_root).err
    assert "its SKILL.md" not in call("read", "odd", "--root", skills_root).err
    itself = call("read", "notes", ".", "--root", skills_root)
    assert (itself.code, "traversal" in itself.err) == (1, False)
    assert "name a file" in itself.err
