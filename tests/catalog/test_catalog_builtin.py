"""The skills that come with Skillyard: last in precedence, fine by its own rules, and switched off singly or all at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hatchling.builders.wheel import WheelBuilder

from skillyard import Catalog, check_document
from skillyard.cli import main
from skillyard.errors import DeleteRefused

ROOT = Path(__file__).resolve().parents[2]
NAMES = ["review-a-skill", "write-a-skill"]


@pytest.fixture(autouse=True)
def shipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SKILLYARD_BUILT_IN")


@pytest.mark.row("001-7")
def test_built_in_skills_come_last_and_give_way_to_a_namesake(home: Path, make_skill: Any, tmp_path: Path) -> None:
    make_skill(home / ".claude/skills", "write-a-skill", description="Mine.")
    make_skill(home / ".claude/skills", "zebra")
    catalog = Catalog.discover(cwd=tmp_path)
    assert [(skill.id, skill.status) for skill in catalog.all()] == [
        ("user:write-a-skill", "ok"),
        ("user:zebra", "ok"),
        ("builtin:review-a-skill", "ok"),
        ("builtin:write-a-skill", "shadowed"),
    ]
    with pytest.raises(DeleteRefused) as refused:
        catalog.delete("builtin:review-a-skill")
    assert refused.value.hint == "`skillyard disable builtin:review-a-skill`"
    assert "builtin" not in {skill.source for skill in Catalog.discover(roots=tmp_path, cwd=tmp_path).all()}


def test_they_are_fine_by_the_rules_they_teach(tmp_path: Path) -> None:
    catalog = Catalog.discover(cwd=tmp_path)
    assert [skill.name for skill in catalog] == NAMES
    for skill in catalog:
        files = [file.name for file in skill.files()]
        data = Path(skill.path).read_bytes()
        assert check_document(data, directory_name=skill.name, profile="spec", files=files) == ()
        assert catalog.scan(skill).findings == ()
    assert catalog.search("make a skill of this conversation")[0].skill.name == "write-a-skill"
    assert catalog.search("can this skill package be trusted?")[0].skill.name == "review-a-skill"


def test_the_wheel_carries_them() -> None:
    builder = WheelBuilder(str(ROOT))
    packed = {file.distribution_path for file in builder.recurse_selected_project_files()}
    assert {f"skillyard/skills/{name}/SKILL.md" for name in NAMES} <= packed
    assert "skillyard/skills/write-a-skill/references/patterns.md" in packed


@pytest.mark.row("001-7")
def test_they_are_switched_off_singly_by_the_setting_or_by_the_variable(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["disable", "builtin:write-a-skill", "--project", str(tmp_path)]) == 0
    assert [skill.name for skill in Catalog.discover(cwd=tmp_path)] == ["review-a-skill"]
    own = home / ".config/skillyard/skillyard.toml"
    own.parent.mkdir(parents=True)
    own.write_text("[skills]\nbuilt-in = false\n")
    (tmp_path / "skillyard.toml").write_text("[skills]\nbuilt-in = true\n")  # a project cannot bring them back
    assert Catalog.discover(cwd=tmp_path).all() == ()
    own.unlink()
    monkeypatch.setenv("SKILLYARD_BUILT_IN", "off")
    assert Catalog.discover(cwd=tmp_path).all() == ()
