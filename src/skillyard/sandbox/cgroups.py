"""Control groups: the exact way to bound the memory and the number of processes of a whole run.

Both kinds are used, whichever this process may write to: version 2 below a delegated folder, version 1 below the process's own
memory and pids groups. Under version 1 a child is started inside its group, so that it never has to be moved. Where neither can
be written, process limits and a watchdog take over.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final

from skillyard.sandbox.processes import OrphanSweeper, descendants

_PREFIX: Final = "skillyard-"
SWEEPER: Final = OrphanSweeper(_PREFIX)
_COUNTER = itertools.count()


@dataclass(frozen=True, slots=True)
class CgroupParents:
    """The folders below which groups can be made: one for both (version 2) or one for each (version 1).

    `in_own_group` says that they are the very groups of this process, so that a thread which leaves them can return.
    """

    version: int
    memory: str
    pids: str
    in_own_group: bool = False


@dataclass(slots=True)
class Cgroup:
    """The group of one run; `remove()` it when all processes have ended. `in_own_group` as in `CgroupParents`."""

    version: int
    folders: tuple[str, ...] = field(default=())
    in_own_group: bool = False

    @property
    def name(self) -> str:
        """How reports call it."""
        return f"cgroup{self.version}"

    def add(self, pid: int) -> bool:
        """Move a process in, its later children follow; `False` when the kernel will not. One that has ended is ignored."""
        try:
            for folder in self.folders:
                write_control(f"{folder}/cgroup.procs", str(pid))
        except ProcessLookupError:
            return True
        except OSError:
            return False
        return True

    def watch_memory(self) -> int | None:
        """A descriptor that can be read when the memory runs out; `None` where the kernel ends the whole group by itself."""
        if self.version == 2:
            return None
        with contextlib.suppress(OSError):
            event = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
            control = os.open(f"{self.folders[0]}/memory.oom_control", os.O_RDONLY | os.O_CLOEXEC)
            try:
                write_control(f"{self.folders[0]}/cgroup.event_control", f"{event} {control}")
            except OSError:
                os.close(event)
                raise
            finally:
                os.close(control)
            return event
        return None

    def out_of_memory(self) -> bool:
        """Whether the kernel killed something in the group for its memory."""
        file = "memory.events" if self.version == 2 else "memory.oom_control"
        return _counted(f"{self.folders[0]}/{file}", "oom_kill") > 0

    def memory_peak(self) -> int | None:
        """The most bytes that were counted at once; `None` where the kernel does not keep it (version 2 before Linux 5.19)."""
        file = "memory.peak" if self.version == 2 else "memory.max_usage_in_bytes"
        with contextlib.suppress(OSError, ValueError):
            return int(Path(f"{self.folders[0]}/{file}").read_text(encoding="ascii"))
        return None

    def out_of_processes(self) -> bool:
        """Whether a fork or a thread was refused."""
        return _counted(f"{self.folders[-1]}/pids.events", "max") > 0

    def kill(self) -> None:
        """Send SIGKILL to every process in the group."""
        if self.version == 2:
            with contextlib.suppress(OSError):
                write_control(f"{self.folders[0]}/cgroup.kill", "1")
                return
        for pid in _members(self.folders[0]):
            if pid != os.getpid():  # a thread of ours may be inside for a moment
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)

    def remove(self) -> bool:
        """Delete the group; `False` while a process is still dying in it."""
        self.folders = tuple(folder for folder in self.folders if not _remove(folder))
        return not self.folders


def make_cgroup(*, memory_bytes: int, pids: int) -> Cgroup | None:
    """A group for one run, or `None` where none can be made."""
    parents = find_parents()
    if parents:
        for folder in {parents.memory, parents.pids}:
            SWEEPER.sweep(folder, _remove)
    return _make(parents, memory_bytes=memory_bytes, pids=pids) if parents else None


def _make(parents: CgroupParents, *, memory_bytes: int, pids: int) -> Cgroup | None:
    name = f"{_PREFIX}{os.getpid()}-{next(_COUNTER)}-{os.urandom(3).hex()}"
    folders = tuple(dict.fromkeys((f"{parents.memory}/{name}", f"{parents.pids}/{name}")))
    group = Cgroup(parents.version, folders, parents.in_own_group)
    try:
        for folder in group.folders:
            os.mkdir(folder)
        _limit(group, memory_bytes, pids)
    except OSError:
        group.remove()
        return None
    return group


def _limit(group: Cgroup, memory_bytes: int, pids: int) -> None:
    memory, processes = group.folders[0], group.folders[-1]
    write_control(f"{processes}/pids.max", str(pids))
    if group.version == 2:
        write_control(f"{memory}/memory.max", str(memory_bytes))
        _write_if_present(f"{memory}/memory.swap.max", "0")
        _write_if_present(f"{memory}/memory.oom.group", "1")
    else:
        write_control(f"{memory}/memory.limit_in_bytes", str(memory_bytes))
        _write_if_present(f"{memory}/memory.memsw.limit_in_bytes", str(memory_bytes))


@cache
def find_parents() -> CgroupParents | None:
    """Where groups can be made, determined once by making one."""
    mounts = _mounts()
    own = own_groups()
    for parents in (_version_two(mounts, own), _version_one(mounts, own)):
        if parents and _works(parents):
            return parents
    return None


def _works(parents: CgroupParents) -> bool:
    group = _make(parents, memory_bytes=1 << 28, pids=64)
    return group is not None and group.remove()


def _version_two(mounts: dict[str, str], own: dict[str, str]) -> CgroupParents | None:
    """The process's own group or the one above it: only a group that hands its controllers down can hold runs."""
    if "cgroup2" not in mounts:
        return None
    here = Path(mounts["cgroup2"] + own.get("", "/"))
    for folder in (here, here.parent):
        with contextlib.suppress(OSError):
            handed_down = (folder / "cgroup.subtree_control").read_text(encoding="ascii").split()
            if {"memory", "pids"} <= set(handed_down):
                return CgroupParents(2, str(folder), str(folder))
    return None


