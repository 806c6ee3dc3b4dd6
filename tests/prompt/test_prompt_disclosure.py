"""How much of a skill is shown: by how surely it fits, unless someone prefers otherwise (section 2.2)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from skillyard import Catalog, Skill
from skillyard.errors import InvalidInput
from skillyard.prompt import describe_skill, disclosure_stage

SCHEMA = "{properties: {city: {type: string, description: Where}, days: {type: integer}}, required: [city]}"


@pytest.fixture
def skill(skills_root: Path, make_skill: Any) -> Skill:
    front = f"name: sky\ndescription: Looks up.\ninput_schema: {SCHEMA}"
    make_skill(skills_root, "sky", front_matter=front, body="# Steps\n\nOpen the window.\n")
    return Catalog.discover(roots=[skills_root]).get("sky")


@pytest.mark.row("000-13", "000-25")
@pytest.mark.parametrize(
    ("confidence", "stage"),
    [(0.0, "metadata"), (0.1499, "metadata"), (0.15, "brief"), (0.6999, "brief"), (0.7, "full"), (1.0, "full")],
)
def test_the_thresholds_decide_the_stage(confidence: float, stage: str) -> None:
    assert disclosure_stage(confidence) == stage


def test_the_session_goes_before_the_user_and_the_user_before_the_thresholds() -> None:
    assert disclosure_stage(0.9, session="brief", user="metadata") == "brief"
    assert disclosure_stage(0.9, user="metadata") == "metadata"
    with pytest.raises(InvalidInput, match="everything"):
        disclosure_stage(0.9, user="everything")


def test_each_stage_shows_more(skill: Skill) -> None:
    metadata, brief, full = (describe_skill(skill, stage) for stage in ("metadata", "brief", "full"))
    assert metadata == "sky (config:sky): Looks up."
    assert brief == f"{metadata}\nParameters:\n- city (string, required): Where\n- days (integer)"
    assert full == f"{brief}\n\n# Steps\n\nOpen the window."


def test_a_skill_whose_file_was_removed_is_described_by_its_metadata(skill: Skill) -> None:
    Path(skill.path).unlink()
    assert describe_skill(skill, "full") == "sky (config:sky): Looks up."
