"""Whatever instant a process is killed at: the old version serves, or the new one whole, and the next start tidies up."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from skillyard.packages import tree_digest
from skillyard.registry import Registry

KILLED = signal.SIGKILL
INSTALL = [
    *(f"step:{step}" for step in ("download", "checksum", "validate_structure", "consent", "save_db", "activate")),
    *(f"VersionStore.{method}:{when}" for method in ("place", "activate") for when in ("before", "after")),
    *(f"RegistryRecords.{method}:{when}" for method in ("save", "activate") for when in ("before", "after")),
    *(f"OperationLogs.begin:{when}" for when in ("before", "after")),
]
FIRST = ("step:download", "RegistryRecords.save:after", "VersionStore.place:after", "VersionStore.activate:after")
UNINSTALL = [
    "step:deactivate",
    "VersionStore.deactivate:before",
    "VersionStore.deactivate:after",
    "RegistryRecords.deactivate:before",
]
ROLLBACK = ["step:activate", "VersionStore.activate:before", "VersionStore.activate:after", "RegistryRecords.activate:before"]


def _whole(registry: Registry, skill_id: str, expected: set[str]) -> str | None:
    """The digest that serves, after looking that disk and records agree and nothing is left over."""
    versions = registry.storage.versions
    skill = registry.installed.skill(skill_id, installed=False)
    current = versions.current(skill_id)
    assert skill.current_version == current
    assert skill.active == (current is not None)
    assert [path.name for path in registry.storage.operations.folder.iterdir()] == ["gate"]
    recorded = {version.version: version for version in registry.installed.versions(skill_id)}
    for name in versions.names(skill_id):
        digest = tree_digest(versions.path(skill_id, name))
        assert digest == recorded[name].digest
        assert digest in expected
    assert not [log for log in registry.installed.history() if log.status in ("pending", "in_progress")]
    return tree_digest(versions.path(skill_id, current)) if current else None


def _reopened(data: Path, url: str | None = None) -> Registry:
    registry = Registry(str(data), url)
    assert registry.installed.skills() is not None  # the first use puts things in order
    return registry


@pytest.mark.row("D-7")
@pytest.mark.parametrize("place", INSTALL)
@pytest.mark.abuse("F18")
def test_an_update_that_is_killed_leaves_a_whole_version(
    place: str, data: Path, registry: Registry, write: Any, processes: Any
) -> None:
    source = write(body="old")
    old = registry.install(str(source)).results[0].digest
    write(body="new")
    new = tree_digest(source)
    order = {"do": "install", "data": str(data), "url": None, "sources": [str(source)], "deadly_at": place}
    (status,) = processes.run(order)
    assert os.WTERMSIG(status) == KILLED
    serving = tree_digest(registry.storage.versions.path("tidy", registry.storage.versions.current("tidy") or ""))
    assert serving in (old, new)
    again = _reopened(data)
    assert _whole(again, "tidy", {str(old), new}) == serving
    assert again.install(str(source)).results[0].digest == new
    assert _whole(again, "tidy", {str(old), new}) == new
    again.close()


@pytest.mark.parametrize(
    "place", [place if place in FIRST else pytest.param(place, marks=pytest.mark.long) for place in INSTALL]
)
def test_a_first_install_that_is_killed_installs_all_or_nothing(place: str, data: Path, write: Any, processes: Any) -> None:
    source = write()
    order = {"do": "install", "data": str(data), "url": None, "sources": [str(source)], "deadly_at": place}
    (status,) = processes.run(order)
    assert os.WTERMSIG(status) == KILLED
    registry = _reopened(data)
    installed = [skill.skill_id for skill in registry.installed.skills()]
    on_disk = registry.storage.versions.current("tidy")
    assert installed == (["tidy"] if on_disk else [])
    assert bool(registry.storage.versions.names("tidy")) == bool(on_disk)
    registry.install(str(source))
    assert _whole(registry, "tidy", {tree_digest(source)}) == tree_digest(source)
    registry.close()


@pytest.mark.parametrize(("do", "place"), [("uninstall", p) for p in UNINSTALL] + [("rollback", p) for p in ROLLBACK])
def test_a_rollback_or_an_uninstallation_that_is_killed_is_done_or_not(
    do: str, place: str, data: Path, registry: Registry, write: Any, processes: Any
) -> None:
    source = write(body="old")
    old = registry.install(str(source)).results[0].digest
    write(body="new")
    new = registry.install(str(source)).results[0].digest
    (status,) = processes.run({"do": do, "data": str(data), "url": None, "skill": "tidy", "deadly_at": place})
    assert os.WTERMSIG(status) == KILLED
    again = _reopened(data)
    serving = _whole(again, "tidy", {str(old), str(new)})
    assert serving in {"uninstall": (new, None), "rollback": (new, old)}[do]
    log = again.installed.history("tidy")[0]
    assert log.operation == do
    assert log.status == ("failed" if serving == new else "success")
    again.close()


def test_a_process_killed_while_it_deletes_leaves_nothing_behind(
    data: Path, registry: Registry, write: Any, processes: Any
) -> None:
    registry.install(str(write()))
    order = {
        "do": "uninstall",
        "data": str(data),
        "url": None,
        "skill": "tidy",
        "prune": True,
        "deadly_at": "VersionStore.remove:after",
    }
    (status,) = processes.run(order)
    assert os.WTERMSIG(status) == KILLED
    again = _reopened(data)
    assert again.storage.versions.names("tidy") == []
    assert _whole(again, "tidy", set()) is None
    assert again.installed.versions("tidy")[0].removed
    again.close()


@pytest.mark.parametrize("kills", [6, pytest.param(60, marks=pytest.mark.long)])
def test_killed_at_random_instants_nothing_is_ever_half(
    kills: int, data: Path, database_address: str, write: Any, processes: Any
) -> None:
    chance = random.Random(8)
    files = {f"references/{number}.md": "x" * 3000 for number in range(40)}
    source = write(body="0", files=files)
    registry = Registry(str(data), database_address)
    registry.install(str(source))
    registry.close()
    digests = {tree_digest(source)}
    order = {"do": "install", "data": str(data), "url": database_address, "sources": [str(source)]}
    began = time.monotonic()
    assert processes.run(order | {"force": True}) == [0]
    usual = time.monotonic() - began
    for number in range(1, kills + 1):
        write(body=str(number), files=files)
        digests.add(tree_digest(source))
        (child,) = processes.start([order])
        time.sleep(chance.random() * usual * 1.1)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        (status,) = processes.wait()
        assert status in (0, KILLED)
        if number % 3 == 0:
            registry = _reopened(data, database_address)
            assert _whole(registry, "tidy", digests) is not None
            registry.close()
    registry = _reopened(data, database_address)
    assert registry.install(str(source)).results[0].digest == tree_digest(source)
    assert _whole(registry, "tidy", digests) == tree_digest(source)
    assert len(registry.storage.versions.names("tidy")) <= 5
    registry.close()


def test_what_a_killed_installation_did_not_prune_is_pruned_by_the_next_one(
    data: Path, registry: Registry, write: Any, processes: Any
) -> None:
    for number in range(5):
        source = write(body=str(number))
        registry.install(str(source))
    source = write(body="last")
    order = {
        "do": "install",
        "data": str(data),
        "url": None,
        "sources": [str(source)],
        "deadly_at": "VersionStore.activate:after",
    }
    (status,) = processes.run(order)
    assert os.WTERMSIG(status) == KILLED
    again = _reopened(data)
    assert len(again.storage.versions.names("tidy")) == 6
    (result,) = again.install(str(source)).results
    assert (result.status, len(result.pruned)) == ("unchanged", 1)
    assert len(again.storage.versions.names("tidy")) == 5
    again.close()
