"""Files and folders: replaced in one step, changed by one process at a time, never read further than a limit; private caches.

A cache file of one user has plain values behind a checksum, in a file that only its owner can have written. The content is
`marshal` data, which is the trust Python puts in its own `.pyc` files. A file of another user, that others may write, that is a
link, or that does not match its checksum counts as absent and is rewritten.
"""

from __future__ import annotations

import contextlib
import errno
import marshal
import os
import stat
import struct
import sys
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from skillyard.errors import FileTooLarge
from skillyard.paths import CLOEXEC, DIRECTORY, HAS_FOLDER_DESCRIPTORS, NOFOLLOW, NONBLOCK, owner_id, refuse_reserved
from skillyard.text import limit_words

if TYPE_CHECKING:
    import io


_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | NOFOLLOW | CLOEXEC
_READ: Final = os.O_RDONLY | NOFOLLOW | CLOEXEC
_WAITING: Final = 16
"""How many files are waited for at once: file systems write the journal once for all who wait, so this is what saves time."""
_FEW: Final = 8
_HERE: Final = -100  # AT_FDCWD: a path is taken from the folder that the process is in
_EXCHANGE: Final = 2  # RENAME_EXCHANGE of Linux, RENAME_SWAP of macOS
_LOCK: Final = os.O_RDWR | os.O_CREAT | NOFOLLOW | CLOEXEC


def read_limited(path: str | os.PathLike[str], limit: int) -> bytes:
    """The bytes of a file, of which no more than `limit` and one are ever read.

    Raises:
        FileTooLarge: the file is longer than `limit`.
        OSError: it cannot be read.
    """
    refuse_reserved(path)
    with open(path, "rb") as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise FileTooLarge(f"{os.fspath(path)} is over {limit_words(limit)}", hint="make it shorter")
    return data


def replace_file(
    path: str | os.PathLike[str], data: bytes | Iterable[bytes | memoryview], *, mode: int = 0o600, durable: bool = True
) -> None:
    """Write `data` beside `path` and move it into place, so that a reader finds the old file or the new one, never a part.

    `mode` are the new file's permissions. `durable` waits until the disk has it, so that a crash leaves one or the other too.

    Raises:
        OSError: it cannot be written; the old file is as it was, and nothing is left beside it.
    """
    beside = f"{os.fspath(path)}.{os.getpid()}-{os.urandom(4).hex()}"
    try:
        descriptor = os.open(beside, _NEW, 0o600)
    except OSError as error:
        error.filename = os.fspath(path)  # which people know
        raise
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.writelines([data] if isinstance(data, bytes) else data)
            file.flush()
            if hasattr(os, "fchmod"):
                os.fchmod(descriptor, mode)
            if durable:
                os.fsync(descriptor)
        try:
            os.replace(beside, path)
        except OSError as error:
            error.filename, error.filename2 = os.fspath(path), None  # which people know
            raise
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(beside)
        raise


def write_output(path: str | os.PathLike[str], data: bytes, *, mode: int = 0o644) -> None:
    """Write `data` where a user says: whole or not at all to a file, through a link to it; as it is to a device or a pipe.

    What is below /dev and /proc, such as `/dev/null` and `/dev/stdout`, is opened and never replaced.

    Raises:
        OSError: it cannot be written.
    """
    given = os.path.abspath(path)
    with contextlib.suppress(FileNotFoundError):
        kind = os.stat(given).st_mode
        if given.startswith(("/dev/", "/proc/")) or not (stat.S_ISREG(kind) or stat.S_ISDIR(kind)):
            with os.fdopen(os.open(given, os.O_WRONLY | os.O_APPEND | CLOEXEC), "wb") as stream:
                stream.write(data)
            return
    replace_file(os.path.realpath(given), data, mode=mode)


@contextlib.contextmanager
def locked(path: str | os.PathLike[str]) -> Iterator[None]:
    """Keep other processes out while the file `path` is read, changed and replaced; the lock is the file `path.lock`.

    Raises:
        OSError: the lock cannot be made.
    """
    with lock_file(f"{os.fspath(path)}.lock"):
        yield


@contextlib.contextmanager
def lock_file(path: str | os.PathLike[str]) -> Iterator[None]:
    """Hold the lock that is the file `path`, made when it is missing; waits until nobody else holds it.

    Raises:
        OSError: the lock cannot be made.
    """
    descriptor = os.open(path, _LOCK, 0o600)
    try:
        _wait_for_lock(descriptor)
        yield
    finally:
        os.close(descriptor)


def _wait_for_lock(descriptor: int) -> None:
    if sys.platform == "win32":
        import msvcrt
        import time

        while True:
            with contextlib.suppress(OSError):  # it gives up after ten seconds
                msvcrt.locking(descriptor, msvcrt.LK_LOCK, 1)
                return
            time.sleep(0.05)
    import fcntl  # only who writes needs it

    fcntl.flock(descriptor, fcntl.LOCK_EX)


