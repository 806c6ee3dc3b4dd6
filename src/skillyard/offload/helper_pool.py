"""A few helper processes that stay warm, a bounded line of callers before them, and how threads and event loops call them."""

from __future__ import annotations

import atexit
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

from skillyard.errors import HelperFailed, HelpersBusy, WorkMemoryExceeded, WorkProblem, WorkTimedOut
from skillyard.offload.helper import READY

_KEPT: Final = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
"""The variables that a helper inherits: where programs, libraries and time zones are, and nothing that could be a secret."""
_PROGRAM: Final = "import sys; sys.path[:] = {path!r}; from skillyard.offload.helper import serve; serve({parent})"
_OUT_OF_MEMORY: Final = (-signal.SIGABRT, -signal.SIGSEGV, -signal.SIGBUS)
"""How a library in C or Rust ends that gets no memory, or no more stack."""
_START_S: Final = 60
_LARGEST_ANSWER: Final = 256 * 1024 * 1024
_HINT: Final = "make it smaller or simpler"


@dataclass(frozen=True, slots=True)
class WorkLimits:
    """What one call may take.

    `seconds` as a whole, `step_seconds` for each step that it reports with `report_progress`, `memory_mb` in MiB beyond what
    the process has.
    """

    seconds: float = 10.0
    memory_mb: int = 512
    step_seconds: float = float("inf")


class HelperProcess:
    """A helper process, which exists from now on until `close`; it executes one call at a time.

    The thread that makes it must live as long as it is used: on Linux the kernel ends a helper with the thread that started it.

    Raises:
        HelperFailed: it could not be started.
    """

    def __init__(self) -> None:
        program = _PROGRAM.format(path=[str(Path(entry).absolute()) for entry in sys.path], parent=os.getpid())
        kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
        try:
            self._process = subprocess.Popen(  # noqa: S603 # our own interpreter and program
                [sys.executable, "-I", "-c", program],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                env=kept, cwd="/", process_group=0,  # an interrupt at the terminal is ours
                bufsize=0,
            )  # fmt: skip
        except OSError as error:
            raise HelperFailed(
                f"a helper process could not be started: {error.strerror or error}",
                hint="let this user start more processes, or free memory",
            ) from None
        assert self._process.stdin is not None  # noqa: S101 # both are pipes
        assert self._process.stdout is not None  # noqa: S101
        self._calls = Connection(os.dup(self._process.stdin.fileno()), readable=False)
        self._answers = Connection(os.dup(self._process.stdout.fileno()), writable=False)
        self._process.stdin.close()
        self._process.stdout.close()
        self._wait_until_ready()

    def _wait_until_ready(self) -> None:
        """A busy machine takes its time to start an interpreter: that is no part of a call's deadline."""
        try:
            if self._answers.poll(_START_S) and self._answers.recv_bytes() == READY:
                return
        except (OSError, EOFError):
            pass
        self.close()
        code = self._process.returncode
        raise HelperFailed(f"a helper process did not start, and ended with {code}", hint="free memory, then try again")

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid

    def call(self, function: Callable[..., Any], arguments: Sequence[object], *, subject: str, limits: WorkLimits) -> Any:
        """What `function` returns there, or the error it raises; `subject` names in errors what is worked on.

        After any of the errors below the process is of no more use.

        Raises:
            WorkTimedOut: a deadline has passed.
            WorkMemoryExceeded: the memory is not enough.
            HelperFailed: the process ended, or answered what cannot be read.
        """
        seconds, step_seconds, memory_mb = limits.seconds, limits.step_seconds, limits.memory_mb
        ends = time.monotonic() + seconds
        at: str | None = None
        try:
            self._calls.send_bytes(pickle.dumps((seconds, memory_mb << 20, function, tuple(arguments))))
            while True:
                left = min(ends - time.monotonic(), step_seconds)
                if left <= 0 or not self._answers.poll(left):
                    raise _timed_out(subject, at, seconds if left < step_seconds else step_seconds)
                kind, value = pickle.loads(self._answers.recv_bytes(_LARGEST_ANSWER))  # noqa: S301 # our own helper wrote it
                if kind == "progress":
                    at = value
                else:
                    break
        except (OSError, EOFError):  # OSError: a pipe that is closed, or an answer beyond all measure
            raise self._ended(subject, at, memory_mb) from None
        if kind == "result":
            return value
        if kind == "error":
            raise value
        if kind == "memory":
            raise _out_of_memory(subject, at, memory_mb)
        raise HelperFailed(f"{subject}: {value}", hint="this is a mistake in Skillyard: report it", at=at)

    def kill(self) -> None:
        """End the process at once, whatever it does; any thread may ask for it."""
        self._process.kill()

    def close(self) -> None:
        """End the process, wait for it, and close its pipes."""
        self.kill()
        self._process.wait()
        self._calls.close()
        self._answers.close()

    def _ended(self, subject: str, at: str | None, memory_mb: int) -> HelperFailed | WorkMemoryExceeded:
        self.kill()
        code = self._process.wait()
        if code in _OUT_OF_MEMORY:
            return _out_of_memory(subject, at, memory_mb)
        return HelperFailed(
            f"the helper process that worked on {_named(subject, at)} ended with {code}", hint="try again", at=at
        )


