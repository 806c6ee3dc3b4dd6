"""The records come back from the disk, for what was there before them and for what they lack."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from skillyard.database import skill_definitions, skill_versions
from skillyard.registry import Registry


@pytest.mark.row("003-16")
def test_lost_records_are_filled_from_the_disk_and_that_is_safe_to_repeat(
    any_registry: Registry, write: Any, tmp_path: Path
) -> None:
    for number in range(3):
        any_registry.install(str(write(body=str(number), files={"references/a.md": "A"})))
    current = any_registry.installed.current("tidy").version
    fresh = Registry(str(any_registry.root.parent), f"sqlite:///{tmp_path}/fresh.db")
    assert fresh.installed.skills() == ()
    filled = fresh.backfill()
    assert len(filled.added) == len(filled.versions) == 3
    assert filled.problems == ()
    skill = fresh.installed.skill("tidy")
    assert skill.current_version == current
    assert skill.skill_md_content == any_registry.installed.skill("tidy").skill_md_content
    assert skill.file_inventory == any_registry.installed.skill("tidy").file_inventory
    assert {v.digest for v in fresh.installed.versions("tidy")} == {v.digest for v in any_registry.installed.versions("tidy")}
    assert fresh.backfill().added == ()
    fresh.close()


@pytest.mark.row("003-16")
def test_columns_that_older_rows_lack_are_filled_and_nothing_else_is_touched(any_registry: Registry, write: Any) -> None:
    any_registry.install(str(write()))
    before = any_registry.installed.versions("tidy")
    empty = {"skill_md_content": None, "skill_md_hash": None, "file_inventory": None}
    with any_registry.records.database.write() as connection:
        connection.execute(update(skill_versions).values(empty))
        connection.execute(update(skill_definitions).values(empty))
    assert any_registry.installed.skill("tidy").file_inventory is None
    any_registry.backfill()
    skill = any_registry.installed.skill("tidy")
    assert "Do it." in (skill.skill_md_content or "")
    assert (skill.file_inventory or {})["hasSkillMd"] is True
    assert any_registry.installed.versions("tidy") == before


def test_a_folder_called_current_becomes_a_version(any_registry: Registry, write: Any) -> None:
    shutil.copytree(write(), any_registry.root / "tidy" / "current")
    assert any_registry.backfill().added == (f"tidy@{any_registry.storage.versions.current('tidy')}",)
    assert (any_registry.root / "tidy" / "current").is_symlink()
    assert any_registry.installed.current("tidy").current
    assert any_registry.install(str(write(body="newer")), accept_source=True).results[0].status == "updated"


def test_an_uninstalled_skill_stays_uninstalled_and_a_broken_folder_is_reported(any_registry: Registry, write: Any) -> None:
    any_registry.install(str(write()))
    any_registry.uninstall("tidy")
    (any_registry.root / "broken" / "20260101-000000").mkdir(parents=True)
    filled = any_registry.backfill()
    assert any_registry.installed.skills() == ()
    assert len(filled.problems) == 1
    assert "broken" in filled.problems[0]
