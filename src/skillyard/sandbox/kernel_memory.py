"""Memory that the kernel holds for a run and that is part of no process, estimated from `/proc` where no group counts it.

Counted are page tables (`VmPTE`, exact), what queues could hold (sockets and pipes, each once, at the most that its kind takes;
of TCP what really waits in them) and queues of events. What else the kernel keeps for a process, above all the list of its
mappings and its locks on files, cannot be seen fast enough and is not counted; `limits` of a run says so.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Final

__all__ = ["UNCHARGED", "held_by_kernel"]

UNCHARGED: Final = 16 * 1024 * 1024
"""Bytes of queues that are free: ordinary programs have a few, and nearly nothing waits in them."""

_A_PIPE: Final = 64 * 1024  # what one takes unless it is made larger, which the filter denies
_A_WATCH: Final = 64 * 1024  # a queue of events with some hundred descriptors in it, 250 bytes each
_USUAL_BUFFER: Final = 212_992  # net.core.wmem_default of most kernels


def held_by_kernel(pids: list[int]) -> int:
    """The bytes that the kernel holds for these processes, beside the pages that they show themselves."""
    return sum(_page_tables(pid) for pid in pids) + max(0, _queues(pids) - UNCHARGED)


def _page_tables(pid: int) -> int:
    with contextlib.suppress(OSError, ValueError):
        _, name, rest = Path(f"/proc/{pid}/status").read_bytes().partition(b"VmPTE:")
        return int(rest.split(None, 1)[0]) * 1024 if name else 0
    return 0


def _queues(pids: list[int]) -> int:
    """What all queues could hold; 0 without a closer look where there are so few descriptors that it makes no difference."""
    numbers = {pid: _descriptors(pid) for pid in pids}
    network = _own_network(pids)
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
    """Where `/proc` shows the run's own network namespace; empty when it has none, or is gone."""
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
