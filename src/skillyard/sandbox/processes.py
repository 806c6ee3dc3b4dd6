"""What `/proc` says about a run's processes: who belongs to it, and how much memory they hold together."""

from __future__ import annotations

import contextlib
import mmap
import os
from pathlib import Path

__all__ = ["descendants", "memory_in_use", "threads_of_user"]


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
