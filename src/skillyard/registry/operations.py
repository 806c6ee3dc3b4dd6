"""Where an operation works until it is done: a folder of its own beside the versions, and the sign that it is alive.

An operation holds a lock on `.work/{id}.lock`, which the kernel lets go when the process dies, by `kill -9` too. Whoever comes
next finds what is left and may take it over: nobody else can, and nobody takes over what is still alive.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from skillyard.registry.versions import delete_tree, real_folder

__all__ = ["Operations", "Workplace", "new_operation_id"]

_LOCK: Final = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_NAME: Final = re.compile(r"op_[0-9a-f]{28}\.lock")


def new_operation_id() -> str:
    """A unique id that sorts by time."""
    return f"op_{time.time_ns() // 1000:014x}{os.urandom(7).hex()}"


class Workplace:
    """One operation that this process may work on: its `id`, and a `folder` for what is not finished."""

    def __init__(self, operation_id: str, folder: Path) -> None:
        self.id = operation_id
        self.folder = folder
        self.settled = False
        """Whether the records know how it ended; else what is left stays for the next start."""


class Operations:
    """The operations below one root of skills."""

    def __init__(self, root: Path) -> None:
        self.folder = root / ".work"

    @contextlib.contextmanager
    def begin(self, operation_id: str | None = None) -> Iterator[Workplace]:
        """A new operation, with an id that was made for it or another; its folder is gone afterwards when it was settled."""
        real_folder(self.folder, 0o700)
        name = operation_id or new_operation_id()
        with self._gate():
            descriptor = os.open(self.folder / f"{name}.lock", _LOCK, 0o600)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        operation = Workplace(name, self.folder / name)
        try:
            operation.folder.mkdir(mode=0o700)
            yield operation
        finally:
            self._leave(operation, descriptor)

    def abandoned(self) -> Iterator[Workplace]:
        """Every operation whose process is gone, held while the caller puts it in order."""
        if not self.folder.exists():
            return
        real_folder(self.folder, 0o700)
        for name in sorted(entry.name for entry in self.folder.iterdir() if _NAME.fullmatch(entry.name)):
            with self._gate():
                descriptor = self._try_hold(self.folder / name)
            if descriptor is None:
                continue
            operation = Workplace(name.removesuffix(".lock"), self.folder / name.removesuffix(".lock"))
            try:
                operation.folder.mkdir(mode=0o700, exist_ok=True)
                yield operation
            finally:
                self._leave(operation, descriptor)

    def _leave(self, operation: Workplace, descriptor: int) -> None:
        try:
            if operation.settled:
                delete_tree(operation.folder)
                self.folder.joinpath(f"{operation.id}.lock").unlink(missing_ok=True)
        finally:
            os.close(descriptor)

    def _try_hold(self, path: Path) -> int | None:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        if os.fstat(descriptor).st_nlink == 0:  # its operation ended a moment ago
            os.close(descriptor)
            return None
        return descriptor

    @contextlib.contextmanager
    def _gate(self) -> Iterator[None]:
        """Between making a lock and holding it nobody may look."""
        descriptor = os.open(self.folder / "gate", _LOCK, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)
