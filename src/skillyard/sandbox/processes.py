"""What `/proc` says about a run's processes: who belongs to it, and how much memory and disk they hold together."""

from __future__ import annotations

import contextlib
import mmap
import os
import stat
from collections.abc import Iterator
from pathlib import Path

__all__ = ["deleted_bytes", "descendants", "files_in", "memory_in_use", "threads_of_user"]


def descendants(pid: int) -> list[int]:
    """Every living process below `pid`, parents before children, without `pid` itself."""
    found: list[int] = []
    waiting = [pid]
    while waiting:
        children = _children(waiting.pop())
        found += children
        waiting += children
    return found


def _children(pid: int) -> list[int]:
    children: list[int] = []
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            text = Path(f"/proc/{pid}/task/{task}/children").read_text(encoding="ascii")
            children += [int(number) for number in text.split()]
    return children


def memory_in_use(pids: list[int], *, enough: int) -> int:
    """The bytes of memory these processes hold together.

    Pages shared between them are counted once, which is slow to find out; so it is only done when the quick sum, which counts
    them for each process, is over `enough`.
    """
    total = sum(_resident(pid) for pid in pids)
    return total if total <= enough else sum(_proportional(pid) for pid in pids)


def _resident(pid: int) -> int:
    with contextlib.suppress(OSError, IndexError):
        return int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) * mmap.PAGESIZE
    return 0


def _proportional(pid: int) -> int:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    return _resident(pid)


def threads_of_user(uid: int) -> int:
    """How many threads all processes of a user have together."""
    total = 0
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):
                if os.stat(f"/proc/{name}").st_uid == uid:
                    total += len(os.listdir(f"/proc/{name}/task"))
    return total


def deleted_bytes(pids: list[int], folder: str, *, seen_as: str = "") -> int:
    """The bytes of files below `folder` that are deleted and live on, because these processes have them open or mapped.

    `seen_as` is the name that the folder has for the processes, when that is another.
    """
    sizes: dict[int, int] = {}
    for pid in pids:
        sizes.update(_mapped_and_deleted(pid, seen_as or folder))
    for pid in pids:
        sizes.update(_open_and_deleted(pid, os.stat(folder).st_dev))
    return sum(sizes.values())


def _open_and_deleted(pid: int, device: int) -> Iterator[tuple[int, int]]:
    """Inode and size on the disk of deleted files that a process has open."""
    with contextlib.suppress(OSError):
        for name in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                state = os.stat(f"/proc/{pid}/fd/{name}")
                if state.st_nlink == 0 and stat.S_ISREG(state.st_mode) and state.st_dev == device:
                    yield state.st_ino, state.st_blocks * 512


def _mapped_and_deleted(pid: int, folder: str) -> Iterator[tuple[int, int]]:
    """Inode and mapped length of deleted files below `folder` that are part of a process's memory."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/maps").read_bytes().splitlines():
            if line.endswith(b" (deleted)") and os.fsencode(folder) in line:
                span, _, offset, _, inode, _ = line.split(None, 5)
                end = int(span.partition(b"-")[2], 16) - int(span.partition(b"-")[0], 16) + int(offset, 16)
                yield int(inode), end


def files_in(pid: int, folder: str) -> int:
    """How many files the file system at `folder` holds, as a process with a root of its own sees it."""
    root = f"/proc/{pid}/root"
    with contextlib.suppress(OSError):
        if os.stat(root).st_dev != os.stat("/").st_dev:
            counts = os.statvfs(root + folder)
            return counts.f_files - counts.f_ffree
    return 0
