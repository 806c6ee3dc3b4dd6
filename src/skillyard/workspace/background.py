"""The background processes of a session: started by a call that does not wait, listed, looked at, stopped."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final, Literal

from skillyard.errors import InvalidInput, RecordNotFound
from skillyard.text import shorten, single_line
from skillyard.wire import WireForm
from skillyard.workspace.channel import SessionCall, SessionChannel

KEPT_BYTES: Final = 256 * 1024
"""The newest output of each background process that is kept."""
_MOST: Final = 16  # at once
_REMEMBERED: Final = 32  # of those that have ended
_SHOWN: Final = 200


@dataclass(frozen=True, slots=True)
class BackgroundProcess(WireForm):
    """One background process: its id, its command, whether it runs, and its exit code (`None` while it runs or when killed)."""

    id: str
    command: str
    state: Literal["running", "exited", "killed"]
    exit_code: int | None
    seconds: float


class BackgroundProcesses:
    """The background processes of one session; they end with it."""

    def __init__(self, channel: SessionChannel) -> None:
        self._channel = channel
        self._calls: dict[str, tuple[str, SessionCall]] = {}
        self._count = 0

    def check_room(self) -> None:
        """Raise when there are as many as may be.

        Raises:
            InvalidInput: there are.
        """
        if sum(not call.finished.done() for _, call in self._calls.values()) >= _MOST:
            raise InvalidInput(f"{_MOST} background processes are running", hint="stop one first")

    def add(self, command: str, call: SessionCall) -> str:
        """Keep a call that has begun; its id."""
        self._count += 1
        name = f"bg{self._count}"
        self._calls[name] = (shorten(single_line(command), _SHOWN), call)
        ended = [one for one, (_, other) in self._calls.items() if other.finished.done()]
        for one in ended[: max(len(ended) - _REMEMBERED, 0)]:
            del self._calls[one]
        return name

    def list(self) -> tuple[BackgroundProcess, ...]:
        """All that run, and the last that have ended."""
        return tuple(self._describe(name) for name in self._calls)

    def call(self, name: str) -> SessionCall:
        """The call of a process.

        Raises:
            RecordNotFound: there is none of that id.
        """
        if name not in self._calls:
            known = ", ".join(self._calls) or "none"
            raise RecordNotFound(f"there is no background process {single_line(name)[:40]!r}", hint=f"there are: {known}")
        return self._calls[name][1]

    def get(self, name: str) -> BackgroundProcess:
        """One of them.

        Raises:
            RecordNotFound: there is none of that id.
        """
        self.call(name)
        return self._describe(name)

    async def stop(self, name: str) -> BackgroundProcess:
        """End one, with everything it has started.

        Raises:
            RecordNotFound: there is none of that id.
        """
        await self._channel.end(self.call(name), "interrupted")
        return self.get(name)

    @property
    def running(self) -> bool:
        """Whether any of them still runs."""
        return any(not call.finished.done() for _, call in self._calls.values())

    def _describe(self, name: str) -> BackgroundProcess:
        command, call = self._calls[name]
        if not call.finished.done():
            return BackgroundProcess(name, command, "running", None, round(time.monotonic() - call.begun, 1))
        ended_itself = call.reason == "exit" and call.exit is not None and call.exit >= 0
        code = call.exit if ended_itself else None
        return BackgroundProcess(name, command, "exited" if ended_itself else "killed", code, call.duration_ms / 1000)
