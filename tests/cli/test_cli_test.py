"""`skillyard test`: what it says to people and to programs, and its exit codes."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Call = Callable[..., Any]
TESTED = (
    "changelog-writer", "csv-summary", "data-processor", "PDF Miner", "preference-recorder", "text-statistics",
    "user-profile-updater", "weather-query", "weather-query-abp",
)  # fmt: skip


@pytest.mark.row("000-5")
@pytest.mark.parametrize("name", TESTED)
def test_every_example_skill_passes_its_own_tests(call: Call, examples: Path, name: str) -> None:
    answer = call("test", name, "--root", examples, "--json")
    assert (answer.code, answer.data["failed"]) == (0, 0), answer.out
    assert answer.data["passed"] > 0


def test_people_see_each_trial_and_why_one_failed(call: Call, examples: Path, tmp_path: Path) -> None:
    shutil.copytree(examples / "text-statistics", tmp_path / "skills/text-statistics")
    (tmp_path / "skills/text-statistics/tests/broken.py").write_text("raise SystemExit('this is broken')", encoding="utf-8")
    answer = call("test", "text-statistics", "--root", tmp_path / "skills")
    assert answer.code == 1
    assert answer.out.startswith("text-statistics: 3 of 4 trials passed\n")
    assert "  error  script   tests/broken.py" in answer.out
    assert "\ntests/broken.py\n  the script ended with exit code 1: this is broken\n" in answer.out


def test_a_skill_without_tests_is_told_what_to_write(call: Call, tmp_path: Path) -> None:
    folder = tmp_path / "skills/bare"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: bare\ndescription: Nothing to run.\n---\n# Bare\n", encoding="utf-8")
    answer = call("test", "bare", "--root", tmp_path / "skills")
    assert (answer.code, answer.out) == (1, "bare: nothing to test\n")
    assert "tests/examples.json" in answer.err


def test_examples_of_the_front_matter_have_their_types(call: Call, tmp_path: Path) -> None:
    folder = tmp_path / "skills/adder"
    (folder / "scripts").mkdir(parents=True)
    header = "name: adder\ndescription: Adds.\nexamples:\n  - input: {a: 1, b: 2.5}\n    output: 3.5\n  - Add one and two.\n"
    (folder / "SKILL.md").write_text(f"---\n{header}---\n# Adder\n", encoding="utf-8")
    (folder / "scripts/execute.py").write_text("def execute(p):\n    return p['a'] + p['b']\n", encoding="utf-8")
    answer = call("test", "adder", "--root", tmp_path / "skills")
    assert answer.code == 0, answer.out
    assert "examples #2 was not run" in answer.err
