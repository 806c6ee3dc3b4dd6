"""Watches one container from start to end over the two pipes of its engine's program; works on every system.

The container's first program ends everything when its input ends, so the end of this process ends the container, whatever ended
it. Time, output and the size of folders are measured here, the rest by the engine's control group or by the first program.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from skillyard.errors import SkillyardError
from skillyard.sandbox import container_frames as frames
from skillyard.sandbox.container_engine import ContainerEngine, engine_environment
from skillyard.sandbox.job import Status
from skillyard.sandbox.policy import Policy
from skillyard.sandbox.run_output import PipeBuffer, ProcessRecord, note_reader, stream_listeners

if TYPE_CHECKING:
    from skillyard.network.proxy import Proxy

_START_SECONDS: Final = 60.0
_STOP_SECONDS: Final = 1.0  # for the first program to end the others and to report it
_END_SECONDS: Final = 5.0
_WATCH_SECONDS: Final = 0.025
_TRAVEL_SECONDS: Final = 0.05
# The clock of `since`.
_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", 0))
_CHUNK: Final = 1 << 16
_PIECE: Final = 1 << 15  # of what goes to and from the proxy
_DIAGNOSIS: Final = 16_384  # bytes of what the engine says
_STREAMS: Final = (frames.OUTPUT, frames.ERRORS, frames.RESULT)
_REASONS: Final[Mapping[str, Status]] = {"memory": "memory", "pids": "pids", "output_limit": "output_limit"}


@dataclass(frozen=True, slots=True)
class ContainerGreeting:
    """What the first program of a container has found there; all of it is what an image says."""

    machine: str
    python: str
    programs: Mapping[str, str]
    node_version: tuple[int, ...]
    memory_bytes: int | None
    pids: int | None
    cgroup: int

    @classmethod
    def read(cls, payload: bytes) -> ContainerGreeting:
        """The greeting in a frame.

        Raises:
            ValueError: it is none.
        """
        try:
            said: dict[str, Any] = json.loads(payload)
            limits = said["limits"]
            numbers = said["node_version"].lstrip("v").split(".")
            return cls(
                str(said["machine"]),
                str(said["python"]),
                {str(name): str(path) for name, path in said["programs"].items()},
                tuple(int(number) for number in numbers if number.isdigit()),
                int(limits["memory"]) if limits["memory"] else None,
                int(limits["pids"]) if limits["pids"] else None,
                int(limits["version"]),
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"the greeting of the container cannot be read: {error}") from None


@dataclass(slots=True)
class ContainerRecord(ProcessRecord):
    """What was seen of a container until its end; `greeting` is `None` when it has not started."""

    greeting: ContainerGreeting | None = None
    words: bytearray = field(default_factory=bytearray)
    problem: SkillyardError | None = None


class ContainerProcess:
    """The state of one container, named `name`, which `argv` starts.

    One with a `channel` stays: its input remains open for `send`, it has no time limit, and what it writes to its result pipe
    goes to the channel.
    """

    def __init__(
        self,
        engine: ContainerEngine,
        name: str,
        policy: Policy,
        *,
        over_quota: Callable[[list[int]], bool] | None = None,
        proxy: Proxy | None = None,
        channel: Callable[[bytes], object] | None = None,
    ) -> None:
        self.record = ContainerRecord()
        self.record.result.sink = channel
        self.finished = asyncio.Event()
        self.started = asyncio.Event()
        self.watch_seconds = _WATCH_SECONDS
        self._engine = engine
        self._name = name
        self._policy = policy
        self._over_quota = over_quota
        self._proxy = proxy
        self._connections: ContainerConnections | None = None
        if proxy is not None:
            self._connections = ContainerConnections(proxy, self._write)
        self._loop = asyncio.get_running_loop()
        self._process: asyncio.subprocess.Process | None = None
        self._running: asyncio.Task[None] | None = None
        self._timers: list[asyncio.TimerHandle] = []
        self._input = memoryview(b"")
        self._window = frames.WINDOW
        self._input_ends = False
        self._begun_at = 0.0
        self._ended = False
        self._killed = False
        self._removing: asyncio.Future[None] | None = None
        self._numbers = itertools.count(1)
        self._questions: dict[int, asyncio.Future[int]] = {}

    async def start(self, argv: list[str], make_job: Callable[[ContainerGreeting], dict[str, Any]], stdin: bytes) -> None:
        """Start the engine's program; the job is made when the container has greeted, and then gets its input.

        Raises:
            OSError: there is no such program.
        """
        self._input = memoryview(stdin)
        self._input_ends = self.record.result.sink is None
        flags: dict[str, Any] = (
            {"creationflags": getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)}
            if sys.platform == "win32"
            else {"start_new_session": True}
        )
        self._process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=engine_environment(),
            cwd="/",
            **flags,
        )
        self._later(_START_SECONDS, self._give_up)
        self._running = asyncio.create_task(self._run(self._process, make_job))

    @property
    def pid(self) -> int:
        """The number of the engine's program on this machine; 0 before it was started."""
        return self._process.pid if self._process else 0

    @property
    def alive(self) -> bool:
        """Whether the job runs and nothing has ended it."""
        return self.record.begun and not self._ended and self.record.reason is None and not self.finished.is_set()

    def send(self, data: bytes) -> bool:
        """Write more to the input of a process with a channel; `False` when it takes no more."""
        if self.finished.is_set() or self._ended or self.record.reason is not None:
            return False
        self._input = memoryview(bytes(self._input) + data)
        self._feed()
        return True

    async def end_processes(self, since: float, keep: Collection[int]) -> int:
        """Kill what was started since a moment (as `SandboxSession.end_processes`) and is not below one of `keep`; how many."""
        if not self.alive:
            return 0
        number = next(self._numbers)
        question = self._questions[number] = self._loop.create_future()
        asked: dict[str, Any] = {"since": since, "keep": list(keep), "call": number}
        if since and not self._engine.shows_machine:  # perhaps another machine, whose clock began at another time
            asked["age"] = time.clock_gettime(_CLOCK) - since + _TRAVEL_SECONDS
        self._write(frames.frame(frames.END_PROCESSES, json.dumps(asked).encode()))
        count: int = await question
        return count

    def stop(self, reason: Status) -> None:
        """End everything in the container for `reason`; the first reason stays, and a job that has ended needs none."""
        if self._ended:
            return
        first = self.record.reason is None
        self.record.reason = self.record.reason or reason
        if not self.record.begun or self._killed:
            self._let_go()
        elif first:
            self._write(frames.frame(frames.STOP))
            self._later(_STOP_SECONDS, self._let_go)

    async def close(self) -> None:
        """Leave nothing: no process of the container and of the engine, no timer; also when the caller was cancelled.

        After a job that was reported to its end, what the engine has beside its program removes the empty container.
        """
        self._let_go()
        if self._running is not None:
            await asyncio.wait([self._running])
        if self._removing is not None:
            await asyncio.wait([self._removing])
        if self._connections is not None:
            await self._connections.close()
        if self._proxy is not None:
            await self._proxy.close()
        for timer in self._timers:
            timer.cancel()
        self.finished.set()

    async def _run(self, process: asyncio.subprocess.Process, make_job: Callable[[ContainerGreeting], dict[str, Any]]) -> None:
        """Read until the engine's program has ended."""
        assert process.stdout is not None  # noqa: S101 # asked for above
        assert process.stderr is not None  # noqa: S101 # the same
        listening = asyncio.create_task(self._listen(process.stderr))
        reader = frames.FrameReader()
        try:
            while piece := await process.stdout.read(_CHUNK):
                for kind, number, payload in reader.feed(piece):
                    self._take(kind, number, payload, make_job)
        except (ValueError, KeyError, TypeError, RecursionError):  # what the first program says is no frame
            if self.record.begun:
                self.stop("killed")
            self.record.words += b"what the container says cannot be read"
            self._let_go()
            while await process.stdout.read(_CHUNK):
                pass
        code = await process.wait()
        await listening
        if not self._ended:
            self.record.returncode = code
            self._measure()
        if not self.record.begun and not self.record.stderr.size:
            self.record.stderr.add(bytes(self.record.words))
        self.started.set()
        for question in self._questions.values():
            if not question.done():
                question.set_result(0)
        self.finished.set()

    async def _listen(self, stream: asyncio.StreamReader) -> None:
        """Keep what the engine says."""
        while piece := await stream.read(_CHUNK):
            self.record.words += piece[: max(_DIAGNOSIS - len(self.record.words), 0)]

    def _take(self, kind: bytes, number: int, payload: bytes, make_job: Callable[[ContainerGreeting], dict[str, Any]]) -> None:
        """One frame."""
        if kind in _STREAMS:
            self._keep(kind, payload)
        elif kind == frames.TAKEN and number == 0:
            self._window += int.from_bytes(payload, "big")
            self._feed()
        elif number:
            if self._connections is not None:
                self._connections.take(kind, number, payload)
        elif kind == frames.HELLO and self.record.greeting is None:
            self._greeted(payload, make_job)
        elif kind == frames.STARTED and self.record.greeting is not None and not self.record.begun:
            self._begin()
        else:
            self._reported(kind, payload)

    def _reported(self, kind: bytes, payload: bytes) -> None:
        """What the first program says about the job."""
        if kind == frames.EXCEEDED:
            self.stop(_REASONS.get(payload.decode("ascii", "replace"), "killed"))
        elif kind == frames.TERMINATED and not self._ended:
            self._terminated(json.loads(payload))
        elif kind == frames.ENDED_PROCESSES:
            answer = json.loads(payload)
            if (question := self._questions.pop(answer["call"], None)) and not question.done():
                question.set_result(int(answer["count"]))

    def _greeted(self, payload: bytes, make_job: Callable[[ContainerGreeting], dict[str, Any]]) -> None:
        self.record.greeting = ContainerGreeting.read(payload)
        try:
            job = json.dumps(make_job(self.record.greeting)).encode()
        except SkillyardError as error:
            self.record.problem = error
            self._let_go()
            return
        pieces = [job[at : at + frames.LONGEST] for at in range(0, len(job), frames.LONGEST)]
        for index, piece in enumerate(pieces):
            self._write(frames.frame(frames.JOB, piece, int(index == len(pieces) - 1)))

    def _begin(self) -> None:
        """The job runs: its time counts from here."""
        record, policy = self.record, self._policy
        record.begun = True
        self._begun_at = time.monotonic()
        if record.result.sink is None:
            record.stdout.listener, record.stderr.listener = stream_listeners(policy.secret_values)
            record.result.note_reader = note_reader(policy.secret_values)
            self._later(policy.timeout_ms / 1000, self.stop, "timeout")
        if self._over_quota is not None:
            self._later(self.watch_seconds, self._look)
        self._feed()
        self.started.set()

    def _terminated(self, end: Mapping[str, Any]) -> None:
        record = self.record
        self._ended = True
        self._measure()
        if "problem" in end:
            record.returncode = 1
            record.stderr.add(str(end["problem"]).encode())
        else:
            record.returncode = int(end["code"])
            if self._engine.counts:
                record.out_of_memory, record.out_of_processes = bool(end["out_of_memory"]), bool(end["out_of_processes"])
                record.memory_peak = int(end["memory_peak"]) if end["memory_peak"] else None
            record.drained = not end["left"]
        self._let_go()
        if record.drained:  # nothing runs there any more, and to see it removed would take a fifth of a second
            self._kill()

    def _measure(self) -> None:
        if self._begun_at:
            self.record.duration_ms = round((time.monotonic() - self._begun_at) * 1000)

    def _keep(self, kind: bytes, data: bytes) -> None:
        """One piece of a stream; what is over its limit ends the run."""
        record, policy = self.record, self._policy
        streams: Mapping[bytes, tuple[PipeBuffer, int, Status]] = {
            frames.OUTPUT: (record.stdout, policy.output_bytes, "output_limit"),
            frames.ERRORS: (record.stderr, policy.output_bytes, "output_limit"),
            frames.RESULT: (record.result, policy.result_bytes, "result_invalid"),
        }
        received, cap, reason = streams[kind]
        if self.record.reason is not None:
            return
        if received.note_reader is not None:
            data = received.note_reader.split_notes(data)
        remaining = cap - received.size
        received.add(data[: max(remaining, 0)])
        if len(data) > remaining:
            self.stop(reason)

    def _write(self, data: bytes) -> None:
        if self._process is not None and self._process.stdin is not None and not self._process.stdin.is_closing():
            self._process.stdin.write(data)

    def _feed(self) -> None:
        """Send as much of the input as the window has room for, and its end after it."""
        if not self.record.begun:
            return
        while self._input and self._window > 0:
            piece = self._input[: min(self._window, frames.LONGEST)]
            self._input = self._input[len(piece) :]
            self._window -= len(piece)
            self._write(frames.frame(frames.INPUT, bytes(piece)))
        if not self._input and self._input_ends:
            self._input_ends = False
            self._write(frames.frame(frames.INPUT))

    def _look(self) -> None:
        """What was written to folders of the machine."""
        if self._ended or self.finished.is_set():
            return
        if self._over_quota is not None and self._over_quota([]):
            self.stop("output_limit")
        self._timers = [timer for timer in self._timers if timer.when() > self._loop.time() and not timer.cancelled()]
        self._later(self.watch_seconds, self._look)

    def _later(self, seconds: float, call: Callable[..., None], *values: object) -> None:
        self._timers.append(self._loop.call_later(seconds, call, *values))

    def _give_up(self) -> None:
        if not self.record.begun and not self.finished.is_set():
            self.record.words[:0] = f"{self._engine.kind} did not start the container in {_START_SECONDS:.0f} s. ".encode()
            self._let_go()

    def _let_go(self) -> None:
        """Close the input, at which the container ends; where even that does not help the engine ends it."""
        if self._process is None or self._process.stdin is None or self.finished.is_set():
            return
        if not self._killed:
            self._killed = True
            with contextlib.suppress(OSError):
                self._process.stdin.transport.abort()
            self._later(_END_SECONDS, self._force)

    def _force(self) -> None:
        if self._process is None or self.finished.is_set():
            return
        self._removing = self._loop.run_in_executor(None, self._engine.remove, self._name)
        self._removing.add_done_callback(self._kill)

    def _kill(self, _: object = None) -> None:
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()


