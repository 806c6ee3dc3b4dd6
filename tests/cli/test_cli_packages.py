"""`pack` and `verify`: a skill as one file, and whether a file is what was promised."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

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
    for words in (("verify", "a.zip"), ("pack", "."), ("verify", "missing.zip"), ("pack", "missing")):
        answer = call(*words)
        assert (answer.code, answer.out) == (1, "")
        assert answer.err.count("\n") == 2
        assert "hint: " in answer.err
    assert sorted(path.name for path in project.iterdir()) == [".git", "a.zip"]
