"""Going back, giving up and cleaning up: rollback, deprecate, yank, uninstall, prune."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, insert

from skillyard import Catalog
from skillyard.catalog.skill import held_version
from skillyard.database import Database, agent_skills, agents
from skillyard.errors import DeleteRefused, SkillNotFound, VersionNotFound, VersionUnusable
from skillyard.registry import Registry


def _install(registry: Registry, write: Any, count: int) -> list[str]:
    versions = []
    for number in range(count):
        result = registry.install(str(write(body=f"body {number}", header=f"version: 1.{number}.0\n"))).results[0]
        versions.append(result.version or "")
    return versions


@pytest.mark.row("002-16", "C-6")
def test_a_rollback_serves_the_earlier_version_and_deprecates_the_later(any_registry: Registry, write: Any) -> None:
    first, second = _install(any_registry, write, 2)
    result = any_registry.rollback("tidy")
    assert (result.status, result.version, result.previous) == ("rolled back", first, second)
    assert any_registry.installed.current("tidy").version == first
    assert "body 0" in (any_registry.installed.skill("tidy").skill_md_content or "")
    newest = any_registry.installed.versions("tidy")[0]
    assert (newest.status, newest.deprecated_reason) == ("deprecated", f"rolled back to {first}")
    with pytest.raises(VersionUnusable, match="deprecated"):
        any_registry.rollback("tidy", second)
    assert any_registry.rollback("tidy", second, force=True).version == second
    assert any_registry.installed.current("tidy").status == "active"


def test_a_version_is_also_known_by_what_it_declares(registry: Registry, write: Any) -> None:
    first, *_ = _install(registry, write, 3)
    assert registry.rollback("tidy", "1.0.0").version == first
    with pytest.raises(VersionNotFound):
        registry.rollback("tidy", "9.9.9")
    with pytest.raises(VersionNotFound):
        registry.rollback("tidy")
    assert registry.installed.history("tidy")[0].error_code == "version_not_found"


@pytest.mark.row("D-34", "C-22")
def test_uninstalling_keeps_the_files_until_they_are_pruned(any_registry: Registry, write: Any) -> None:
    (version,) = _install(any_registry, write, 1)
    assert any_registry.uninstall("tidy").previous == version
    assert any_registry.installed.skills() == ()
    assert any_registry.storage.versions.names("tidy") == [version]
    with pytest.raises(SkillNotFound, match="no longer installed"):
        any_registry.installed.current("tidy")
    assert any_registry.rollback("tidy").version == version
    assert any_registry.uninstall("tidy", prune=True).pruned == (version,)
    assert not (any_registry.root / "tidy").exists()
    assert any_registry.installed.versions("tidy")[0].removed
    with pytest.raises(VersionUnusable, match="no longer on the disk"):
        any_registry.rollback("tidy", version)
    assert _install(any_registry, write, 1) != [version]


@pytest.mark.row("C-22")
def test_the_catalog_deletes_no_installed_skill(registry: Registry, write: Any, data: Path, tmp_path: Path) -> None:
    _install(registry, write, 1)
    catalog = Catalog.discover(environ={"SKILLYARD_HOME": str(data), "HOME": str(tmp_path)}, cwd=tmp_path, cache=False)
    with pytest.raises(DeleteRefused) as refused:
        catalog.delete("tidy")
    assert refused.value.hint == "`skillyard uninstall tidy`"


def test_only_the_newest_five_stay_and_never_less_than_the_current(any_registry: Registry, write: Any) -> None:
    versions = _install(any_registry, write, 7)
    assert any_registry.storage.versions.names("tidy") == versions[2:]
    any_registry.rollback("tidy", versions[2])
    assert any_registry.versions.prune("tidy", keep=1) == tuple(reversed(versions[3:6]))
    assert any_registry.storage.versions.names("tidy") == [versions[2], versions[6]]
    assert any_registry.installed.current("tidy").version == versions[2]


def test_a_version_in_use_stays_while_it_is_used(registry: Registry, write: Any, data: Path, tmp_path: Path) -> None:
    (first,) = _install(registry, write, 1)
    environ = {"SKILLYARD_HOME": str(data), "HOME": str(tmp_path)}
    skill = Catalog.discover(environ=environ, cwd=tmp_path, cache=False).get("tidy")
    with held_version(skill) as kept:
        assert kept.directory == str(registry.storage.versions.path("tidy", first))
        registry.install(str(write(body="newer")))
        assert "body 0" in kept.document().body
        assert "newer" in skill.document().body
        assert registry.versions.prune("tidy", keep=1) == ()
        assert kept.read_file("SKILL.md").data
    assert registry.versions.prune("tidy", keep=1) == (first,)


async def test_a_run_in_progress_keeps_its_version(registry: Registry, write: Any, data: Path, tmp_path: Path) -> None:
    import asyncio

    script = (
        "import sys, time, pathlib\ntime.sleep(0.6)\nprint(pathlib.Path(__file__).parent.joinpath('word.txt').read_text())\n"
    )
    header = "security:\n  timeout_ms: 20000\n"
    write(header=header, files={"scripts/execute.py": script, "scripts/word.txt": "old"})
    folder = write(header=header)
    registry.install(str(folder))
    environ = {"SKILLYARD_HOME": str(data), "HOME": str(tmp_path)}
    catalog = Catalog.discover(environ=environ, cwd=tmp_path, cache=False)
    running = asyncio.create_task(catalog.run("tidy", record=False))
    await asyncio.sleep(0.2)
    write(header=header, files={"scripts/word.txt": "new"})
    await asyncio.to_thread(registry.install, str(folder))
    run = await running
    assert run.error is None, run
    assert "old" in (run.stdout or "")
    catalog.refresh()
    again = await catalog.run("tidy", record=False)
    assert "new" in (again.stdout or "")


@pytest.mark.row("002-16")
def test_a_deprecated_version_serves_on_and_a_yanked_one_is_never_gone_back_to(any_registry: Registry, write: Any) -> None:
    first, second, third = _install(any_registry, write, 3)
    assert any_registry.versions.deprecate("tidy", reason="use neat").deprecated_reason == "use neat"
    assert any_registry.installed.current("tidy").version == third
    any_registry.versions.yank("tidy", second, reason="deletes files")
    with pytest.raises(VersionUnusable, match="yanked: deletes files"):
        any_registry.rollback("tidy", second, force=True)
    assert any_registry.rollback("tidy").version == first
    with pytest.raises(VersionUnusable, match="yanked"):
        any_registry.install(str(write(body="body 1", header="version: 1.1.0\n")))
    any_registry.versions.yank("tidy", second, undo=True)
    assert any_registry.install(str(write(body="body 1", header="version: 1.1.0\n"))).results[0].status == "updated"


def test_an_unknown_skill_is_met_with_near_names(registry: Registry, write: Any) -> None:
    _install(registry, write, 1)
    with pytest.raises(SkillNotFound) as unknown:
        registry.installed.skill("tidi")
    assert unknown.value.details["candidates"] == ["tidy"]
    assert registry.installed.skill("installed:tidy").skill_id == "tidy"


def test_whoever_looks_for_trouble_is_told_what_was_withdrawn(registry: Registry, write: Any) -> None:
    first, second = _install(registry, write, 2)
    registry.versions.deprecate("tidy", first)
    assert list(registry.installed.problems()) == []
    registry.versions.yank("tidy", reason="risk: deletes files")
    ((skill_id, sentence),) = registry.installed.problems()
    assert (skill_id, sentence.partition(": ")[0]) == ("tidy", f"its version {second} was yanked (risk, deletes files)")
    registry.versions.yank("tidy", undo=True)
    assert list(registry.installed.problems()) == []


@pytest.mark.row("002-16")
def test_a_version_that_an_agent_is_locked_to_stays_on_the_disk(
    any_registry: Registry, write: Any, data: Path, database_address: str
) -> None:
    first, second, *_ = _install(any_registry, write, 3)
    database = Database.open(str(data), database_address)
    now = datetime.now(UTC)
    with database.write() as connection:
        for agent, lock in (("one", first), ("two", "~1.1.0"), ("three", None), ("four", "no version: at all")):
            connection.execute(insert(agents).values(id=agent, name=agent, settings={}, created_at=now, updated_at=now))
            connection.execute(
                insert(agent_skills).values(agent_id=agent, skill_id="tidy", position=0, version_lock=lock, auto_update=False)
            )
    assert any_registry.versions.prune("tidy", keep=1) == ()
    with database.write() as connection:
        connection.execute(delete(agent_skills).where(agent_skills.c.agent_id == "one"))
    database.close()
    assert any_registry.versions.prune("tidy", keep=1) == (first,)
    assert second in any_registry.storage.versions.names("tidy")
