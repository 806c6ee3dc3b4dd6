"""Control groups of both versions, on folders that look like the kernel's."""

from __future__ import annotations

from pathlib import Path

import pytest

from skillyard.sandbox import cgroups


@pytest.fixture
def hierarchy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A delegated version 2 hierarchy whose parent hands memory and pids down."""
    (tmp_path / "app/own").mkdir(parents=True)
    (tmp_path / "app/cgroup.subtree_control").write_text("cpu memory pids", encoding="ascii")
    (tmp_path / "app/own/cgroup.subtree_control").write_text("", encoding="ascii")
    monkeypatch.setattr(cgroups, "_mounts", lambda: {"cgroup2": str(tmp_path)})
    monkeypatch.setattr(cgroups, "own_groups", lambda: {"": "/app/own"})
    return tmp_path


def test_the_second_version_is_used_below_the_group_that_hands_its_controllers_down(hierarchy: Path) -> None:
    parents = cgroups._version_two(cgroups._mounts(), cgroups.own_groups())
    assert parents == cgroups.CgroupParents(2, str(hierarchy / "app"), str(hierarchy / "app"))


def test_without_controllers_handed_down_there_is_no_second_version(hierarchy: Path) -> None:
    (hierarchy / "app/cgroup.subtree_control").write_text("cpu", encoding="ascii")
    assert cgroups._version_two(cgroups._mounts(), cgroups.own_groups()) is None
    assert cgroups._version_two({}, {}) is None


def test_the_first_version_needs_both_controllers(tmp_path: Path) -> None:
    (tmp_path / "memory/mine").mkdir(parents=True)
    mounts = {"memory": str(tmp_path / "memory"), "pids": str(tmp_path / "pids")}
    found = cgroups._version_one(mounts, {"memory": "/mine", "pids": "/not/visible/here"})
    assert found == cgroups.CgroupParents(1, str(tmp_path / "memory/mine"), str(tmp_path / "pids"))
    assert cgroups._version_one({"memory": "x"}, {}) is None


def test_counters_of_both_versions_are_read(tmp_path: Path) -> None:
    (tmp_path / "memory.events").write_text("low 0\nmax 3\noom 1\noom_kill 1\n", encoding="ascii")
    (tmp_path / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 0\n", encoding="ascii")
    (tmp_path / "pids.events").write_text("max 2\n", encoding="ascii")
    second, first = cgroups.Cgroup(2, (str(tmp_path),)), cgroups.Cgroup(1, (str(tmp_path),))
    assert second.out_of_memory()
    assert not first.out_of_memory()
    assert second.out_of_processes()
    assert second.watch_memory() is None
    assert not cgroups.Cgroup(2, (str(tmp_path / "absent"),)).out_of_processes()


def test_a_group_that_cannot_be_made_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(
        cgroups, "find_parents", lambda: cgroups.CgroupParents(2, str(tmp_path / "absent"), str(tmp_path / "absent"))
    )
    assert cgroups.make_cgroup(memory_bytes=1 << 26, pids=10) is None
    monkeypatch.setattr(cgroups, "find_parents", lambda: None)
    assert cgroups.make_cgroup(memory_bytes=1 << 26, pids=10) is None


def test_no_group_of_this_process_is_left_behind() -> None:
    group = cgroups.make_cgroup(memory_bytes=1 << 26, pids=10)
    if group is not None:  # machines where groups can be made
        folders = group.folders
        assert all(Path(folder).is_dir() for folder in folders)
        assert group.remove()
        assert not any(Path(folder).exists() for folder in folders)
