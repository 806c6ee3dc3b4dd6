"""Starts one sandboxed program with exactly the descriptors it is meant to have, as the user it is meant to be.

The first program of a run with network (`proxy_opener.py`) makes the listener inside the run's network namespace and sends its
descriptor out before anything of the skill has started.

Root owns the host's files even inside a user namespace, and process limits do not bind root; so a root service gives each run
a user number of its own that owns nothing.
"""

from __future__ import annotations

import array
import contextlib
import errno
import os
import signal
import socket
import stat
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

# Above the ranges that systemd and container managers hand out, below what signed 32-bit tools misread.
_FIRST: Final = 0x70000000
_COUNT: Final = 0x0FFFFFFF
_NOBODY: Final = 65_534


@dataclass(frozen=True, slots=True)
class Identity:
    """A user and group number that own nothing; `single` when no other run has the same."""

    uid: int
    gid: int
    single: bool


def pick_identity() -> Identity | None:
    """A user for the next run, or `None` when this process is not root and runs are its own user."""
    if os.geteuid() != 0:
        return None
    number = _FIRST + int.from_bytes(os.urandom(4), "big") % _COUNT
    if _is_mapped(number):
        return Identity(number, number, single=True)
    return Identity(_NOBODY, _NOBODY, single=False)


def is_own_number(uid: int) -> bool:
    """Whether a user number is one that `pick_identity` gives, which nobody else has."""
    return _FIRST <= uid < _FIRST + _COUNT


def _is_mapped(number: int) -> bool:
    """Whether this user namespace knows the number: in a container perhaps only the first 65,536 exist."""
    try:
        rows = Path("/proc/self/uid_map").read_text(encoding="ascii").splitlines()
    except OSError:
        return False
    spans = [[int(part) for part in row.split()] for row in rows]
    return any(first <= number < first + count for first, _, count in spans)


def can_reach(path: str, *, as_other: bool) -> bool:
    """Whether a run can open `path`: as the world when it is another user (`as_other`), else as this process."""
    real = os.path.realpath(path)
    if not as_other:
        return os.access(real, os.R_OK | os.X_OK)
    try:
        modes = [part.stat().st_mode for part in (Path(real), *Path(real).parents)]
    except OSError:
        return False
    return all(mode & stat.S_IXOTH for mode in modes) and bool(modes[0] & stat.S_IROTH)


_SMALL_NUMBERS: Final = 9
_INWARD: Final = ("stdin", "control", "gate")
_OUTWARD: Final = ("stdout", "stderr", "result")
_WATCHED: Final = ("stdin", *_OUTWARD)


@dataclass(frozen=True, slots=True)
class Descriptors:
    """The numbers under which the started program finds its pipes and the files that exist in memory.

    The skill's own program may start when one byte arrives at the gate. Through `proxy_listener` (-1: none) the listener of
    the run's proxy is handed out.
    """

    control: int
    result: int
    gate: int
    files: tuple[int, ...]
    proxy_listener: int = -1


@dataclass(frozen=True, slots=True)
class SandboxCommand:
    """How to start a sandbox: its command line, what it reads first from its control pipe, and who it is.

    With `own_reaper` the program itself ends its tree on SIGTERM; otherwise its death ends the tree.
    """

    argv: list[str]
    control: bytes
    user: Identity | None = None
    own_reaper: bool = False


@dataclass(slots=True)
class Pipes:
    """Both ends of every pipe of a run, and its files in memory: `ours` stay here, `theirs` go to the program."""

    ours: dict[str, int] = field(default_factory=dict)
    theirs: dict[str, int] = field(default_factory=dict)
    files: list[int] = field(default_factory=list)

    @property
    def descriptors(self) -> Descriptors:
        """The numbers the program will find."""
        theirs = self.theirs
        return Descriptors(
            theirs["control"], theirs["result"], theirs["gate"], tuple(self.files), theirs.get("proxy_listener", -1)
        )

    def take(self, name: str) -> int:
        """Our end of a pipe; from now on the caller closes it."""
        return self.ours.pop(name)

    def close_theirs(self) -> None:
        """Close the program's ends here, so that only the program holds them."""
        _close([*self.theirs.values(), *self.files])
        self.theirs.clear()
        self.files.clear()

    def close(self) -> None:
        """Close everything that was not taken."""
        self.close_theirs()
        _close(list(self.ours.values()))
        self.ours.clear()


