"""Files of our own: replaced in one step, and changed by one process at a time."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Final

__all__ = ["locked", "replace_file"]

_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_LOCK: Final = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


def replace_file(path: str | os.PathLike[str], data: bytes, *, mode: int = 0o600, durable: bool = True) -> None:
    """Write `data` beside `path` and move it into place, so that a reader finds the old file or the new one, never a part.

    `mode` are the new file's permissions. `durable` waits until the disk has it, so that a crash leaves one or the other too.

    Raises:
        OSError: it cannot be written; the old file is as it was, and nothing is left beside it.
    """
    beside = f"{os.fspath(path)}.{os.getpid()}-{os.urandom(4).hex()}"
    descriptor = os.open(beside, _NEW, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(descriptor, mode)
            if durable:
                os.fsync(descriptor)
        os.replace(beside, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(beside)
        raise


@contextlib.contextmanager
def locked(path: str | os.PathLike[str]) -> Iterator[None]:
    """Keep other processes out while the file `path` is read, changed and replaced; the lock is the file `path.lock`.

    Raises:
        OSError: the lock cannot be made.
    """
    import fcntl  # only who writes needs it

    descriptor = os.open(f"{os.fspath(path)}.lock", _LOCK, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
