"""Takes the listener of a run's proxy out of the run's network namespace.

The run's first program (`proxy_opener.py`, ours) makes a TCP listener and sends its descriptor through a connected pair of
sockets. That is before anything of the skill has started, and the pair is closed on both sides before the skill may start. So
the sandbox holds no socket that leads out, and the proxy needs neither a path nor a port on this machine.
"""

from __future__ import annotations

import array
import contextlib
import os
import socket
from typing import Final, Protocol

__all__ = ["PROXY_PORT", "Door", "receive_listener"]

PROXY_PORT: Final = 3128
"""Where a run finds its proxy, on the loopback interface of its own namespace."""

_ROOM: Final = 4  # descriptors; one is expected


class Door(Protocol):
    """What serves the listener while the run lasts."""

    def open(self, listener: socket.socket) -> None:
        """Begin to serve; the listener belongs to the door from now on."""

    async def close(self) -> None:
        """End the listener and everything that came through it."""


def receive_listener(door: int) -> socket.socket | None:
    """The listener that waits at our end of the pair; `None` when the other end closed, or sent anything else."""
    width = array.array("i").itemsize
    pair = socket.socket(fileno=door)
    try:
        _, parts, flags, _ = pair.recvmsg(1, socket.CMSG_SPACE(_ROOM * width), socket.MSG_CMSG_CLOEXEC)
    except OSError:
        return None
    finally:
        pair.detach()
    found = array.array("i")
    for level, kind, data in parts:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            found.frombytes(data[: len(data) - len(data) % width])
    if len(found) == 1 and not flags & socket.MSG_CTRUNC and _is_listener(found[0]):
        return socket.socket(fileno=found[0])
    for fd in found:
        os.close(fd)
    return None


def _is_listener(fd: int) -> bool:
    """Whether it is a TCP socket that listens at the one expected place."""
    with contextlib.suppress(OSError):
        candidate = socket.socket(fileno=fd)
        try:
            listens = candidate.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) == 1
            kind = (candidate.family, candidate.type)
            return (
                listens
                and kind == (socket.AF_INET, socket.SOCK_STREAM)
                and candidate.getsockname() == ("127.0.0.1", PROXY_PORT)
            )
        finally:
            candidate.detach()
    return False
