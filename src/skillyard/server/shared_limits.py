"""Buckets that the processes of one server share: what one of them has let through counts in every other.

They lie in a file that all have mapped into memory, so that counting asks no database. A slot is the caller, as a number, and
the time at which the bucket is full again; a caller has eight slots it may be in, and the one that is full for longest is given
to a new one. Only the processes of one machine share a clock: servers on several machines each count for themselves.
"""

from __future__ import annotations

import fcntl
import hashlib
import mmap
import os
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from skillyard.server.limits import Bucket

if TYPE_CHECKING:
    from skillyard.server.limits import Rate

__all__ = ["SharedBucket"]

_SLOT: Final = struct.Struct("=Qd")  # the caller, and when the bucket is full
_SLOTS: Final = 16_384
_TRIES: Final = 8


class SharedBucket(Bucket):
    """The buckets of one rate in the file at `path`, which is made when it is not there."""

    def __init__(self, rate: Rate, path: Path) -> None:
        super().__init__(rate)
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        os.ftruncate(self._file, _SLOTS * _SLOT.size)
        self._slots = mmap.mmap(self._file, _SLOTS * _SLOT.size)

    def take(self, caller: str, now: float | None = None) -> tuple[int, float]:
        """As `Bucket.take`, over all processes."""
        now = time.monotonic() if now is None else now
        with self._slot(caller) as (name, place, full_at):
            left, full_at = self._taken(full_at, now)
            if left >= 0:
                _SLOT.pack_into(self._slots, place, name, full_at)
        return left, full_at - now

    def wait(self, caller: str, now: float | None = None) -> int:
        """As `Bucket.wait`, over all processes."""
        now = time.monotonic() if now is None else now
        with self._slot(caller) as (_, _, full_at):
            return self._until(full_at, now)

    def close(self) -> None:
        """Let go of the file."""
        self._slots.close()
        os.close(self._file)

    @contextmanager
    def _slot(self, caller: str) -> Iterator[tuple[int, int, float]]:
        """The caller as a number, the place of its slot, held against the other processes, and when its bucket is full."""
        name = int.from_bytes(hashlib.blake2b(caller.encode("utf-8", "replace"), digest_size=8).digest()) or 1
        first = name % (_SLOTS - _TRIES) * _SLOT.size
        fcntl.lockf(self._file, fcntl.LOCK_EX, _TRIES * _SLOT.size, first)
        try:
            tried = [(at, *_SLOT.unpack_from(self._slots, at)) for at in range(first, first + _TRIES * _SLOT.size, _SLOT.size)]
            place, _, full_at = next((slot for slot in tried if slot[1] == name), None) or (
                min(tried, key=lambda slot: slot[2])[0], name, 0.0,
            )  # fmt: skip
            yield name, place, full_at
        finally:
            fcntl.lockf(self._file, fcntl.LOCK_UN, _TRIES * _SLOT.size, first)
