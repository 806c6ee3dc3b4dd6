"""Processes that begin inside their control group, and the thread that starts them, which comes back."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from skillyard.sandbox import cgroups
from skillyard.sandbox.cgroups import Cgroup, make_cgroup, remove_empty, started_in_cgroup


@pytest.fixture
def group() -> Iterator[Cgroup | None]:
    """A real group, where this machine has some."""
    made = make_cgroup(memory_bytes=1 << 26, pids=10)
    yield made
    if made:
        remove_empty(made)


@pytest.fixture
def drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cgroup:
    """A group of the first version that is only drawn, below the group `/own` of this thread."""
    folders = [tmp_path / name / "own/skillyard-x" for name in ("memory", "pids")]
    for folder in folders:
        folder.mkdir(parents=True)
        for place in (folder, folder.parent):
            (place / "tasks").write_text("", encoding="ascii")
    monkeypatch.setattr(cgroups, "own_groups", lambda: {"memory": "/own", "pids": "/own"})
    return Cgroup(1, tuple(map(str, folders)), in_own_group=True)


def entered(group: Cgroup) -> list[str]:
    """What was written to the groups, and to those above them."""
    return [Path(place, "tasks").read_text("ascii") for folder in group.folders for place in (folder, Path(folder).parent)]


def test_what_is_started_begins_in_the_group_and_its_parent_is_where_it_was(group: Cgroup | None) -> None:
    before = cgroups.own_groups()
    with started_in_cgroup(group) as inside, subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE) as child:
        if group is not None:
            there = Path(f"/proc/{child.pid}/cgroup").read_text("utf-8")
            assert inside == (os.path.basename(group.folders[0]) in there)
    assert inside == (group is not None and group.in_own_group)
    assert cgroups.own_groups() == before


def test_a_thread_goes_in_and_comes_back_also_after_an_error(drawn: Cgroup) -> None:
    def fail() -> None:
        with started_in_cgroup(drawn) as inside:
            assert inside
            assert entered(drawn) == ["0", "", "0", ""]
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert entered(drawn) == ["0", "0", "0", "0"]


def test_nobody_goes_in_who_could_not_come_back(drawn: Cgroup, monkeypatch: pytest.MonkeyPatch) -> None:
    for group in (None, Cgroup(1, drawn.folders), Cgroup(2, drawn.folders[:1])):
        with started_in_cgroup(group) as inside:
            assert not inside
    monkeypatch.setattr(cgroups, "own_groups", lambda: {"memory": "/own", "pids": "/moved/since"})
    with started_in_cgroup(drawn) as inside:
        assert not inside
    assert entered(drawn) == ["", "", "", ""]


def test_a_group_that_takes_no_thread_is_entered_in_no_part(drawn: Cgroup) -> None:
    Path(drawn.folders[1], "tasks").unlink()
    with started_in_cgroup(drawn) as inside:
        assert not inside
    assert entered(Cgroup(1, drawn.folders[:1])) == ["0", "0"]


def test_ending_a_group_never_ends_the_one_who_asks(drawn: Cgroup) -> None:
    Path(drawn.folders[0], "cgroup.procs").write_text(f"{os.getpid()}\n", encoding="ascii")
    drawn.kill()


def test_a_group_made_below_ones_own_is_at_home(tmp_path: Path) -> None:
    for controller in ("memory", "pids"):
        (tmp_path / controller / "mine").mkdir(parents=True)
    mounts = {name: str(tmp_path / name) for name in ("memory", "pids")}
    found = cgroups._version_one(mounts, {"memory": "/mine", "pids": "/mine"})
    assert found == cgroups.CgroupParents(1, str(tmp_path / "memory/mine"), str(tmp_path / "pids/mine"), in_own_group=True)
