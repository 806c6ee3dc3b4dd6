"""Watches the processes of a container from its first program: what the control group counted, and what it does not count.

This file stands beside `container_init.py` in the container and works on every Python from 3.9.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any

    from skillyard.sandbox import processes
else:  # the file beside this one, where it runs
    import processes

_NETWORK = "/proc/self/net"  # of the whole container
_UNLIMITED = 1 << 60
_SPARE_PROCESSES = 8  # a look finds processes that have just ended
# The files of the control group that a container sees as its own: version 2, then version 1.
_MEMORY = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
_PIDS = ("/sys/fs/cgroup/pids.max", "/sys/fs/cgroup/pids/pids.max")
_KILLED = ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control")
_REFUSED = ("/sys/fs/cgroup/pids.events", "/sys/fs/cgroup/pids/pids.events")
_PEAK = ("/sys/fs/cgroup/memory.peak", "/sys/fs/cgroup/memory/memory.max_usage_in_bytes")


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _number(paths: Collection[str]) -> int | None:
    for path in paths:
        text = _read(path).strip()
        if text.isdigit():
            return int(text)
    return None


def _event(paths: Collection[str], key: str) -> int:
    for path in paths:
        for line in _read(path).splitlines():
            name, _, number = line.partition(" ")
            if name == key and number.isdigit():
                return int(number)
    return 0


def counted_limits() -> dict[str, Any]:
    """What the control group of this container allows: bytes of memory and processes, None for no limit, and its version."""
    memory, pids = _number(_MEMORY), _number(_PIDS)
    return {
        "memory": memory if memory is not None and memory < _UNLIMITED else None,
        "pids": pids,
        "version": 2 if os.path.exists("/sys/fs/cgroup/cgroup.controllers") else 1,
    }


def end_processes(asked: dict[str, Any], ours: set[int]) -> int:
    """Kill what was started since a moment, or in the last `age` seconds, and is not below one of `keep`; how many."""
    since = time.clock_gettime(time.CLOCK_BOOTTIME) - asked["age"] if "age" in asked else asked["since"]
    begun = int(since * os.sysconf("SC_CLK_TCK"))
    kept = {pid for number in asked["keep"] for pid in (number, *processes.descendants(number))} | ours
    victims = [pid for pid in processes.descendants(os.getpid()) if pid not in kept and processes.started_at(pid) >= begun]
    for pid in victims:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    return len(victims)


class ContainerWatch:
    """Says when a job has more than it may; `job` has the numbers, 0 for what something else counts."""

    def __init__(self, job: dict[str, Any]) -> None:
        self._memory = job["watch_memory"]
        self._pids = job["watch_pids"]
        self._files = job["watch_files"]
        self._deleted = job["watch_deleted"]
        self._killed = _event(_KILLED, "oom_kill")
        self._every = job["tick_ms"] / 1000 * 0.9
        self._turns = 0
        self._reported = ""
        self._next = 0.0

    def counted(self) -> dict[str, Any]:
        """What the control group counted in the end."""
        return {
            "out_of_memory": _event(_KILLED, "oom_kill") > self._killed,
            "out_of_processes": _event(_REFUSED, "max") > 0,
            "memory_peak": _number(_PEAK),
        }

    def exceeded(self) -> str:
        """`memory`, `pids` or `output_limit` when it is over one, once; empty otherwise."""
        now = time.monotonic()
        if self._reported or now < self._next:
            return ""
        self._next = now + self._every
        self._reported = self._look()
        return self._reported

    def _look(self) -> str:
        if _event(_KILLED, "oom_kill") > self._killed:
            return "memory"
        self._turns += 1
        pids = processes.descendants(os.getpid()) if self._memory or self._deleted else []
        if self._pids and len(pids) > self._pids + _SPARE_PROCESSES:
            return "pids"
        if self._memory and self._too_much_memory(pids):
            return "memory"
        if self._files and any(_files_in(folder) > self._files for folder in ("/tmp", "/dev/shm", "/workspace")):  # noqa: S108
            return "output_limit"
        if self._deleted and self._turns % 4 == 0 and processes.deleted_bytes(pids, "/workspace") > self._deleted:
            return "output_limit"
        return ""

    def _too_much_memory(self, pids: list[int]) -> bool:
        left: int = self._memory - processes.kernel_memory_bytes(pids, _NETWORK)
        return left < 0 or processes.memory_in_use(pids, enough=left) > left


def _files_in(folder: str) -> int:
    """How many files a file system in memory holds; 0 for any other, which has no such number of its own."""
    try:
        if os.stat(folder).st_dev == os.stat("/").st_dev:
            return 0
        counts = os.statvfs(folder)
    except OSError:
        return 0
    return counts.f_files - counts.f_ffree if _is_in_memory(folder) else 0


def _is_in_memory(folder: str) -> bool:
    return any(line.split(" ")[1:3] == [folder, "tmpfs"] for line in _read("/proc/mounts").splitlines())
