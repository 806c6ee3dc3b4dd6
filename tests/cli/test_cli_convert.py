"""Converting, and asking what other clients make of a skill, at the terminal."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

Call = Callable[..., Any]


def test_a_skill_is_converted_and_comes_back(call: Call, examples: Path, tmp_path: Path) -> None:
    source = examples / "text-statistics"
    there = call("convert", source, "--to", "semibot", "--out", tmp_path / "there")
    assert there.code == 0
    assert "apexbridge to semibot" in there.out
    back = call("convert", tmp_path / "there", "--to", "apexbridge", "--out", tmp_path / "back", "--json")
    assert back.data["converted"][0]["skills"] == ["text-statistics"]
    assert (tmp_path / "back/text-statistics/SKILL.md").read_bytes() == (source / "SKILL.md").read_bytes()
    again = call("convert", source, "--to", "semibot", "--out", tmp_path / "there", "--json")
    assert (again.code, again.data["error"]["code"]) == (1, "skill_exists")
    assert call("convert", source, "--to", "word").code == 2


def test_what_clients_make_of_a_skill_is_shown_and_decides_the_exit_code(call: Call, tmp_path: Path, make_skill: Call) -> None:
    folder = make_skill(tmp_path, "tidy")
    shown = call("check", folder, "--as", "claude,codex")
    assert shown.code == 0
    assert "codex      loads as tidy:" in shown.out
    (folder / "SKILL.md").write_text("---\nname: tidy\n---\nDo it.\n")
    refused = call("check", folder, "--as", "all", "--json")
    assert refused.code == 1
    loads = {one["client"]: one["loads"] for one in refused.data["skills"][0]["clients"]}
    assert loads == {"claude": True, "codex": False, "gemini": False, "opencode": False, "api": False}
    assert "did you mean codex?" in call("check", folder, "--as", "codec").err
    assert call("check", folder, "--as", "codex", "--fix").code == 2
