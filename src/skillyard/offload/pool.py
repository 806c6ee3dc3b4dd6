"""A few helper processes that stay warm, a bounded line of callers before them, and how threads and event loops call them."""

from __future__ import annotations

import atexit
import os
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from skillyard.errors import HelpersBusy, WorkMemoryExceeded, WorkProblem, WorkTimedOut

if TYPE_CHECKING:
    from skillyard.offload.process import HelperProcess


WorkOutcome = Literal["done", "timed_out", "out_of_memory", "busy", "failed", "cancelled"]
"""How a call ended; `done` is one that returned, or raised an error of its own."""

_T = TypeVar("_T")
_HELPERS: Final = max(2, min(4, os.cpu_count() or 2))
"""At least two, so that a call that runs into its deadline does not hold up all others."""
_WAITING: Final = 64
_LONGEST_WAIT_S: Final = 30.0
_IDLE_S: Final = 300.0
_CLOSING_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class WorkLimits:
    """What one call may take: `seconds` as a whole, `step_seconds` for each step it reports, `memory_mb` in MiB."""

    seconds: float = 10.0
    memory_mb: int = 512
    step_seconds: float = float("inf")


@dataclass(slots=True)
class _Job:
    """One call: what is asked, where the answer goes, and the process that works on it now."""

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
        """Let `process` work on it, which `cancel` kills meanwhile."""
        with self._lock:
            if self._cancelled:  # while the process was started
                raise CancelledError
            self._process = process
        try:
            return process.call(
                self.function, self.arguments, subject=self.subject, seconds=self.limits.seconds,
                step_seconds=self.limits.step_seconds, memory_mb=self.limits.memory_mb,
            )  # fmt: skip
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
            found: _T = job.future.result()
        except BaseException:  # such as an interrupt at the terminal
            job.cancel()
            raise
        return found

    async def run_async(self, function: Callable[..., _T], *arguments: object, subject: str, limits: WorkLimits) -> _T:
        """The same without holding the event loop; as `run_in_helper_async`."""
        import asyncio

        job = self._submit(function, subject, limits, arguments)
        try:
            found: _T = await asyncio.wrap_future(job.future)
        except asyncio.CancelledError:
            job.cancel()
            raise
        return found

    def close(self) -> None:
        """End every helper and refuse further calls; calls that go on fail."""
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
        """Bring one call to its end; the process for the next one, if it is fit for it."""
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
        from skillyard.offload.process import HelperProcess

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
    """Let `observer` know how each call of this process ends, in the thread that looked after it; gives what ends that."""
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


os.register_at_fork(after_in_child=_forget)


def run_in_helper(function: Callable[..., _T], *arguments: object, subject: str, limits: WorkLimits) -> _T:
    """What `function(*arguments)` returns, worked out in a helper process; any thread may wait for it.

    `function` is one of a module of ours, its arguments and its result can be pickled; paths are absolute, for a helper works
    elsewhere. `subject` says in errors what is worked on: "the input schema", "the file `x.md`". What the function raises is
    raised here.

    Raises:
        WorkTimedOut, WorkMemoryExceeded: it took more than `limits`; the process was killed and another takes its place.
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
