"""Map a function over many items with the help of one forked process, when that is quicker and safe.

The items are dealt out in portions: a pipe holds one byte for each portion, and the process that reads it does the portion;
results of the fork come back through shared memory. A process with more than one thread is never forked, and whatever goes
wrong, the work is done in this process.
"""

from __future__ import annotations

import contextlib
import errno
import marshal
import os
import signal
from collections.abc import Callable, Iterator
from typing import IO, TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from mmap import mmap


WORTH_FORKING: Final = 1500
"""From this many files on, a second process saves more than it costs."""
_PORTIONS: Final = 128  # at most 255
_ROOM: Final = 16 * 1024
"""Bytes of shared memory for each item: only what is written to is ever taken from the machine."""

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
_Work = Callable[[int], "list[Any]"]


def forked_map(
    items: list[_Item],
    work: Callable[[list[_Item]], list[_Result]],
    *,
    progress: Callable[[int, int], object] | None = None,
    least: int | None = None,
) -> list[_Result]:
    """The results of `work` for all items, in their order; it is given portions of the list, here or in a second process.

    What `work` gives back must be plain values, which `marshal` can write, and it may be asked twice for one portion.
    `progress(done, total)` is called now and then. `least` items are worth a second process (`WORTH_FORKING` when left out).
    """
    size = -(-len(items) // _PORTIONS) or 1

    def read(portion: int) -> list[_Result]:
        start = portion * size
        if progress:
            progress(start, len(items))
        return work(items[start : start + size])

    portions = range(-(-len(items) // size))
    done = _shared(portions, read, len(items) * _ROOM) if len(items) >= (least or WORTH_FORKING) and _may_fork() else {}
    return [result for portion in portions for result in (done[portion] if portion in done else read(portion))]


class PortionFiles:
    """What portions leave that is too large for memory: in a file without a name for each of the two processes.

    Make it before `forked_map`, `put` from within `work`, and close it at the end. Where no file can be made or written, memory
    holds what is put.
    """

    def __init__(self, folder: str | None) -> None:
        """`folder` is made where it is missing; None is where the system keeps temporary files."""
        import tempfile

        self._owner = os.getpid()
        self._files: tuple[IO[bytes], ...] = ()
        with contextlib.suppress(OSError):
            if folder:
                os.makedirs(folder, mode=0o700, exist_ok=True)
            self._files = tuple(tempfile.TemporaryFile(dir=folder, buffering=0) for _ in range(2))  # noqa: SIM115 - as long as this

    @classmethod
    def in_memory(cls) -> PortionFiles:
        """Without files, for little."""
        made = cls.__new__(cls)
        made._owner, made._files = 0, ()
        return made

    def close(self) -> None:
        """Give the disk back what it holds."""
        for file in self._files:
            file.close()

    def put(self, data: bytes) -> bytes | tuple[int, int]:
        """Keep the data; returned is what `get` takes, a plain value."""
        if not self._files:
            return data
        number = int(os.getpid() != self._owner)
        file = self._files[number]
        try:
            place = file.seek(0, os.SEEK_END)
            return (number, place) if file.write(data) == len(data) else data
        except OSError:  # such as a full disk
            return data

    def get(self, kept: bytes | tuple[int, int], begin: int, length: int) -> bytes:
        """So many bytes of what was put, from `begin`.

        Raises:
            OSError: the disk does not give them back.
        """
        if isinstance(kept, bytes):
            return kept[begin : begin + length]
        number, place = kept
        self._files[number].seek(place + begin)
        data = self._files[number].read(length)
        if len(data) != length:
            raise OSError(errno.EIO, "a file without a name is shorter than what was written to it")
        return data


def _may_fork() -> bool:
    """Whether there is a second processor and this process has one thread only, native ones included."""
    try:
        return len(os.sched_getaffinity(0)) > 1 and len(os.listdir("/proc/self/task")) == 1
    except (AttributeError, OSError):
        return False  # not Linux: threads cannot be counted


def _shared(portions: range, read: _Work, room: int) -> dict[int, list[Any]]:
    """The portions that two processes read; those of a helper that failed are missing."""
    tickets, writer = os.pipe()
    os.write(writer, bytes(portions))
    os.close(writer)
    try:
        helper = _Helper(tickets, read, room)
    except OSError:  # no more processes, or no memory
        os.close(tickets)
        return {}
    try:
        done = {portion: read(portion) for portion in _claimed(tickets)}
    except BaseException:  # such as an interrupt at the terminal: nobody waits for the rest
        helper.stop()
        raise
    finally:
        os.close(tickets)
        rest = helper.result()
    return done | rest


def _claimed(tickets: int) -> Iterator[int]:
    """Portions claimed from the shared pipe, until there are none left."""
    while ticket := os.read(tickets, 1):
        yield ticket[0]


class _Helper:
    """A forked process that takes tickets and leaves what it read in shared memory."""

    def __init__(self, tickets: int, read: _Work, room: int) -> None:
        from mmap import mmap  # few scans are long enough to need it

        self.memory = mmap(-1, room)
        self.process = os.fork()
        if self.process == 0:
            _work(self.memory, tickets, read)

    def stop(self) -> None:
        """End it at once."""
        os.kill(self.process, signal.SIGKILL)

    def result(self) -> dict[int, list[Any]]:
        """What the helper read; nothing when it failed."""
        _, status = os.waitpid(self.process, 0)
        done: dict[int, list[Any]] = {}
        if status == 0:
            while length := int.from_bytes(self.memory.read(8), "big"):
                portion, results = marshal.loads(self.memory.read(length))  # noqa: S302 - written by our own fork
                done[portion] = results
        self.memory.close()
        return done


def _work(memory: mmap, tickets: int, read: _Work) -> None:
    """The life of the helper: it ends here, without running what the parent would run at its end.

    Each portion is written as its length in 8 bytes and its bytes; the zeros of untouched memory are the end. When the memory
    is full the helper ends with what fits, and the parent reads the rest.
    """
    code = 1
    try:
        for portion in _claimed(tickets):
            data = marshal.dumps((portion, read(portion)))
            if memory.tell() + len(data) + 16 > len(memory):
                break
            memory.write(len(data).to_bytes(8, "big") + data)
        code = 0
    finally:
        os._exit(code)