def _version_one(mounts: dict[str, str], own: dict[str, str]) -> CgroupParents | None:
    if not {"memory", "pids"} <= set(mounts):
        return None
    own_folders = [mounts[controller] + own.get(controller, "/").rstrip("/") for controller in ("memory", "pids")]
    visible = [Path(folder).is_dir() for folder in own_folders]  # a container shows only its own part
    memory, pids = (
        folder if seen else mounts[controller]
        for folder, seen, controller in zip(own_folders, visible, ("memory", "pids"), strict=True)
    )
    return CgroupParents(1, memory, pids, in_own_group=all(visible))


def _mounts() -> dict[str, str]:
    """Mount points by controller; `cgroup2` for the second version's."""
    mount_points: dict[str, str] = {}
    with contextlib.suppress(OSError):
        for line in Path("/proc/mounts").read_text(encoding="utf-8", errors="surrogateescape").splitlines():
            _, mount_point, kind, options, *_ = line.split(" ")
            if kind == "cgroup2":
                mount_points.setdefault("cgroup2", mount_point)
            elif kind == "cgroup":
                for controller in {"memory", "pids"} & set(options.split(",")):
                    mount_points.setdefault(controller, mount_point)
    return mount_points


def own_groups() -> dict[str, str]:
    """This thread's group by controller; the second version's controller is empty text."""
    groups: dict[str, str] = {}
    with contextlib.suppress(OSError):
        for line in Path("/proc/thread-self/cgroup").read_text(encoding="utf-8", errors="surrogateescape").splitlines():
            _, controllers, path = line.split(":", 2)
            for controller in controllers.split(","):
                groups[controller] = path
    return groups


def _members(folder: str) -> list[int]:
    with contextlib.suppress(OSError):
        return [int(pid) for pid in Path(folder, "cgroup.procs").read_text(encoding="ascii").split()]
    return []


def _counted(path: str, key: str) -> int:
    with contextlib.suppress(OSError):
        for line in Path(path).read_text(encoding="ascii").splitlines():
            name, _, number = line.partition(" ")
            if name == key:
                return int(number)
    return 0


def write_control(path: str, text: str) -> None:
    """Write one value to a file of a group."""
    file = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(file, text.encode())
    finally:
        os.close(file)


def _write_if_present(path: str, text: str) -> None:
    with contextlib.suppress(OSError):
        write_control(path, text)


def _remove(folder: str) -> bool:
    try:
        os.rmdir(folder)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def move_tree(cgroup: Cgroup, pid: int) -> bool:
    """Move a process and all below it; whether nothing is left outside.

    A child that was forked before its parent was moved is seen by the next look, one that was forked after is inside already;
    so a look that finds nobody new is the proof.
    """
    moved: set[int] = set()
    while fresh := [other for other in (pid, *descendants(pid)) if other not in moved]:
        for other in fresh:
            if not cgroup.add(other):
                return False
        moved.update(fresh)
    return True


def remove_empty(cgroup: Cgroup) -> None:
    """Remove a group as soon as its last process has ended, ending whatever is still in it."""
    for attempt in range(60):
        if cgroup.remove():
            return
        cgroup.kill()
        time.sleep(min(0.0005 * 2**attempt, 0.05))


@contextlib.contextmanager
def started_in_cgroup(cgroup: Cgroup | None) -> Iterator[bool]:
    """Say whether what this thread starts meanwhile begins in `cgroup`; `False` where it has to be moved, or there is none.

    Raises:
        OSError: the thread cannot return to where it was.
    """
    if cgroup is None or not cgroup.in_own_group or not _is_home(cgroup):
        yield False
        return
    homes = [os.path.dirname(folder) for folder in cgroup.folders]
    try:
        yield all(_enter(folder) for folder in cgroup.folders)
    finally:
        for home in homes:
            write_control(f"{home}/tasks", "0")


def _is_home(cgroup: Cgroup) -> bool:
    """Whether this thread still is where the group was made; someone may have moved the process since."""
    own = own_groups()
    controllers = ("memory", "pids")[: len(cgroup.folders)]
    return all(
        os.path.dirname(folder).endswith(own.get(controller, "?").rstrip("/"))
        for folder, controller in zip(cgroup.folders, controllers, strict=True)
    )


def _enter(folder: str) -> bool:
    """Move the thread that calls; nobody else, so the kernel need not stop anyone."""
    try:
        write_control(f"{folder}/tasks", "0")
    except OSError:
        return False
    return True
