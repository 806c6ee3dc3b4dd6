"""Whether the process that executes a run still lives: the identity of a process, and how long a worker has been silent.

A process number alone is not enough: numbers are reused. The host, its boot, the namespace of process numbers and the time
the process started make it unique, so a run whose owner has ended was interrupted, also by `kill -9` or a power cut.
Processes on other machines send heartbeats with the clock of the database, which may be set: `HeartbeatMonitor` does not
compare hours, it counts the seconds by its own clock until a heartbeat changes.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Self


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """One process: `host`, `boot` and `space` are the scope of its number `pid`, `started` when it began (clock ticks)."""

    host: str
    boot: str
    space: str
    pid: int
    started: str

    @classmethod
    def current(cls) -> Self:
        """This process."""
        pid = os.getpid()
        host, boot, space = _here()
        return cls(host, boot, space, pid, _started(pid) or "")

    @classmethod
    def read(cls, text: str) -> Self | None:
        """The owner that `str()` wrote; None when the text is none."""
        parts = text.split("|")
        if len(parts) != 5 or not parts[3].isdigit():
            return None
        return cls(parts[0], parts[1], parts[2], int(parts[3]), parts[4])

    @classmethod
    def is_process_alive(cls, text: str) -> bool | None:
        """Whether the process that `str()` wrote still exists; None when that is unknown here, or the text is invalid."""
        owner = cls.read(text)
        return None if owner is None else owner.alive()

    def __str__(self) -> str:
        return "|".join((self.host, self.boot, self.space, str(self.pid), self.started))

    def alive(self) -> bool | None:
        """Whether the process still exists; None when that cannot be seen from here (another host or container)."""
        host, boot, space = _here()
        if self.host != host:
            return None
        if self.boot != boot:
            return False
        if self.space != space:
            return None
        return _started(self.pid) == self.started


def is_gone(owner: str, *, silent: bool = False, seen: bool = False) -> bool:
    """Whether the process `owner` has ended: it no longer exists, or it cannot be seen from here and is `silent`.

    With `seen` a process that exists and is silent counts as ended as well.
    """
    alive = ProcessIdentity.is_process_alive(owner)
    return silent if alive is None else not alive or (seen and silent)


@lru_cache(maxsize=1)
def _here() -> tuple[str, str, str]:
    """The host, its boot and the space of process numbers."""
    try:
        space = os.readlink("/proc/self/ns/pid")  # noqa: PTH115 - a name of the kernel's, not a path
    except OSError:
        space = ""
    name = f"{_text('/etc/machine-id')}@{socket.gethostname()}".replace("|", "")
    return name, _text("/proc/sys/kernel/random/boot_id"), space


def _text(path: str) -> str:
    try:
        return Path(path).read_text("ascii", errors="replace").strip()
    except OSError:
        return ""


def _started(pid: int) -> str | None:
    """When the process began, in clock ticks since the boot; None when there is no such process, or only its remains."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    return None if fields[0] in (b"Z", b"X") else fields[19].decode("ascii")


class HeartbeatMonitor:
    """Signs as they were last seen here; `clock` counts seconds and is never set."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._seen: dict[str, tuple[object, float]] = {}

    def of(self, who: str, sign: object) -> float:
        """For how many seconds this has been the sign; 0 when it is seen for the first time."""
        now = self._clock()
        with self._lock:
            last, since = self._seen.get(who, (None, now))
            if last != sign:
                since = now
            self._seen[who] = (sign, since)
        return now - since

    def forget(self, who: str) -> None:
        """Forget the heartbeats of one that nobody waits for any more."""
        with self._lock:
            self._seen.pop(who, None)

    def keep(self, owners: set[str]) -> None:
        """Keep the heartbeats of these owners only."""
        with self._lock:
            self._seen = {who: seen for who, seen in self._seen.items() if who in owners}
