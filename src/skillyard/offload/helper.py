"""The program of a helper process: it reads one call after another from a pipe and writes the result of each.

It is a fresh interpreter, so that nothing of the caller's program is imported or run again; it imports what a call names. It
ends when its parent does: idle, because the pipe ends; at work, because the kernel ends it (`PR_SET_PDEATHSIG`) and because
an alarm that nobody handles goes off a little after the deadline.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection


READY: Final = b"ready"
"""What a helper says when it can be called."""
_PR_SET_PDEATHSIG: Final = 1
_AFTER_DEADLINE_S: Final = 5
_progress: Callable[[str], None] | None = None


def report_progress(subject: str) -> None:
    """Report what is worked on from now on, like the name of a file: an error of the work names it, its own deadline begins.

    Outside of a helper process it does nothing.
    """
    if _progress is not None:
        _progress(subject)


def serve(parent: int) -> None:
    """Work on what comes in until the pipe ends; `parent` is the id of the process that started this one."""
    _die_with(parent)
    # What a library prints must not come between the answers.
    incoming, outgoing = os.dup(0), os.dup(1)
    with open(os.devnull, "r+b") as nowhere:  # noqa: PTH123 # pathlib is loaded when a call needs it
        os.dup2(nowhere.fileno(), 0)
        os.dup2(nowhere.fileno(), 1)
    from multiprocessing.connection import Connection

    calls, answers = Connection(incoming, writable=False), Connection(outgoing, readable=False)
    answers.send_bytes(READY)
    while True:
        try:
            data = calls.recv_bytes()
        except EOFError:
            return
        if not _work(data, answers):
            return


def _work(data: bytes, answers: Connection) -> bool:
    """Make one call and answer it; whether this process is fit for another one."""
    import pickle

    global _progress
    _progress = lambda subject: answers.send_bytes(pickle.dumps(("progress", subject)))  # noqa: E731
    try:
        seconds, memory, function, arguments = pickle.loads(data)  # noqa: S301 # our parent wrote it
        signal.setitimer(signal.ITIMER_REAL, seconds + _AFTER_DEADLINE_S)
        limited = _limit_memory(memory)
        answer = pickle.dumps(("result", function(*arguments)))
    except MemoryError:
        answer = b""
    except Exception as error:
        answer = _written(error)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        _progress = None
    if not answer:
        answers.send_bytes(pickle.dumps(("memory", None)))
        return False
    if limited:
        _limit_memory(0)
    answers.send_bytes(answer)
    return True


def _written(error: Exception) -> bytes:
    """An error as an answer; one that cannot be sent as it is becomes a sentence."""
    import pickle

    try:
        answer = pickle.dumps(("error", error))
        pickle.loads(answer)  # noqa: S301 # what was just written: some errors cannot be built again
    except Exception:
        return pickle.dumps(("failed", f"{type(error).__name__}: {error}"[:500]))
    return answer


def _limit_memory(size: int) -> bool:
    """Allow this process `size` more bytes of address space than it has now; 0 lifts the limit."""
    import resource

    try:
        with open("/proc/self/statm", "rb") as file:  # noqa: PTH123
            now = int(file.read().split()[0]) * resource.getpagesize()
    except OSError:
        return False  # not Linux: there the deadline alone holds
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    soft = now + size if size else hard
    if hard != resource.RLIM_INFINITY:
        soft = min(soft, hard)
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
    return True


def _die_with(parent: int) -> None:
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it ended before the request to the kernel
        os._exit(0)