def _named(subject: str, at: str | None) -> str:
    return f"{subject} ({at})" if at else subject


def _timed_out(subject: str, at: str | None, seconds: float) -> WorkTimedOut:
    message = f"working on {_named(subject, at)} took longer than {seconds:g} s and was ended"
    return WorkTimedOut(message, hint=_HINT, limit_seconds=seconds, at=at)


def _out_of_memory(subject: str, at: str | None, memory_mb: int) -> WorkMemoryExceeded:
    message = f"working on {_named(subject, at)} took more than {memory_mb} MiB of memory and was ended"
    return WorkMemoryExceeded(message, hint=_HINT, limit_mb=memory_mb, at=at)


WorkOutcome = Literal["done", "timed_out", "out_of_memory", "busy", "failed", "cancelled"]
"""How a call ended; `done` is one that returned, or raised an error of its own."""

_T = TypeVar("_T")
_HELPERS: Final = max(2, min(4, os.cpu_count() or 2))
"""At least two, so that a call that runs into its deadline does not hold up all others."""
_WAITING: Final = 64
_LONGEST_WAIT_S: Final = 30.0
_IDLE_S: Final = 300.0
_CLOSING_S: Final = 5.0


@dataclass(slots=True)
class _Job:
    """One call: its request, the future of its answer, and the process that works on it now."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    subject: str
    limits: WorkLimits
    future: Future[Any] = field(default_factory=Future)
    began: float = field(default_factory=time.monotonic)
    _process: HelperProcess | None = None
    _cancelled: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def cancelled(self) -> bool:
        """Whether it was taken back."""
        with self._lock:
            return self._cancelled

    def cancel(self) -> None:
        """Take the call back: it is not begun any more, or killed."""
        self.future.cancel()
        with self._lock:
            self._cancelled = True
            if self._process is not None:
                self._process.kill()

    def work_with(self, process: HelperProcess) -> Any:
        """Execute it in `process`, which `cancel` kills meanwhile."""
        with self._lock:
            if self._cancelled:  # while the process was started
                raise CancelledError
            self._process = process
        try:
            return process.call(self.function, self.arguments, subject=self.subject, limits=self.limits)
        finally:
            with self._lock:
                self._process = None


class HelperPool:
    """At most `helpers` processes, started when calls need them and reused; idle ones end after `idle_s` seconds.

    At most `waiting` calls wait for one of them, none longer than `longest_wait_s` seconds. One thread of this process looks
    after each of them. `close` ends them; nothing can be called afterwards.
    """

    def __init__(
        self,
        helpers: int = _HELPERS,
        *,
        waiting: int = _WAITING,
        longest_wait_s: float = _LONGEST_WAIT_S,
        idle_s: float = _IDLE_S,
    ) -> None:
        self._helpers, self._waiting = helpers, waiting
        self._longest_wait_s, self._idle_s = longest_wait_s, idle_s
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._processes: set[HelperProcess] = set()
        self._open = 0  # calls that are at work or wait
        self._closed = False

    @property
    def pids(self) -> tuple[int, ...]:
        """The ids of the processes that exist now."""
        with self._lock:
            return tuple(process.pid for process in self._processes)

    def run(self, function: Callable[..., _T], *arguments: object, subject: str, limits: WorkLimits) -> _T:
        """Wait for what `function(*arguments)` returns in a helper; as `run_in_helper`."""
        job = self._submit(function, subject, limits, arguments)
        try:
            result: _T = job.future.result()
        except BaseException:  # such as an interrupt at the terminal
            job.cancel()
            raise
        return result

    async def run_async(self, function: Callable[..., _T], *arguments: object, subject: str, limits: WorkLimits) -> _T:
        """The same without holding the event loop; as `run_in_helper_async`."""
        import asyncio

        job = self._submit(function, subject, limits, arguments)
        try:
            result: _T = await asyncio.wrap_future(job.future)
        except asyncio.CancelledError:
            job.cancel()
            raise
        return result

    def close(self) -> None:
        """End every helper and refuse further calls; running calls fail."""
        with self._lock:
            self._closed = True
            threads, processes = list(self._threads), list(self._processes)
        for process in processes:
            process.kill()
        for _ in threads:
            self._jobs.put(None)
        for thread in threads:
            thread.join(_CLOSING_S)

    def _submit(self, function: Callable[..., Any], subject: str, limits: WorkLimits, arguments: tuple[Any, ...]) -> _Job:
        job = _Job(function, arguments, subject, limits)
        with self._lock:
            if self._closed:
                raise WorkProblem("the helper processes were ended", hint="this process is about to end")
            refused = self._open >= self._helpers + self._waiting
            if not refused:
                self._open += 1
                if len(self._threads) < min(self._open, self._helpers):
                    thread = threading.Thread(target=self._look_after, name="skillyard-helper", daemon=True)
                    self._threads.append(thread)
                    thread.start()
        if refused:
            _report("busy")
            raise _busy(self._longest_wait_s)
        self._jobs.put(job)
        return job

    def _look_after(self) -> None:
        """Take one call after another, with one process for all of them until it is of no more use."""
        process: HelperProcess | None = None
        while True:
            try:
                job = self._jobs.get(timeout=self._idle_s)
            except queue.Empty:
                self._ended(process)
                process = None
                continue
            if job is None:
                self._ended(process)
                return
            process = self._worked(job, process)
            with self._lock:
                self._open -= 1

    def _worked(self, job: _Job, process: HelperProcess | None) -> HelperProcess | None:
        """Complete one call; returns the process if it can take another."""
        if not job.future.set_running_or_notify_cancel():
            _report("cancelled")
            return process
        if time.monotonic() - job.began > self._longest_wait_s:
            _report("busy")
            job.future.set_exception(_busy(self._longest_wait_s))
            return process
        try:
            if process is None:
                process = self._started()
            result = job.work_with(process)
        except BaseException as error:
            if isinstance(error, WorkProblem):
                self._ended(process)
                process = None
            _report("cancelled" if job.cancelled else _outcome(error))
            job.future.set_exception(error)
        else:
            _report("done")
            job.future.set_result(result)
        return process

    def _started(self) -> HelperProcess:
        process = HelperProcess()
        with self._lock:
            self._processes.add(process)
            closed = self._closed
        if closed:
            process.kill()
        return process

    def _ended(self, process: HelperProcess | None) -> None:
        if process is not None:
            process.close()
            with self._lock:
                self._processes.discard(process)


_observers: Final[dict[object, Callable[[WorkOutcome], object]]] = {}


def observe_helpers(observer: Callable[[WorkOutcome], object]) -> Callable[[], None]:
    """Notify `observer` of the end of each call of this process, in the thread that handled it; returns a stop function."""
    key = object()
    _observers[key] = observer

    def stop() -> None:
        _observers.pop(key, None)

    return stop


def _report(outcome: WorkOutcome) -> None:
    for observer in tuple(_observers.values()):
        observer(outcome)


def _outcome(error: BaseException) -> WorkOutcome:
    """How a call ended that raised this."""
    if isinstance(error, WorkTimedOut):
        return "timed_out"
    if isinstance(error, WorkMemoryExceeded):
        return "out_of_memory"
    return "failed" if isinstance(error, WorkProblem) else "done"


def _busy(wait_s: float) -> HelpersBusy:
    return HelpersBusy(
        "every helper process is busy with other work", hint="try again in a few seconds", retry_after=max(1, round(wait_s / 6))
    )


_shared: HelperPool | None = None
_sharing = threading.Lock()


def _pool() -> HelperPool:
    """The pool of this process."""
    global _shared
    with _sharing:
        if _shared is None:
            _shared = HelperPool()
            atexit.register(_shared.close)
        return _shared


def _forget() -> None:
    """A forked child has none of the threads, and the processes are its parent's."""
    global _shared, _sharing
    if _shared is not None:
        atexit.unregister(_shared.close)
    _shared, _sharing = None, threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def run_in_helper(function: Callable[..., _T], *arguments: object, subject: str, limits: WorkLimits) -> _T:
    """What `function(*arguments)` returns, worked out in a helper process; any thread may wait for it.

    `function` is one of a module of ours, its arguments and its result can be pickled; paths are absolute, for a helper works
    elsewhere. `subject` says in errors what is worked on: "the input schema", "the file `x.md`". What the function raises is
    raised here.

    Raises:
        WorkTimedOut, WorkMemoryExceeded: it took more than `limits`; the process was killed and is replaced by another.
        HelpersBusy: too many calls wait already.
        HelperFailed: no process could be started, or it broke.
    """
    return _pool().run(function, *arguments, subject=subject, limits=limits)


async def run_in_helper_async(function: Callable[..., _T], *arguments: object, subject: str, limits: WorkLimits) -> _T:
    """As `run_in_helper`, without holding the event loop; a task that is cancelled while it waits kills the work.

    Raises:
        WorkTimedOut, WorkMemoryExceeded, HelpersBusy, HelperFailed: as `run_in_helper`.
    """
    return await _pool().run_async(function, *arguments, subject=subject, limits=limits)
