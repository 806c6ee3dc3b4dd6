"""One helper process as its parent sees it: started without the caller's secrets, called, killed, reaped."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

from skillyard.errors import HelperFailed, WorkMemoryExceeded, WorkTimedOut
from skillyard.offload.helper import READY

_KEPT: Final = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
"""The variables that a helper inherits: where programs, libraries and time zones are, and nothing that could be a secret."""
_PROGRAM: Final = "import sys; sys.path[:] = {path!r}; from skillyard.offload.helper import serve; serve({parent})"
_OUT_OF_MEMORY: Final = (-signal.SIGABRT, -signal.SIGSEGV, -signal.SIGBUS)
"""How a library in C or Rust ends that gets no memory, or no more stack."""
_START_S: Final = 60
_LARGEST_ANSWER: Final = 256 * 1024 * 1024
_HINT: Final = "make it smaller or simpler"


class HelperProcess:
    """A helper process, which exists from now on until `close`; it serves one call at a time.

    The thread that makes it must live as long as it is used: on Linux the kernel ends a helper with the thread that started it.

    Raises:
        HelperFailed: it could not be started.
    """

    def __init__(self) -> None:
        program = _PROGRAM.format(path=[str(Path(place).absolute()) for place in sys.path], parent=os.getpid())
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

    def call(
        self,
        function: Callable[..., Any],
        arguments: Sequence[object],
        *,
        subject: str,
        seconds: float,
        step_seconds: float,
        memory_mb: int,
    ) -> Any:
        """What `function` returns there, or the error it raises; `subject` names in errors what is worked on.

        `seconds` is the deadline of the whole call, `step_seconds` that of each step that it reports with `report_progress`,
        `memory_mb` how many MiB it may take beyond what the process has. After any of the errors below the process is of no
        more use.

        Raises:
            WorkTimedOut: a deadline is over.
            WorkMemoryExceeded: the memory is not enough.
            HelperFailed: the process ended, or answered what cannot be read.
        """
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
        """End the process, wait for it, and let go of its pipes."""
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
