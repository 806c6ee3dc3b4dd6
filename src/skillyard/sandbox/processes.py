"""What `/proc` says about the processes of a run: who belongs to it, what memory and disk they hold, what dead ones left.

Memory that the kernel holds for a run and that is part of no process is estimated: page tables, queues of sockets and pipes.
This file stands alone, because it is also looked from inside a container, by the Python that is there (from 3.9).
"""

from __future__ import annotations

import contextlib
import mmap
import os
import re
import stat
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Final


def descendants(pid: int) -> list[int]:
    """Every living process below `pid`, parents before children, without `pid` itself."""
    pids: list[int] = []
    waiting = [pid]
    while waiting:
        children = _children(waiting.pop())
        pids += children
        waiting += children
    return pids


def _children(pid: int) -> list[int]:
    children: list[int] = []
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            text = Path(f"/proc/{pid}/task/{task}/children").read_text(encoding="ascii")
            children += [int(number) for number in text.split()]
    return children


def namespace_number(pid: int) -> int:
    """The number that a process has for those of its own process namespace; 0 when it has ended."""
    with contextlib.suppress(OSError, ValueError):
        _, name, rest = Path(f"/proc/{pid}/status").read_bytes().partition(b"\nNSpid:")
        return int(rest.partition(b"\n")[0].split()[-1]) if name else pid
    return 0


def is_running(pid: int) -> bool:
    """Whether there is a process of that number."""
    if sys.platform == "linux":
        return os.path.exists(f"/proc/{pid}")
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def started_at(pid: int) -> int:
    """When a process was started, in ticks since the machine was; 0 when it has ended."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[19])
    return 0


def memory_in_use(pids: list[int], *, enough: int) -> int:
    """The bytes of memory these processes hold together; and what dead processes left behind.

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


UNCHARGED: Final = 16 * 1024 * 1024
"""Bytes of queues that are free: ordinary programs have a few, and nearly nothing waits in them."""

_A_PIPE: Final = 64 * 1024  # what one takes unless it is made larger, which the filter denies
_A_WATCH: Final = 64 * 1024  # a queue of events with some hundred descriptors in it, 250 bytes each
_USUAL_BUFFER: Final = 212_992  # net.core.wmem_default of most kernels


def kernel_memory_bytes(pids: list[int], network: str | None = None) -> int:
    """The bytes that the kernel holds for these processes, beside the pages that they show themselves.

    `network` is where `/proc` shows their own network namespace; it is looked for when that is `None`.
    """
    return sum(_page_tables(pid) for pid in pids) + max(0, _queues(pids, network) - UNCHARGED)


def _page_tables(pid: int) -> int:
    with contextlib.suppress(OSError, ValueError):
        _, name, rest = Path(f"/proc/{pid}/status").read_bytes().partition(b"VmPTE:")
        return int(rest.split(None, 1)[0]) * 1024 if name else 0
    return 0


def _queues(pids: list[int], network: str | None) -> int:
    """What all queues could hold; 0 without a closer look where there are so few descriptors that it makes no difference."""
    numbers = {pid: _descriptors(pid) for pid in pids}
    network = _own_network(pids) if network is None else network
    sockets, streams = _sockets_of(network) if network else (0, 0)
    if max(sockets, sum(map(len, numbers.values()))) * _a_socket() + streams <= UNCHARGED:
        return 0
    seen: set[str] = set()
    watches = 0
    for pid, names in numbers.items():
        for link in _links(pid, names):
            if link.startswith(("socket:", "pipe:")):
                seen.add(link)
            elif link == "anon_inode:[eventpoll]":
                watches += 1
    pipes = sum(link.startswith("pipe:") for link in seen)
    # A socket can be on its way through another one, where no process has it; the namespace knows it all the same.
    return max(sockets, len(seen) - pipes) * _a_socket() + pipes * _A_PIPE + watches * _A_WATCH + streams


def _descriptors(pid: int) -> list[str]:
    with contextlib.suppress(OSError):
        return os.listdir(f"/proc/{pid}/fd")
    return []


def _links(pid: int, names: Iterable[str]) -> Iterable[str]:
    for name in names:
        with contextlib.suppress(OSError):
            yield os.readlink(f"/proc/{pid}/fd/{name}")


@cache
def _a_socket() -> int:
    """The most that waits in a socket: messages are taken while less than the buffer is full, and one may be as large as it."""
    with contextlib.suppress(OSError, ValueError):
        return 2 * int(Path("/proc/sys/net/core/wmem_default").read_text(encoding="ascii"))
    return 2 * _USUAL_BUFFER


def _own_network(pids: list[int]) -> str:
    """Where `/proc` shows the run's own network namespace; empty when it has none, or has ended."""
    for pid in reversed(pids):
        with contextlib.suppress(OSError):
            if os.stat(f"/proc/{pid}/ns/net").st_ino == os.stat("/proc/self/ns/net").st_ino:
                return ""
            return f"/proc/{pid}/net"
    return ""


def _sockets_of(network: str) -> tuple[int, int]:
    """How many local sockets a namespace has, and the bytes that wait in its TCP sockets."""
    local, waiting = 0, 0
    with contextlib.suppress(OSError):
        local = Path(network, "unix").read_bytes().count(b"\n") - 1
    for name in ("tcp", "tcp6"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            for line in Path(network, name).read_bytes().splitlines()[1:]:
                sent, _, received = line.split()[4].partition(b":")
                waiting += int(sent, 16) + int(received, 16)
    return max(local, 0), waiting


_SWEEP_INTERVAL_S: Final = 60.0


class OrphanSweeper:
    """Finds what is named `PREFIX<process>-…`, by a regular expression for the prefix, and whose process no longer lives."""

    def __init__(self, prefix: str) -> None:
        self._name = re.compile(rf"{prefix}(\d+)-.+")
        self._next: dict[str, float] = {}

    def sweep(self, folder: str, remove: Callable[[str], object]) -> None:
        """Give `remove` the path of all that dead processes left in `folder`; nothing within a minute of the last time."""
        now = time.monotonic()
        if now < self._next.get(folder, now):
            return
        self._next[folder] = now + _SWEEP_INTERVAL_S
        with contextlib.suppress(OSError):
            for name in os.listdir(folder):
                match = self._name.fullmatch(name)
                if match and not is_running(int(match[1])):
                    remove(f"{folder}/{name}")

    def forget(self) -> None:
        """Look again at the next call, however soon that is."""
        self._next.clear()
