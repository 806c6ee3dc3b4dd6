"""Read many SKILL.md files with a second process, when that is quicker and safe.

From some thousand files on two processes read them: the second is a fork, which starts in a few milliseconds with everything
imported, and sends what it read back through a pipe. The files are dealt out in portions, so that neither waits for the
other: a pipe holds one byte for each portion, and who takes the byte reads the portion. A process with more than one thread
is never forked (a lock held by another thread would stay locked in the copy), and whatever goes wrong, the files are read
here.
"""

from __future__ import annotations

import marshal
import os
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

__all__ = ["WORTH_SHARING", "share"]

WORTH_SHARING: Final = 1500
"""From this many files on, a second process saves more than it costs."""
_PORTIONS: Final = 64
_PIPE_SIZE: Final = 1024 * 1024

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
_Work = Callable[[int], "list[Any]"]


def share(
    items: list[_Item],
    work: Callable[[list[_Item]], list[_Result]],
    *,
    progress: Callable[[int, int], object] | None = None,
) -> list[_Result]:
    """The results of `work` for all items, in their order; it is given portions of the list, here or in a second process.

    What `work` gives back must be plain values, which `marshal` can carry. `progress(done, total)` is called now and then.
    """
    size = -(-len(items) // _PORTIONS) or 1

    def read(portion: int) -> list[_Result]:
        start = portion * size
        if progress:
            progress(start, len(items))
        return work(items[start : start + size])

    portions = range(-(-len(items) // size))
    done = _shared(portions, read) if len(items) >= WORTH_SHARING and _may_fork() else {}
    return [result for portion in portions for result in (done[portion] if portion in done else read(portion))]


def _may_fork() -> bool:
    """Whether there is a second processor and this process has one thread only, native ones included."""
    try:
        return len(os.sched_getaffinity(0)) > 1 and len(os.listdir("/proc/self/task")) == 1
    except (AttributeError, OSError):
        return False  # not Linux: threads cannot be counted


def _shared(portions: range, read: _Work) -> dict[int, list[Any]]:
    """The portions that two processes read; those of a helper that failed are missing."""
    tickets, desk = os.pipe()
    os.write(desk, bytes(portions))
    os.close(desk)
    try:
        helper = _Helper(tickets, read)
    except OSError:  # no more processes
        os.close(tickets)
        return {}
    try:
        done = {portion: read(portion) for portion in _claimed(tickets)}
    finally:
        os.close(tickets)
        rest = helper.result()
    return done | rest


def _claimed(tickets: int) -> Iterator[int]:
    """Portions nobody else reads, until there are none left."""
    while ticket := os.read(tickets, 1):
        yield ticket[0]


class _Helper:
    """A forked process that takes tickets and sends back what it read."""

    def __init__(self, tickets: int, read: _Work) -> None:
        self.pipe, other_end = os.pipe()
        try:
            self.process = os.fork()
        except OSError:
            os.close(self.pipe)
            os.close(other_end)
            raise
        if self.process == 0:
            _work(other_end, tickets, read)
        os.close(other_end)

    def result(self) -> dict[int, list[Any]]:
        """What the helper read; nothing when it failed."""
        with os.fdopen(self.pipe, "rb") as pipe:
            data = pipe.read()
        _, status = os.waitpid(self.process, 0)
        if status != 0:
            return {}
        done: dict[int, list[Any]] = marshal.loads(data)  # noqa: S302 - sent by our own fork through a private pipe
        return done


def _work(pipe: int, tickets: int, read: _Work) -> None:
    """The life of the helper: it ends here, without running what the parent would run at its end."""
    code = 1
    try:
        import fcntl

        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE_SIZE)
        with os.fdopen(pipe, "wb") as stream:
            stream.write(marshal.dumps({portion: read(portion) for portion in _claimed(tickets)}))
        code = 0
    finally:
        os._exit(code)
