"""Two processes read what one would read."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from skillyard.catalog import SkillCatalog, summaries
from skillyard.offload import forked_map


@pytest.fixture
def many(skills_root: Path, make_skill: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Enough skills to share, some of them broken."""
    monkeypatch.setattr(forked_map, "WORTH_FORKING", 50)
    monkeypatch.setattr(forked_map, "_may_fork", lambda: True)
    for number in range(130):
        make_skill(skills_root, f"skill-{number:03}", **({"raw": b"---\nname: [\n---\n"} if number % 10 == 0 else {}))
    return skills_root


def listing(root: Path) -> str:
    return SkillCatalog.discover(roots=[root], cache=False).to_json()


def test_a_helper_reads_its_share_and_the_result_is_the_same(many: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = listing(many)
    monkeypatch.setattr(forked_map, "WORTH_FORKING", 10**9)
    assert listing(many) == shared
    assert shared.count('"status": "broken"') == 13


def test_a_helper_that_dies_costs_nothing_but_time(many: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = listing(many)
    parent, read = os.getpid(), summaries._summary

    def fatal(*arguments: Any) -> Any:
        if os.getpid() != parent:
            os.kill(os.getpid(), 9)
        return read(*arguments)

    monkeypatch.setattr(summaries, "_summary", fatal)
    assert listing(many) == expected


def test_a_helper_that_runs_out_of_memory_leaves_the_rest_to_its_parent(many: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = listing(many)
    monkeypatch.setattr(forked_map, "_ROOM", 30)
    assert listing(many) == expected


def test_a_machine_without_more_processes_reads_alone(many: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = listing(many)

    def refuse() -> int:
        raise OSError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", refuse)
    assert listing(many) == expected


def test_an_interrupt_ends_the_helper_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forked_map, "_may_fork", lambda: True)
    parent, children, fork = os.getpid(), [], os.fork
    monkeypatch.setattr(os, "fork", lambda: children.append(fork()) or children[-1])

    def interrupted(some: list[int]) -> list[int]:
        if os.getpid() != parent:
            threading.Event().wait()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        forked_map.forked_map(list(range(200)), interrupted, least=100)
    with pytest.raises(ChildProcessError):  # it is gone, and was waited for
        os.waitpid(children[0], os.WNOHANG)


def test_a_process_with_two_threads_is_not_forked() -> None:
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    try:
        assert forked_map._may_fork() is False
    finally:
        stop.set()
        thread.join()


ALONE = """
import gc, os, sys
from skillyard.catalog import SkillCatalog
from skillyard.offload import forked_map

forked_map.WORTH_FORKING, forked_map._may_fork = 50, lambda: True

def listing():
    assert SkillCatalog.discover(roots=[sys.argv[1]], cache=False).to_json().count('"id"') == 130
"""


def alone(root: Path, script: str) -> None:
    """Run a script in a process of its own: here other tests have left threads, servers and children that live on."""
    done = subprocess.run([sys.executable, "-c", f"{ALONE}{script}", str(root)], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_no_process_and_no_descriptor_is_left_behind(many: Path) -> None:
    alone(
        many,
        """
listing()  # what is imported on the way may stay open
before = sorted(os.listdir("/proc/self/fd"))
listing()
assert sorted(os.listdir("/proc/self/fd")) == before
try:
    print(os.waitpid(-1, os.WNOHANG))
    sys.exit("a child is left")
except ChildProcessError:
    pass
""",
    )


def test_the_garbage_collector_is_left_as_it_was(many: Path) -> None:
    alone(
        many,
        """
begun = gc.get_freeze_count()  # not 0 on Python 3.12
listing()
assert gc.isenabled()
assert gc.get_freeze_count() <= begun
gc.disable()
listing()
assert not gc.isenabled()
gc.enable()
gc.freeze()
frozen = gc.get_freeze_count()
listing()
assert gc.get_freeze_count() >= frozen - 1000
""",
    )
