"""The conversation with the first program of a session: requests go in, frames come out, each call ends in one way.

Everything that comes out is untrusted: a frame that is too long ends the session, one of no known kind or of no open call is
dropped, and no call waits for an answer longer than its time.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import marshal
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

if TYPE_CHECKING:
    from skillyard.sandbox import SandboxSession

_HEAD: Final = 9
_LONGEST_FRAME: Final = 1 << 20
_LONGEST_STATE: Final = 96 * 1024  # bytes: it travels in one variable
_TERM_SECONDS: Final = 0.25
_KILL_SECONDS: Final = 1.0
_ROUNDS: Final = 40
_MARSHAL: Final = 2  # a version that every Python reads

# Of the kernel that also says when a process was started; elsewhere than on Linux that is another one, and ages are compared.
_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

EndReason = Literal[
    "exit", "timeout", "interrupted", "output_limit", "disk_full", "memory", "pids", "ended", "not_started",
    "folder_gone",
]  # fmt: skip
PieceListener = Callable[[Literal["stdout", "stderr"], bytes], object]


@dataclass(slots=True)
class SessionCall:
    """One call: what it has written so far, both streams in the order in which they came, and how it ended.

    `keep` bytes are kept, the newest of a background process (`rolling`), the oldest otherwise; a call that writes more than
    `limit` is ended.
    """

    number: int
    keep: int
    limit: int
    rolling: bool
    listener: PieceListener | None
    finished: asyncio.Future[None]
    cleaning: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while what the call has started is ended: until then another call would be taken for a part of it."""
    begun: float = field(default_factory=time.monotonic)
    begun_on_machine: float = field(default_factory=lambda: time.clock_gettime(_CLOCK))
    pid: int = 0
    pieces: list[bytes] = field(default_factory=list)
    kept: int = 0
    written: int = 0
    exit: int | None = None
    reason: EndReason | None = None
    detail: str = ""
    state: bytes | None = None
    duration_ms: int = 0

    @property
    def output(self) -> bytes:
        """What is kept of both streams."""
        return b"".join(self.pieces)

    def add(self, stream: Literal["stdout", "stderr"], piece: bytes) -> None:
        """One more piece of output."""
        self.written += len(piece)
        if not self.rolling:
            piece = piece[: max(self.keep - self.kept, 0)]
        if piece:
            self.pieces.append(piece)
            self.kept += len(piece)
            if self.listener is not None:
                self.listener(stream, piece)
        while self.rolling and self.kept > self.keep and len(self.pieces) > 1:
            self.kept -= len(self.pieces.pop(0))

    def end(self, reason: EndReason, detail: str = "") -> None:
        """It has ended; the first reason stays."""
        self.reason = self.reason or reason
        self.detail = self.detail or detail
        self.duration_ms = round((time.monotonic() - self.begun) * 1000)
        if not self.finished.done():
            self.finished.set_result(None)