def open_pipes(files: Sequence[bytes], *, proxy_listener: bool = False) -> Pipes:
    """Six pipes, a proxy listener when requested, and the given files in memory; nothing stays open when one cannot be made."""
    pipes = Pipes()
    try:
        for name in (*_INWARD, *_OUTWARD):
            read, write = os.pipe2(os.O_CLOEXEC)
            pipes.ours[name], pipes.theirs[name] = (write, read) if name in _INWARD else (read, write)
            pipes.theirs[name] = _high(pipes.theirs[name])
            if name in _WATCHED:
                os.set_blocking(pipes.ours[name], False)
        if proxy_listener:
            inside, outside = socket.socketpair()
            outside.setblocking(False)
            pipes.ours["proxy_listener"], pipes.theirs["proxy_listener"] = outside.detach(), _high(inside.detach())
        for data in files:
            pipes.files.append(_high(os.memfd_create("skillyard", os.MFD_CLOEXEC)))
            os.write(pipes.files[-1], data)
            os.lseek(pipes.files[-1], 0, os.SEEK_SET)
    except BaseException:
        pipes.close()
        raise
    return pipes


def _high(fd: int) -> int:
    """The same file at a number that is out of the way of the small numbers with a meaning."""
    if fd > _SMALL_NUMBERS:
        return fd
    import fcntl  # only Linux starts sandboxes; the module is imported everywhere

    high = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _SMALL_NUMBERS + 1)
    os.close(fd)
    return high


def _close(fds: Sequence[int]) -> None:
    for fd in fds:
        with contextlib.suppress(OSError):
            os.close(fd)


def spawn(command: SandboxCommand, pipes: Pipes) -> subprocess.Popen[bytes]:
    """Start the command with an empty environment, three standard streams and the named descriptors, nothing else.

    Raises:
        OSError: it cannot be started, or no end of it could be seen.
    """
    if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:  # the program would inherit that, and wait for its own children
        raise OSError(errno.ECHILD, "this program ignores SIGCHLD, and cannot see how a run ends")
    who, descriptors = command.user, pipes.descriptors
    return subprocess.Popen(  # noqa: S603 # an absolute, trusted program; no shell
        command.argv,
        stdin=pipes.theirs["stdin"],
        stdout=pipes.theirs["stdout"],
        stderr=pipes.theirs["stderr"],
        env={},
        cwd="/",
        close_fds=True,
        pass_fds=[
            fd for fd in (descriptors.control, descriptors.result, descriptors.gate, descriptors.proxy_listener) if fd >= 0
        ]
        + list(descriptors.files),
        start_new_session=True,
        user=who.uid if who else None,
        group=who.gid if who else None,
        extra_groups=[] if who else None,
    )


PROXY_PORT: Final = 3128
"""Where a run finds its proxy, on the loopback interface of its own namespace."""

_ROOM: Final = 4  # descriptors; one is expected


def receive_listener(proxy_listener: int) -> socket.socket | None:
    """The listener that waits at our end of the pair; `None` when the other end closed, or sent anything else."""
    width = array.array("i").itemsize
    pair = socket.socket(fileno=proxy_listener)
    try:
        _, parts, flags, _ = pair.recvmsg(1, socket.CMSG_SPACE(_ROOM * width), socket.MSG_CMSG_CLOEXEC)
    except OSError:
        return None
    finally:
        pair.detach()
    descriptors = array.array("i")
    for level, kind, data in parts:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            descriptors.frombytes(data[: len(data) - len(data) % width])
    if len(descriptors) == 1 and not flags & socket.MSG_CTRUNC and _is_listener(descriptors[0]):
        return socket.socket(fileno=descriptors[0])
    for fd in descriptors:
        os.close(fd)
    return None


def _is_listener(fd: int) -> bool:
    """Whether it is a TCP socket that listens at the one expected address."""
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