def move_folder(folder: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
    """Move a finished folder to `target` on the same file system; an existing one is replaced atomically and deleted.

    Whoever looks finds the old folder or the new one, also after a crash. On a file system that cannot exchange two folders a
    crash may leave the old one beside it, as `.<name>.<random>`.

    Raises:
        OSError: it cannot be moved.
    """
    os.chmod(folder, 0o755)  # noqa: S103 # folders of skills are for everybody to read
    if not os.path.lexists(target):
        os.rename(folder, target)
        return
    wait_for_disk(
        [path for above, _, names in os.walk(folder) for path in (*(os.path.join(above, name) for name in names), above)]
    )
    if _exchanged(folder, target):
        _remove(folder)
        return
    above, name = os.path.split(os.path.abspath(target))
    aside = os.path.join(above, f".{name}.{os.urandom(4).hex()}")
    os.rename(target, aside)
    os.rename(folder, target)
    _remove(aside)


def wait_for_disk(paths: Sequence[str], *, within: int | None = None) -> None:
    """Wait until the disk has these files and folders; `within` is the descriptor of the folder that their paths begin at.

    Raises:
        OSError: one is a link, or cannot be written.
    """

    def wait(path: str) -> None:
        descriptor = os.open(path, _READ, dir_fd=within)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    if len(paths) <= _FEW:
        for path in paths:
            wait(path)
        return
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(_WAITING) as threads:
        list(threads.map(wait, paths))  # raises what one of them raised


def sync_folder(folder: str | os.PathLike[str]) -> None:
    """Wait until the disk has the names in a folder, or in the one that a link leads to.

    Raises:
        OSError: it is no folder, or cannot be written.
    """
    if not HAS_FOLDER_DESCRIPTORS:
        return  # such a system writes names with the files
    descriptor = os.open(folder, os.O_RDONLY | DIRECTORY | CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _exchanged(first: str | os.PathLike[str], second: str | os.PathLike[str]) -> bool:
    """Exchange two folders in one step; false when the system knows no way."""
    import ctypes

    library = ctypes.CDLL(None, use_errno=True)
    paths = os.fsencode(first), os.fsencode(second)
    if hasattr(library, "renameat2"):
        failed = library.renameat2(_HERE, paths[0], _HERE, paths[1], _EXCHANGE)
    elif hasattr(library, "renamex_np"):
        failed = library.renamex_np(*paths, _EXCHANGE)
    else:
        return False
    return not failed


def _remove(path: str | os.PathLike[str]) -> None:
    import shutil

    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    else:
        os.unlink(path)


def delete_tree(path: str | os.PathLike[str]) -> bool:
    """Delete a folder with everything in it, also what a program has shut or nested however deep; whether it is gone.

    For folders that untrusted programs have filled, and in which none runs any more. No link is followed; a file or a link
    at that path is deleted itself.
    """
    root = os.fspath(path)
    if os.path.islink(root) or not os.path.isdir(root):
        with contextlib.suppress(OSError):
            os.unlink(root)
    waiting = [root]
    while waiting:
        folder = waiting.pop()
        for entry in _entries(folder):
            with contextlib.suppress(OSError):
                if not entry.is_dir(follow_symlinks=False):
                    os.unlink(entry.path)
                elif folder == root:
                    waiting.append(entry.path)
                else:  # to the top, so that no path becomes too long
                    with contextlib.suppress(OSError):
                        os.chmod(entry.path, 0o700)
                    moved = os.path.join(root, os.urandom(8).hex())
                    os.rename(entry.path, moved)
                    waiting.append(moved)
        if folder != root:
            with contextlib.suppress(OSError):
                os.rmdir(folder)
    with contextlib.suppress(OSError):
        os.rmdir(root)
    return not os.path.lexists(root)


def _entries(folder: str) -> list[os.DirEntry[str]]:
    """What a folder holds, after its owner may change it again; nothing when it cannot be read, or is none."""
    if os.path.islink(folder):
        return []
    with contextlib.suppress(OSError):
        os.chmod(folder, 0o700)
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        return list(entries)
    return []


@contextlib.contextmanager
def locked_scratch(within: str | os.PathLike[str], prefix: str) -> Iterator[str]:
    """A folder `<prefix><random>` in `within`, to build things in beside their target; leftovers of dead processes go first.

    Raises:
        OSError: it cannot be made.
    """
    import fcntl
    import tempfile

    with contextlib.ExitStack() as held:
        outer = _locked_folder(within, fcntl.LOCK_EX)
        try:  # no cleanup runs between the making of a folder and its lock
            for name in os.listdir(within):
                if name.startswith(prefix):
                    _sweep(os.path.join(within, name))
            folder = held.enter_context(tempfile.TemporaryDirectory(prefix=prefix, dir=within))
            held.callback(os.close, _locked_folder(folder, fcntl.LOCK_EX))
        finally:
            os.close(outer)
        yield folder


def _locked_folder(path: str | os.PathLike[str], how: int) -> int:
    import fcntl

    descriptor = os.open(path, os.O_RDONLY | DIRECTORY | CLOEXEC)
    try:
        fcntl.flock(descriptor, how)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _sweep(path: str) -> None:
    """Remove a folder that no process has locked."""
    import fcntl

    with contextlib.suppress(OSError):
        descriptor = _locked_folder(path, fcntl.LOCK_EX | fcntl.LOCK_NB)
        try:
            _remove(path)
        finally:
            os.close(descriptor)


_READ_FLAGS: Final = os.O_RDONLY | NOFOLLOW | NONBLOCK | CLOEXEC
_HEADER: Final = 8  # four bytes that say what it is, four of the checksum
_WORTH_MAPPING: Final = 1 << 20  # bytes


def read_private_cache(path: str, kind: bytes, *, largest: int) -> Any:
    """The content of a file of this `kind`, four bytes; None when there is none, or none that can be trusted."""
    try:
        data = _bytes_of(path, largest)
    except (OSError, ValueError):  # ValueError: it became empty
        return None
    if data[:4] != kind or zlib.crc32(data[_HEADER:]).to_bytes(4, "big") != data[4:_HEADER]:
        return None
    try:
        return marshal.loads(data[_HEADER:])  # noqa: S302 - see the docstring
    except (EOFError, ValueError, TypeError):
        return None


def _bytes_of(path: str, largest: int) -> memoryview:
    """The bytes of a file of ours; a large one is mapped: copying it would take longer than its checksum.

    Raises:
        OSError, ValueError: it cannot be read.
    """
    with _opened(path, largest) as file:
        if os.fstat(file.fileno()).st_size < _WORTH_MAPPING:
            return memoryview(file.readall())
        import mmap

        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def user_cache_file(name: str) -> str:
    """The path of a private cache of this user about this machine, whatever home of Skillyard is in use."""
    root = os.environ.get("XDG_CACHE_HOME", "")
    folder = root if root.startswith("/") else os.path.expanduser("~/.cache")
    return f"{folder}/skillyard/{name}"


def write_private_cache(path: str, kind: bytes, content: Any) -> None:
    """Write the content in one step, its folder too; what cannot be written is done without."""
    body = marshal.dumps(content)
    with contextlib.suppress(OSError):
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        replace_file(path, kind + zlib.crc32(body).to_bytes(4, "big") + body, durable=False)


_LENGTHS: Final = struct.Struct("<4sIQ")  # what it is, the checksum of the content, and how long that is
_ALIGNED: Final = 64


def map_private_cache(path: str, kind: bytes, *, largest: int) -> tuple[Any, list[memoryview]] | None:
    """The content and the arrays of a file that `write_mapped_cache` wrote; None when there is none that can be trusted.

    The arrays are read from the disk where and when they are used. They outlive the file.
    """
    import mmap

    try:
        with _opened(path, largest) as file:
            data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except (OSError, ValueError):  # ValueError: it is empty
        return None
    try:
        known, checksum, length = _LENGTHS.unpack_from(data)
        body = data[_LENGTHS.size : _LENGTHS.size + length]
        if known != kind or zlib.crc32(body) != checksum:
            return None
        content, sizes = marshal.loads(body)  # noqa: S302 - written by this program, for this user alone
        arrays, at = [], _LENGTHS.size + length
        for size in sizes:
            at += -at % _ALIGNED
            arrays.append(data[at : at + size])
            at += size
    except (struct.error, EOFError, ValueError, TypeError):
        return None
    return (content, arrays) if at == len(data) else None


class CachePieces(NamedTuple):
    """An array of so many bytes as pieces, one after the other, for one that need not be in memory as a whole."""

    size: int
    pieces: Iterable[bytes | memoryview]


def write_mapped_cache(path: str, kind: bytes, content: Any, arrays: Sequence[Any]) -> None:
    """Write the content and the arrays (buffers of any numbers, or pieces) in one step; what cannot be written is done without.

    The content has a checksum, the arrays have none: the disk has them before the file is there.
    """
    pieced = [array if isinstance(array, CachePieces) else _whole(memoryview(array)) for array in arrays]
    body = marshal.dumps((content, [array.size for array in pieced]))

    def pieces() -> Iterator[bytes | memoryview]:
        yield _LENGTHS.pack(kind, zlib.crc32(body), len(body))
        yield body
        at = _LENGTHS.size + len(body)
        for array in pieced:
            yield bytes(-at % _ALIGNED)
            yield from array.pieces
            at += -at % _ALIGNED + array.size

    with contextlib.suppress(OSError):
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        replace_file(path, pieces())


def _whole(view: memoryview) -> CachePieces:
    return CachePieces(view.nbytes, [view.cast("B")] if view.nbytes else [])  # an empty one cannot be cast


@contextlib.contextmanager
def _opened(path: str, largest: int) -> Iterator[io.FileIO]:
    """Open a file of ours.

    Raises:
        OSError: it is missing, too large, no regular file, or others may write it.
    """
    descriptor = os.open(path, _READ_FLAGS)
    with os.fdopen(descriptor, "rb", buffering=0) as file:
        status = os.fstat(descriptor)
        foreign = owner_id() is not None and (status.st_uid != owner_id() or status.st_mode & 0o022)
        if foreign or not stat.S_ISREG(status.st_mode) or status.st_size > largest:
            raise OSError(errno.EINVAL, "it is not a private file of this size", path)
        yield file
