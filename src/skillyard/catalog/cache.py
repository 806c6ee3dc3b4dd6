"""Remember what each SKILL.md said, so that an unchanged tree costs one `stat` per file and opens none.

One file per root and profile in the cache folder, replaced in one step, readable by its owner only. A file counts as unchanged
when its mode, size, mtime and inode are; one that was written less than a tenth of a second before it was read is read again,
because a second change could carry the same time stamp.

The content is `marshal` data behind a checksum, which is the trust Python puts in its own `.pyc` files: whoever can write there
as this user can already run code as this user. A file that belongs to someone else, that others may write, that another version
of Skillyard or Python wrote, or that does not match its checksum is ignored and written anew.
"""

from __future__ import annotations

import contextlib
import marshal
import os
import sys
import zlib
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from skillyard._version import __version__

if TYPE_CHECKING:
    from skillyard.catalog.model import Facts, Found

__all__ = ["Snapshot", "load_snapshot", "save_snapshot"]

_MAGIC: Final = b"SKYD"
_FORMAT: Final = 1
_UNSETTLED_NS: Final = 100_000_000
_LARGEST: Final = 512 * 1024 * 1024
_READ_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC


class Snapshot(NamedTuple):
    """What one root held when it was last read: the files and, in the same order, what they said."""

    found: list[Found]
    facts: list[Facts]


def load_snapshot(folder: str, root: str, profile: str) -> Snapshot | None:
    """What is remembered of `root`; None when nothing is, or nothing that can be trusted."""
    try:
        data = _read(_file(folder, root, profile))
    except OSError:
        return None
    if data is None or data[:4] != _MAGIC or zlib.crc32(memoryview(data)[8:]).to_bytes(4, "big") != data[4:8]:
        return None
    try:
        written_by, path, found, facts = marshal.loads(memoryview(data)[8:])  # noqa: S302 - see the docstring
    except (EOFError, ValueError, TypeError):
        return None
    return Snapshot(found, facts) if (written_by, path) == (_code_stamps(), root) else None


def save_snapshot(folder: str, root: str, profile: str, snapshot: Snapshot, *, read_at_ns: int) -> None:
    """Remember `snapshot`, read at `read_at_ns` (wall clock); a cache that cannot be written is done without."""
    from skillyard.files import replace_file  # an unchanged tree writes nothing

    latest = read_at_ns - _UNSETTLED_NS
    found = [one if one[4] < latest else (*one[:4], -1, one[5]) for one in snapshot.found]
    content: tuple[Any, ...] = (_code_stamps(), root, found, snapshot.facts)
    body = marshal.dumps(content)
    with contextlib.suppress(OSError):
        os.makedirs(folder, mode=0o700, exist_ok=True)
        replace_file(_file(folder, root, profile), _MAGIC + zlib.crc32(body).to_bytes(4, "big") + body, durable=False)


def _file(folder: str, root: str, profile: str) -> str:
    key = root.encode("utf-8", "surrogateescape")
    return f"{folder}/{zlib.crc32(key):08x}{zlib.adler32(key):08x}-{profile}-{_FORMAT}.{sys.implementation.cache_tag}"


def _code_stamps() -> tuple[object, ...]:
    """What decides how a file is read: the version, and size and time of every file of the code that reads it."""
    stamps: list[tuple[str, int, int]] = []
    package = os.path.dirname(os.path.dirname(__file__))
    for room in ("document", "catalog"):
        with contextlib.suppress(OSError), os.scandir(f"{package}/{room}") as entries:
            for entry in entries:
                if entry.name.endswith(".py"):
                    status = entry.stat()
                    stamps.append((entry.name, status.st_size, status.st_mtime_ns))
    return __version__, tuple(sorted(stamps))


def _read(path: str) -> bytes | None:
    descriptor = os.open(path, _READ_FLAGS)
    try:
        status = os.fstat(descriptor)
        if status.st_uid != os.geteuid() or status.st_mode & 0o022 or status.st_size > _LARGEST:
            return None
        return os.read(descriptor, status.st_size)
    finally:
        os.close(descriptor)
