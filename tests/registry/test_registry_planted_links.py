"""Links that somebody planted where skills are unpacked, kept or locked are refused, and what they lead to stays as it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from skillyard.errors import SkillyardError
from skillyard.registry import Registry


@pytest.mark.abuse("F21")
@pytest.mark.parametrize("place", ["skills/tidy", "skills/tidy/current", "skills/.work", "skills/.locks", "skills/.locks/tidy"])
def test_a_planted_link_gets_nothing_written_behind_it(place: str, data: Path, tmp_path: Path, write: Any) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "precious").write_text("mine")
    target = elsewhere / "precious" if place.endswith(".locks/tidy") else elsewhere
    (data / place).parent.mkdir(parents=True)
    (data / place).symlink_to(target)
    registry = Registry(str(data))
    source = write()
    try:
        registry.install(str(source))
    except (SkillyardError, OSError):
        (data / place).unlink()
        assert not [skill for skill in registry.installed.skills() if skill.active]
    finally:
        registry.close()
    assert [path.name for path in elsewhere.iterdir()] == ["precious"]
    assert (elsewhere / "precious").read_text() == "mine"


@pytest.mark.abuse("F21")
def test_a_link_in_place_of_a_version_is_not_taken_for_one(data: Path, registry: Registry, tmp_path: Path, write: Any) -> None:
    registry.install(str(write()))
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs/SKILL.md").write_text("---\nname: tidy\ndescription: Theirs.\n---\n")
    planted = data / "skills/tidy/20200101-000000"
    planted.symlink_to(tmp_path / "theirs")
    assert "20200101-000000" not in registry.storage.versions.names("tidy")
    with pytest.raises(SkillyardError):
        registry.rollback("tidy", "20200101-000000")
