"""Many processes install at once, the same skills and others: no error, no lost update, no lost log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from skillyard.packages import tree_digest
from skillyard.registry import Registry

PROCESSES = 8


@pytest.mark.row("D-34")
def test_eight_processes_install_the_same_and_other_skills_at_once(
    data: Path, database_address: str, write: Any, processes: Any
) -> None:
    shared = write("shared", body="the same for all")
    own = [write(f"own-{number}") for number in range(PROCESSES)]
    orders = [
        {"do": "install", "data": str(data), "url": database_address, "sources": [str(shared), str(folder), str(shared)]}
        for folder in own
    ]
    assert processes.run(*orders) == [0] * PROCESSES
    registry = Registry(str(data), database_address)
    assert [skill.skill_id for skill in registry.installed.skills()] == [
        *(f"own-{number}" for number in range(PROCESSES)),
        "shared",
    ]
    logs = registry.installed.history(limit=1000)
    assert len(logs) == 3 * PROCESSES
    assert {log.status for log in logs} == {"success"}
    assert len(registry.installed.versions("shared")) == 1
    registry.close()


@pytest.mark.row("D-34")
@pytest.mark.abuse("F18")
def test_eight_processes_that_change_one_skill_take_turns(
    data: Path, database_address: str, write: Any, tmp_path: Path, processes: Any
) -> None:
    sources = []
    for number in range(PROCESSES):
        folder = write("tidy", body=f"by {number}").rename(tmp_path / f"source-{number}")
        sources.append(folder)
    orders = [{"do": "install", "data": str(data), "url": database_address, "sources": [str(folder)]} for folder in sources]
    assert processes.run(*orders) == [0] * PROCESSES
    registry = Registry(str(data), database_address)
    logs = registry.installed.history("tidy", limit=1000)
    assert len(logs) == PROCESSES
    assert {log.status for log in logs} == {"success"}
    assert sorted(log.operation for log in logs) == ["install", *["update"] * (PROCESSES - 1)]
    assert len({log.version for log in logs}) == PROCESSES
    known = registry.installed.versions("tidy")
    assert {version.digest for version in known} == {tree_digest(folder) for folder in sources}
    assert len(registry.storage.versions.names("tidy")) == 5
    assert registry.installed.current("tidy").version == registry.storage.versions.current("tidy")
    registry.close()
