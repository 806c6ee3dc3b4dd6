"""Migrating at the terminal: the report, the exit codes, and what is wrong usage."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Call = Callable[..., Any]
OLD = (
    "---\nname: old\ndescription: Old. Use when testing.\n---\n```js\nfunction execute(p) { return {output: p.n + 1}; }\n```\n"
)


@pytest.fixture
def old(tmp_path: Path) -> Path:
    folder = tmp_path / "skills" / "old"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(OLD)
    return folder


@pytest.mark.row("000-46", "000-56", "D-1")
def test_an_old_skill_is_shown_migrated_validated_and_run(
    call: Call, old: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    shown = call("migrate", "--dry-run")
    assert shown.code == 0
    assert "+type: direct" in shown.out
    assert "nothing was written" in shown.err
    assert call("migrate", "--validate").code == 1
    done = call("migrate", "--skill-dir", old.parent, "--json")
    assert (done.code, done.data["migrated"], done.data["results"][0]["skillName"]) == (0, 1, "old")
    assert call("migrate", "--validate", "--json").data["validated"] == 1
    assert "skipped old" in call("migrate").out
    run = call("run", "old", "--root", old.parent, "--input", '{"n": 1}', "--timeout", "20s", "--json")
    assert (run.code, run.data["output"]) == (0, 2)


def test_a_failure_is_exit_one(call: Call, old: Path) -> None:
    (old / "SKILL.md").write_bytes(b"\xff")
    answer = call("migrate", "--skill-dir", old.parent)
    assert answer.code == 1
    assert "failed old" in answer.out


def test_the_variable_of_the_original_names_the_folder(call: Call, old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKILLS_DIR", str(old.parent))
    assert call("migrate", "--json").data["total"] == 1


def test_instructions_become_skills(call: Call, tmp_path: Path) -> None:
    (tmp_path / "AGENTS.md").write_text("Be kind.\n")
    answer = call("migrate", "--from", "agents", tmp_path, "--to", tmp_path / "out")
    assert answer.code == 0
    assert "migrated" in answer.out


@pytest.mark.parametrize("given", [["x"], ["--from", "agents", ".", "--validate"], ["--from", "word"]])
def test_wrong_usage(call: Call, given: list[str]) -> None:
    assert call("migrate", *given).code == 2
