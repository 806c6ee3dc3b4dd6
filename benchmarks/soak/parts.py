"""The parts of a site: each is started, killed with -9, paused, and asked to stop."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

__all__ = ["ClusterPart", "Part", "Program", "free_port", "skillyard"]

_STARTED_S = 60


class Part(ABC):
    """One part; `starts` counts how often it was started."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.starts = 0

    @abstractmethod
    async def start(self) -> None:
        """Start it; what it serves may take a moment longer."""

    @abstractmethod
    def processes(self) -> list[int]:
        """Its own processes: they are killed and paused together."""

    @abstractmethod
    async def ended(self) -> None:
        """Wait until it has ended."""

    async def kill(self) -> None:
        """End it with -9."""
        self._signal(signal.SIGKILL)
        await self.ended()

    def pause(self) -> None:
        """Let it stand still."""
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Let it go on."""
        self._signal(signal.SIGCONT)

    async def stop(self) -> bool:
        """Ask it to stop; whether it did within half a minute. Else its log says where every thread stood."""
        self._signal(signal.SIGTERM, self.processes()[:1])
        try:
            await asyncio.wait_for(self.ended(), 30)
        except TimeoutError:
            self._signal(signal.SIGABRT, self.processes()[:1])
            await asyncio.sleep(1)
            await self.kill()
            return False
        return True

    def _signal(self, number: int, processes: Sequence[int] | None = None) -> None:
        for process in self.processes() if processes is None else processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, number)


class Program(Part):
    """A part that is one program, with `whole` all its own processes and else the first one only."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        log: Path,
        environment: Mapping[str, str],
        port: int = 0,
        whole: bool = False,
    ) -> None:
        super().__init__(name)
        self.port = port
        self.numbers: list[int] = []
        self._command, self._log, self._environment, self._whole = command, log, environment, whole
        self._process: subprocess.Popen[bytes] | None = None

    async def start(self) -> None:
        """As `Part.start`; a program with a port is waited for until it takes connections."""
        self.starts += 1
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=dict(self._environment),
                cwd=self._environment["HOME"], start_new_session=True,
            )  # fmt: skip
            log.write(f"--- {self.name} is process {self._process.pid}\n".encode())
        self.numbers.append(self._process.pid)

    async def ready(self) -> None:
        """Wait until it takes connections.

        Raises:
            RuntimeError: it ended, or did not come in a minute.
        """
        for _ in range(_STARTED_S * 20):
            if self._process is None or self._process.poll() is not None:
                break
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return
            await asyncio.sleep(0.05)
        raise RuntimeError(f"{self.name} did not start: {self._log.read_text(errors='replace')[-2000:]}")

    def processes(self) -> list[int]:
        """As `Part.processes`."""
        if self._process is None or self._process.poll() is not None:
            return []
        first = self._process.pid
        return [first, *_children(first)] if self._whole else [first]

    async def ended(self) -> None:
        """As `Part.ended`."""
        if self._process is not None:
            await asyncio.to_thread(self._process.wait)


class ClusterPart(Part):
    """A cluster of PostgreSQL."""

    def __init__(self, cluster: Any) -> None:
        super().__init__("postgresql")
        self.cluster = cluster

    async def start(self) -> None:
        """As `Part.start`; after -9 its last processes may take a moment to leave."""
        self.starts += 1
        for again in range(20):
            try:
                await asyncio.to_thread(self.cluster.start)
            except subprocess.CalledProcessError:
                if again == 19:
                    raise
                await asyncio.sleep(0.3)
            else:
                return

    def processes(self) -> list[int]:
        """As `Part.processes`."""
        found: list[int] = self.cluster.processes()
        return found

    async def kill(self) -> None:
        """As `Part.kill`; all its processes, as when the power fails."""
        killed = self.processes()
        self._signal(signal.SIGKILL, killed)
        while any(_remains(process) for process in killed):
            await asyncio.sleep(0.05)

    async def ended(self) -> None:
        """As `Part.ended`."""
        while any(_remains(process) for process in self.processes()):
            await asyncio.sleep(0.05)

    async def stop(self) -> bool:
        """As `Part.stop`."""
        await asyncio.to_thread(self.cluster.stop, "fast")
        return True

    def set_clock(self, seconds: int) -> None:
        """Let its clock be so many seconds off."""
        self.cluster.set_clock(seconds)

    def one_backend(self, choose: Any) -> int | None:
        """The process of one connection."""
        backends = self.processes()[1:]
        return choose(backends) if backends else None


def skillyard(*arguments: str) -> list[str]:
    """The command `skillyard` of this environment."""
    return [sys.executable, "-m", "skillyard", *arguments]


def free_port() -> int:
    """A port that nobody uses now, below those that the system gives to whoever asks for any."""
    for port in random.sample(range(20_000, 32_000), 100):
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise RuntimeError("no port between 20000 and 32000 is free")


def _children(process: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    except OSError:
        return []


def _remains(process: int) -> bool:
    """Whether a process that became ours when its parent died is still there; it is buried when it is dead."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(process, os.WNOHANG)
    return Path(f"/proc/{process}").exists()
