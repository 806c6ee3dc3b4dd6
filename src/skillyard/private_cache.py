"""Cache files of one user: plain values behind a checksum, in a file that only their owner can have written.

The content is `marshal` data, which is the trust Python puts in its own `.pyc` files. A file of another user,
that others may write, that is a link, or that does not match its checksum counts as absent and is rewritten.
"""

from __future__ import annotations

import contextlib
import marshal
import os
import stat
import zlib
from typing import Any, Final

from skillyard.open_flags import CLOEXEC, NOFOLLOW, NONBLOCK, owner_id

_READ_FLAGS: Final = os.O_RDONLY | NOFOLLOW | NONBLOCK | CLOEXEC
_HEADER: Final = 8  # four bytes that say what it is, four of the checksum


def read_private_cache(path: str, kind: bytes, *, largest: int) -> Any:
    """The content of a file of this `kind`, four bytes; None when there is none, or none that can be trusted."""
    try:
        data = _read(path, largest)
    except OSError:
        return None
    view = memoryview(data)
    if data[:4] != kind or zlib.crc32(view[_HEADER:]).to_bytes(4, "big") != data[4:_HEADER]:
        return None
    try:
        return marshal.loads(view[_HEADER:])  # noqa: S302 - see the docstring
    except (EOFError, ValueError, TypeError):
        return None


def write_private_cache(path: str, kind: bytes, content: Any) -> None:
    """Write the content in one step, its folder too; what cannot be written is done without."""
    from skillyard.files import replace_file  # what has not changed is not written

    body = marshal.dumps(content)
    with contextlib.suppress(OSError):
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        replace_file(path, kind + zlib.crc32(body).to_bytes(4, "big") + body, durable=False)


def _read(path: str, largest: int) -> bytes:
    descriptor = os.open(path, _READ_FLAGS)
    try:
        status = os.fstat(descriptor)
        foreign = owner_id() is not None and (status.st_uid != owner_id() or status.st_mode & 0o022)
        if foreign or not stat.S_ISREG(status.st_mode) or status.st_size > largest:
            return b""
        with os.fdopen(os.dup(descriptor), "rb", buffering=0) as file:
            return file.readall()
    finally:
        os.close(descriptor)