class ContainerConnections:
    """Gives each connection of a container to its proxy, carried in frames; `send` writes a frame to the container.

    No port of the machine is opened and no socket is mounted.
    """

    def __init__(self, proxy: Proxy, send: Callable[[bytes], object]) -> None:
        self._proxy = proxy
        self._send = send
        self._open: dict[int, _CarriedConnection] = {}

    def take(self, kind: bytes, number: int, payload: bytes) -> None:
        """One frame about a connection; what does not fit the others is answered with its end."""
        carried = self._open.get(number)
        if kind == frames.CONNECTION:
            if carried is not None or len(self._open) >= self._proxy.limits.connections:
                self._send(frames.frame(frames.ABORTED, b"", number))
                return
            ours, theirs = socket.socketpair()
            self._proxy.serve(theirs)
            self._open[number] = _CarriedConnection(number, ours, self._send, self._closed)
        elif carried is not None:
            carried.take(kind, payload)

    def _closed(self, number: int) -> None:
        self._open.pop(number, None)

    async def close(self) -> None:
        """End all of them."""
        for carried in tuple(self._open.values()):
            carried.task.cancel()
        await asyncio.gather(*(carried.task for carried in self._open.values()), return_exceptions=True)


class _CarriedConnection:
    """One connection: bytes from the container wait in a queue, bytes for it until its window has room."""

    def __init__(
        self, number: int, link: socket.socket, send: Callable[[bytes], object], closed: Callable[[int], object]
    ) -> None:
        self._number = number
        self._send = send
        self._queue: asyncio.Queue[bytes] = asyncio.Queue()
        self._waiting = 0
        self._window = frames.WINDOW
        self._room = asyncio.Event()
        self._room.set()
        self._ended_by_container = False
        self.task = asyncio.create_task(self._carry(link))
        self.task.add_done_callback(lambda _: closed(number))

    def take(self, kind: bytes, payload: bytes) -> None:
        """One frame from the container."""
        if kind == frames.TAKEN:
            self._window += int.from_bytes(payload, "big")
            self._room.set()
        elif kind == frames.ABORTED:
            self._ended_by_container = True
            self.task.cancel()
        elif kind in (frames.DATA, frames.FINISHED):
            self._waiting += len(payload)
            if self._waiting > frames.WINDOW:  # more than anybody who keeps the rules would send
                self.task.cancel()
                return
            self._queue.put_nowait(payload if kind == frames.DATA else b"")

    async def _carry(self, link: socket.socket) -> None:
        reader, writer = await asyncio.open_connection(sock=link)
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._outward(writer))
                both.create_task(self._inward(reader))
        except BaseException as error:
            if not self._ended_by_container:
                self._send(frames.frame(frames.ABORTED, b"", self._number))
            if isinstance(error, asyncio.CancelledError):
                raise
        finally:
            writer.transport.abort()

    async def _outward(self, writer: asyncio.StreamWriter) -> None:
        """From the container to the proxy."""
        while piece := await self._queue.get():
            writer.write(piece)
            await writer.drain()
            self._waiting -= len(piece)
            self._send(frames.taken(len(piece), self._number))
        writer.write_eof()

    async def _inward(self, reader: asyncio.StreamReader) -> None:
        """From the proxy to the container."""
        while True:
            while self._window <= 0:
                self._room.clear()
                await self._room.wait()
            piece = await reader.read(min(_PIECE, self._window))
            self._window -= len(piece)
            self._send(frames.frame(frames.DATA if piece else frames.FINISHED, piece, self._number))
            if not piece:
                return