class SessionChannel:
    """The calls of one open session."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._calls: dict[int, SessionCall] = {}
        self._received = bytearray()
        self._session: SandboxSession | None = None
        self._watching: asyncio.Task[None] | None = None
        self._ready: Final = asyncio.get_running_loop().create_future()
        self._ending: set[asyncio.Task[None]] = set()
        self.standby = 0
        """The process number, as the session sees it, of the interpreter that waits for a program; 0 when none does."""

    @property
    def session(self) -> SandboxSession:
        """The session, once it is open."""
        assert self._session is not None  # noqa: S101 # set by `attach` before anybody has the channel
        return self._session

    @property
    def alive(self) -> bool:
        """Whether calls can be made."""
        return self._session is not None and self._session.alive

    @property
    def running(self) -> tuple[SessionCall, ...]:
        """The calls that have not ended."""
        return tuple(self._calls.values())

    async def attach(self, session: SandboxSession) -> bool:
        """Begin to speak with an open session; whether its first program is ready."""
        self._session = session
        self._watching = asyncio.create_task(self._watch(session))
        await asyncio.wait([self._ready, self._watching], return_when=asyncio.FIRST_COMPLETED)
        return self._ready.done()

    async def close(self) -> None:
        """End the session and every call."""
        if self._session is not None:
            await self._session.close()
        if self._watching is not None:
            await asyncio.wait([self._watching])

    async def _watch(self, session: SandboxSession) -> None:
        await session.ended.wait()
        reasons: dict[str | None, EndReason] = {"memory": "memory", "pids": "pids", "output_limit": "disk_full"}
        for call in tuple(self._calls.values()):
            call.end(reasons.get(session.end_reason, "ended"))
        self._calls.clear()

    def start(
        self,
        request: Mapping[str, object],
        *,
        keep: int,
        limit: int,
        rolling: bool = False,
        listener: PieceListener | None = None,
    ) -> SessionCall:
        """Begin a call; its `finished` is set when it has ended, however that is."""
        number = next(self._numbers)
        call = SessionCall(number, keep, limit, rolling, listener, asyncio.get_running_loop().create_future())
        self._calls[number] = call
        if not self._send({**request, "call": number}):
            self._calls.pop(number, None)
            call.end("ended")
        self._look_closely()
        return call

    def stand_by(self, request: Mapping[str, object]) -> None:
        """Have an interpreter started that waits for a program with the shell of `request`, in place of the one before."""
        self._send({**request, "kind": "standby"})

    def _send(self, request: Mapping[str, object]) -> bool:
        data = marshal.dumps(dict(request), _MARSHAL)
        return self.session.send(len(data).to_bytes(4, "big") + data)

    async def finish(self, call: SessionCall, seconds: float) -> None:
        """Wait for the end of a call, at most so long; end it when the time is over or the waiting is cancelled."""
        try:
            async with asyncio.timeout(seconds):
                await asyncio.shield(call.finished)
            async with call.cleaning:
                return
        except TimeoutError:
            await self.end(call, "timeout")
        except asyncio.CancelledError:
            ending = asyncio.ensure_future(self.end(call, "interrupted"))
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)
            await asyncio.shield(ending)
            raise

    async def end(self, call: SessionCall, reason: EndReason) -> None:
        """End a call and everything it has started; the session stays, unless even that does not help."""
        async with call.cleaning:
            if call.finished.done():
                return
            call.reason = call.reason or reason
            self._signal(call, signal.SIGTERM)
            if not await _within(call.finished, _TERM_SECONDS):
                self._signal(call, signal.SIGKILL)
                await _within(call.finished, _KILL_SECONDS)
            keep = self._pids(but=call)
            for _ in range(_ROUNDS):
                if not self.alive or not await asyncio.to_thread(self.session.end_processes, call.begun_on_machine, keep):
                    break
                await asyncio.sleep(0.005)
            else:
                self.session.stop("killed")
            if not call.finished.done():
                self.session.stop("killed")
                await call.finished

    async def end_background(self, reason: EndReason) -> None:
        """End every background process, and what commands have left behind; calls that are waited for go on."""
        for call in self.running:
            if call.rolling:
                await self.end(call, reason)
        await asyncio.to_thread(self.session.end_processes, 0.0, self._pids())

    def _pids(self, *, but: SessionCall | None = None) -> list[int]:
        """The numbers of what goes on when a call is ended."""
        calls = [call.pid for call in self.running if call is not but and call.pid]
        return [*calls, self.standby] if self.standby else calls

    def _signal(self, call: SessionCall, number: int) -> None:
        self._send({"kind": "signal", "call": call.number, "signal": int(number)})

    def receive(self, piece: bytes) -> None:
        """One piece of what comes out of the session."""
        self._received += piece
        while len(self._received) >= _HEAD:
            length = int.from_bytes(self._received[5:_HEAD], "big")
            if length > _LONGEST_FRAME:
                self.session.stop("result_invalid")
                self._received.clear()
                return
            if len(self._received) < _HEAD + length:
                return
            kind, number = self._received[:1].decode("latin-1"), int.from_bytes(self._received[1:5], "big")
            data = bytes(self._received[_HEAD : _HEAD + length])
            del self._received[: _HEAD + length]
            self._frame(kind, number, data)

    def _frame(self, kind: str, number: int, data: bytes) -> None:
        if kind == "r" and not self._ready.done():
            self._ready.set_result(None)
        if kind == "w":
            with contextlib.suppress(ValueError):
                self.standby = max(int(data[:12]), 0)
        call = self._calls.get(number)
        if call is None:
            return
        match kind:
            case "o" | "e":
                call.add("stdout" if kind == "o" else "stderr", data)
                if call.written > call.limit and call.reason is None and not call.rolling:
                    self._end_later(call, "output_limit")
            case "s":
                call.state = data if len(data) <= _LONGEST_STATE else None
            case "p" | "x":
                with contextlib.suppress(ValueError):
                    self._number(call, kind, int(data[:12]))
            case "g":
                self._ended(call, "folder_gone")
            case "f":
                self._ended(call, "not_started", data[:500].decode("utf-8", "replace"))

    def _number(self, call: SessionCall, kind: str, value: int) -> None:
        if kind == "p":
            call.pid = value
        else:
            call.exit = value
            self._ended(call, "exit")

    def _ended(self, call: SessionCall, reason: EndReason, detail: str = "") -> None:
        self._calls.pop(call.number, None)
        self._look_closely()
        call.end(reason, detail)

    def _look_closely(self) -> None:
        self.session.watch_closely(bool(self._calls))

    def _end_later(self, call: SessionCall, reason: EndReason) -> None:
        call.reason = reason
        task = asyncio.ensure_future(self.end(call, reason))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)


async def _within(future: asyncio.Future[None], seconds: float) -> bool:
    await asyncio.wait([future], timeout=seconds)
    return future.done()
