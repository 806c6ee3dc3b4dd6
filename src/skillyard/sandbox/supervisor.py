"""Watches one sandboxed process from start to end: pipes, clock, memory, and the end of its whole tree.

Everything happens on the event loop's own readers and timers: no threads, no polling where the kernel has events. Time to kill,
caps on output and the drain after the end are decided here, so that no run can keep its caller waiting.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from skillyard.sandbox.cgroups import Cgroup, move_tree, remove_empty, started_in_cgroup
from skillyard.sandbox.job import Status
from skillyard.sandbox.policy import Policy
from skillyard.sandbox.process_launch import Descriptors, Pipes, SandboxCommand, open_pipes, receive_listener, spawn
from skillyard.sandbox.processes import descendants, kernel_memory_bytes, memory_in_use
from skillyard.sandbox.run_output import PipeBuffer, ProcessRecord, note_reader, stream_listeners

if TYPE_CHECKING:
    from skillyard.network import RunProxy


_CHUNK: Final = 1 << 16
_DRAIN_SECONDS: Final = 2.0  # a busy kernel takes longer than half a second to end the last process of a sandbox
_GRACE_SECONDS: Final = 0.2
_WATCH_SECONDS: Final = 0.025


async def supervise(
    make_command: Callable[[Descriptors], SandboxCommand],
    *,
    policy: Policy,
    stdin: bytes,
    files: Sequence[bytes],
    cgroup: Cgroup | None,
    over_quota: Callable[[list[int]], bool] | None = None,
    proxy_listener: RunProxy | None = None,
) -> ProcessRecord:
    """Start the command, feed it, wait for its end or end it, and clean up; never longer than the timeout and a moment.

    `files` are given to the program as open files in memory. `over_quota` is called now and then, with the numbers of all
    processes below the program, whether the run has written too much. `proxy_listener` gets the listener that the run's first
    program hands out, before the skill starts.
    """
    watch = SupervisedProcess(policy, cgroup, over_quota, proxy_listener)
    try:
        watch.start(make_command, stdin, files)
        await watch.finished.wait()
    finally:
        await watch.close()
    return watch.record


class SupervisedProcess:
    """The state of one supervised process; one that `waits` has its interpreter stand at the gate until `begin`.

    One with a `channel` stays: its input remains open for `send`, it has no time limit, and what it writes to its result pipe
    goes to the channel, piece by piece as it comes, and is not kept.
    """

    def __init__(
        self,
        policy: Policy,
        cgroup: Cgroup | None,
        over_quota: Callable[[list[int]], bool] | None,
        proxy_listener: RunProxy | None,
        *,
        waits: bool = False,
        channel: Callable[[bytes], object] | None = None,
    ) -> None:
        self.record = ProcessRecord()
        self.record.result.sink = channel
        self.watch_seconds = _WATCH_SECONDS
        self.finished = asyncio.Event()
        self._policy = policy
        self._cgroup = cgroup
        self._over_quota = over_quota
        self._proxy_listener = proxy_listener
        self._gate = -1
        # what the gate waits for
        self._awaited = {"tree", *(["proxy_listener"] if proxy_listener else []), *(["job"] if waits else [])}
        self._opened = False
        self._stdin = -1
        self._loop = asyncio.get_running_loop()
        self._process: subprocess.Popen[bytes] | None = None
        self._own_reaper = False
        self._readers: set[int] = set()
        self._writers: dict[int, memoryview] = {}
        self._timers: list[asyncio.TimerHandle] = []
        self._pidfd = -1
        self._memory_event = -1
        self._started = 0.0
        self._moving: asyncio.Future[bool] | None = None

    def start(self, make_command: Callable[[Descriptors], SandboxCommand], stdin: bytes, files: Sequence[bytes]) -> None:
        """Start the process and attach everything to the loop."""
        pipes = open_pipes(files, proxy_listener=self._proxy_listener is not None)
        try:
            command = make_command(pipes.descriptors)
            self._own_reaper = command.own_reaper
            self._started = time.monotonic()
            with started_in_cgroup(self._cgroup) as inside:
                self._process = spawn(command, pipes)
            pipes.close_theirs()
            with os.fdopen(pipes.take("control"), "wb", buffering=0) as control, contextlib.suppress(BrokenPipeError):
                control.write(command.control)
            self._attach(pipes)
            self._admit(pipes.take("gate"), inside=inside)
            if "job" not in self._awaited:
                self._hand_over(stdin)
        finally:
            pipes.close()

    @property
    def pid(self) -> int:
        """The number of the started program, the root of its tree; 0 before it was started."""
        return self._process.pid if self._process else 0

    @property
    def alive(self) -> bool:
        """Whether the process still runs and nothing has ended it."""
        if self._pidfd == -1 or self.record.reason is not None:
            return False
        poller = select.poll()
        poller.register(self._pidfd, select.POLLIN)
        return not poller.poll(0)

    def begin(self, stdin: bytes) -> bool:
        """Hand a waiting process its job; `False` when it has ended. Its time counts from here."""
        if not self.alive:
            return False
        self._started = time.monotonic()
        self._hand_over(stdin)
        return self._ready("job")

    def send(self, data: bytes) -> bool:
        """Write more to the input of a process with a channel; `False` when it takes no more."""
        rest = self._writers.get(self._stdin)
        if rest is None:
            return False
        self._writers[self._stdin] = memoryview(bytes(rest) + data)
        if not rest:
            self._writable(self._stdin)
        return self._stdin in self._writers

    def _hand_over(self, stdin: bytes) -> None:
        """Give the input, and let the clock and the watchdog start; from now on listeners get the notes of this run."""
        self._writers[self._stdin] = memoryview(stdin)
        self._writable(self._stdin)
        if self.record.result.sink is None:
            self.record.stdout.listener, self.record.stderr.listener = stream_listeners(self._policy.secret_values)
            self.record.result.note_reader = note_reader(self._policy.secret_values)
            self._later(self._policy.timeout_ms / 1000, self.stop, "timeout")
        if self._cgroup is None or self._over_quota is not None:
            self._later(_WATCH_SECONDS, self._look)

    def _attach(self, pipes: Pipes) -> None:
        assert self._process is not None  # noqa: S101 # started just above
        self._pidfd = os.pidfd_open(self._process.pid)
        self._loop.add_reader(self._pidfd, self._exited)
        record, policy = self.record, self._policy
        self._read(pipes.take("stdout"), record.stdout, policy.output_bytes, "output_limit")
        self._read(pipes.take("stderr"), record.stderr, policy.output_bytes, "output_limit")
        self._read(pipes.take("result"), record.result, policy.result_bytes, "result_invalid")
        self._stdin = pipes.take("stdin")
        self._writers[self._stdin] = memoryview(b"")
        if self._cgroup and (event := self._cgroup.watch_memory()) is not None:
            self._memory_event = event
            self._loop.add_reader(event, self.stop, "memory")
        if self._proxy_listener is not None:
            fd = pipes.take("proxy_listener")
            self._readers.add(fd)
            self._loop.add_reader(fd, self._handed_out, fd, self._proxy_listener)

    def _admit(self, gate: int, *, inside: bool) -> None:
        """Open the gate as soon as the whole tree is in its cgroup.

        Where it is not born there it is moved, in a thread, while the sandbox and the interpreter start.
        """
        self._gate = gate
        if self._cgroup is None or inside:
            self._ready("tree")
            return
        assert self._process is not None  # noqa: S101 # started just above
        self._moving = self._loop.run_in_executor(None, move_tree, self._cgroup, self._process.pid)
        self._moving.add_done_callback(self._admitted)

    def _admitted(self, moving: asyncio.Future[bool]) -> None:
        if not moving.cancelled() and moving.exception() is None and moving.result():
            self._ready("tree")
        else:
            self.stop("unavailable")

    def _handed_out(self, fd: int, proxy_listener: RunProxy) -> None:
        """The run's first program hands out its listener, or has ended without."""
        listener = receive_listener(fd)
        self._drop_reader(fd)
        if listener is not None:
            proxy_listener.open(listener)
            self._ready("proxy_listener")

    def _ready(self, what: str) -> bool:
        """Open the gate when nothing else is awaited; `False` when no process waits for it any more."""
        self._awaited.discard(what)
        if self._awaited or self._gate == -1:
            return True
        self._opened = _open_gate(self._gate)  # whether it was passed is read at the end
        return self._opened

    def _read(self, fd: int, received: PipeBuffer, cap: int, reason: Status) -> None:
        self._readers.add(fd)
        self._loop.add_reader(fd, self._readable, fd, received, cap, reason)

    def _later(self, seconds: float, call: Callable[..., None], *values: object) -> None:
        self._timers.append(self._loop.call_later(seconds, call, *values))

    def _readable(self, fd: int, received: PipeBuffer, cap: int, reason: Status) -> None:
        try:
            data = os.read(fd, _CHUNK)
        except BlockingIOError:
            return
        if not data:
            self._drop_reader(fd)
            return
        if received.note_reader is not None:
            data = received.note_reader.split_notes(data)
        remaining = cap - received.size
        received.add(data[: max(remaining, 0)])
        if len(data) > remaining:
            self.stop(reason)

    def _drop_reader(self, fd: int) -> None:
        if fd in self._readers:
            self._readers.discard(fd)
            self._loop.remove_reader(fd)
            os.close(fd)
        self._settle()

    def _writable(self, fd: int) -> None:
        try:
            self._writers[fd] = self._writers[fd][os.write(fd, self._writers[fd][:_CHUNK]) :]
        except BlockingIOError:
            pass
        except OSError:  # the other side closed it: it wants no more
            self._drop_writer(fd)
            return
        if self._writers[fd]:
            self._loop.add_writer(fd, self._writable, fd)
        elif self.record.result.sink is not None:
            self._loop.remove_writer(fd)
        else:
            self._drop_writer(fd)

    def _drop_writer(self, fd: int) -> None:
        if self._writers.pop(fd, None) is not None:
            self._loop.remove_writer(fd)
            os.close(fd)

    def _exited(self) -> None:
        """The started program has ended: read what is left in the pipes, then close them even if another process holds them."""
        self._loop.remove_reader(self._pidfd)
        assert self._process is not None  # noqa: S101 # a pidfd exists only for a started process
        try:
            end = os.waitid(os.P_PIDFD, self._pidfd, os.WEXITED)
        except ChildProcessError:
            end, self.record.unseen = None, True
        if end is not None:
            self.record.returncode = end.si_status if end.si_code == os.CLD_EXITED else -end.si_status
        self._process.returncode = self.record.returncode
        os.close(self._pidfd)
        self._pidfd = -1
        self.record.duration_ms = round((time.monotonic() - self._started) * 1000)
        self._later(_DRAIN_SECONDS, self._give_up)
        self._settle()

    def _give_up(self) -> None:
        self.record.drained = not self._readers
        for fd in tuple(self._readers):
            self._drop_reader(fd)

    def _settle(self) -> None:
        if self._pidfd == -1 and not self._readers:
            self.finished.set()

    def _look(self) -> None:
        """The watchdog where no cgroup counts: the sum over the whole tree, and what was written."""
        if self._process is None or self._pidfd == -1:
            return
        pids = descendants(self._process.pid)
        if self._over_quota and self._over_quota(pids):
            self.stop("output_limit")
        elif self._cgroup is None:
            if len(pids) > self._policy.pids + 8:
                self.stop("pids")
            elif self._too_much_memory(pids):
                self.stop("memory")
        self._timers = [timer for timer in self._timers if timer.when() > self._loop.time() and not timer.cancelled()]
        self._later(self.watch_seconds, self._look)

    def _too_much_memory(self, pids: list[int]) -> bool:
        left = self._policy.memory_bytes - kernel_memory_bytes(pids)
        return left < 0 or memory_in_use(pids, enough=left) > left

    def stop(self, reason: Status) -> None:
        """End the whole tree for `reason`; the first reason stays."""
        self.record.reason = self.record.reason or reason
        if self._process is None or self._pidfd == -1:
            return
        if self._own_reaper and self._cgroup is None:
            self._signal(signal.SIGTERM)
            self._later(_GRACE_SECONDS, self._kill)
        else:
            self._kill()

    def _kill(self) -> None:
        """SIGKILL for everyone: the program stands still first, so that it starts nothing between look and kill."""
        if self._process is None or self._pidfd == -1:
            return
        self._signal(signal.SIGSTOP)
        if self._cgroup:
            self._cgroup.kill()
        for pid in descendants(self._process.pid):
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(OSError):
            signal.pidfd_send_signal(self._pidfd, number)

    async def close(self) -> None:
        """Leave nothing: no process, no timer, no descriptor, no cgroup; also when the caller was cancelled."""
        if self._process is not None and self._pidfd == -1 and self._process.returncode is None:
            self._process.kill()  # it never got as far as being watched
            self._process.wait()
        self._kill()
        while self._pidfd != -1:
            await asyncio.sleep(0.001)
        if self._moving is not None:
            await asyncio.wait([self._moving])
        await self._close_channels()
        for timer in self._timers:
            timer.cancel()
        if self._memory_event != -1:
            self._loop.remove_reader(self._memory_event)
            os.close(self._memory_event)
        for fd in tuple(self._writers):
            self._drop_writer(fd)
        for fd in tuple(self._readers):
            self._drop_reader(fd)
        if self._cgroup:
            self._close_cgroup(self._cgroup)

    async def _close_channels(self) -> None:
        """Close the ways into the run and out of it that are neither log nor result.

        What was put into the gate is read when the run has passed it. Nothing of a skill runs before, and no other process has
        the other end, so a script can neither fill the gate again nor stay before it.
        """
        if self._gate != -1:
            self.record.begun = self._opened and not _unread(self._gate)
            os.close(self._gate)
            self._gate = -1
        if self._proxy_listener is not None:
            await self._proxy_listener.close()

    def _close_cgroup(self, cgroup: Cgroup) -> None:
        """Read what the group counted; there is no need to wait until the kernel has removed the last process from it."""
        self.record.out_of_memory = cgroup.out_of_memory()
        self.record.out_of_processes = cgroup.out_of_processes()
        self.record.memory_peak = cgroup.memory_peak()
        self._loop.run_in_executor(None, remove_empty, cgroup)


def _open_gate(gate: int) -> bool:
    try:
        os.write(gate, b"1")
    except OSError:  # the run is over already
        return False
    return True


def _unread(pipe: int) -> int:
    """How many unread bytes a pipe holds; either end will do."""
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder)
