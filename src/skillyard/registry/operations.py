"""Operations while they run: their scratch folder with its lock, their log, and subscribers to how they ended.

A running operation holds a lock on `.work/{id}.lock`, which the kernel releases when the process dies. The next process finds
abandoned operations and recovers them.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from skillyard.errors import DatabaseUnavailable, InstallProblem
from skillyard.files import delete_tree, lock_file
from skillyard.paths import CLOEXEC, HAS_FOLDER_DESCRIPTORS, NOFOLLOW
from skillyard.registry.model import Operation, Progress, ProgressEvent
from skillyard.registry.version_store import ensure_real_folder

_LOCK: Final = os.O_RDWR | os.O_CREAT | NOFOLLOW | CLOEXEC
_NAME: Final = re.compile(r"op_[0-9a-f]{28}\.lock")


def new_operation_id() -> str:
    """A unique id that sorts by time."""
    return f"op_{time.time_ns() // 1000:014x}{os.urandom(7).hex()}"


@dataclass(slots=True)
class RunningOperation:
    """One operation that this process may work on: its `id`, and a `folder` for what is not finished."""

    id: str
    folder: Path
    settled: bool = False
    """Whether the records know how it ended; else what is left stays for the next start."""


class Operations:
    """The operations below one root of skills."""

    def __init__(self, root: Path) -> None:
        self.folder = root / ".work"

    @contextmanager
    def begin(self, operation_id: str | None = None) -> Iterator[RunningOperation]:
        """A new operation, with an id that was made for it or another; its folder is deleted afterwards when it was settled."""
        if not HAS_FOLDER_DESCRIPTORS:
            raise InstallProblem(
                "skills can be installed on Linux and macOS only: versions are kept behind links and locks of their kind",
                hint="use WSL 2, or copy the skill's folder into one of your roots",
            )
        import fcntl  # not on every platform

        ensure_real_folder(self.folder, 0o700)
        name = operation_id or new_operation_id()
        with self._gate():
            descriptor = os.open(self.folder / f"{name}.lock", _LOCK, 0o600)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        operation = RunningOperation(name, self.folder / name)
        try:
            operation.folder.mkdir(mode=0o700)
            yield operation
        finally:
            self._leave(operation, descriptor)

    def abandoned(self) -> Iterator[RunningOperation]:
        """Every operation whose process has ended, locked while the caller settles it."""
        if not self.folder.exists():
            return
        ensure_real_folder(self.folder, 0o700)
        for name in sorted(entry.name for entry in self.folder.iterdir() if _NAME.fullmatch(entry.name)):
            with self._gate():
                descriptor = self._try_hold(self.folder / name)
            if descriptor is None:
                continue
            operation = RunningOperation(name.removesuffix(".lock"), self.folder / name.removesuffix(".lock"))
            try:
                operation.folder.mkdir(mode=0o700, exist_ok=True)
                yield operation
            finally:
                self._leave(operation, descriptor)

    def _leave(self, operation: RunningOperation, descriptor: int) -> None:
        try:
            if operation.settled and delete_tree(operation.folder):  # else whoever comes next deletes it
                self.folder.joinpath(f"{operation.id}.lock").unlink(missing_ok=True)
        finally:
            os.close(descriptor)

    def _try_hold(self, path: Path) -> int | None:
        import fcntl  # not on every platform

        try:
            descriptor = os.open(path, os.O_RDWR | NOFOLLOW | CLOEXEC)
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

    def _gate(self) -> AbstractContextManager[None]:
        """No other process may see a lock between making and holding it."""
        return lock_file(self.folder / "gate")


@dataclass(slots=True)
class OpenLog:
    """The open log of an operation on one skill; its duration is that of its own steps, without waiting."""

    write: Callable[..., None]  # the id of the log, and columns by keyword
    id: str
    operation_id: str
    operation: Operation
    source: str | None
    progress: Progress | None = None
    skill_id: str | None = None
    steps: list[dict[str, object]] = field(default_factory=list)

    @contextmanager
    def step(self, name: str, percent: int) -> Iterator[None]:
        """One step of the operation: reported when it begins, timed, recorded when the next one begins."""
        self.write(self.id, status="in_progress", step=name, progress=percent, steps=self.steps)
        if self.progress is not None:
            self.progress(ProgressEvent(name, percent, self.skill_id))
        started = time.monotonic()
        entry: dict[str, object] = {"name": name, "progress": percent}
        self.steps.append(entry)
        try:
            yield
        except BaseException:
            entry["duration_ms"] = _milliseconds_since(started)
            with suppress(DatabaseUnavailable):  # why it failed is more than how long it took
                self.write(self.id, steps=self.steps)
            raise
        entry["duration_ms"] = _milliseconds_since(started)

    def ending(self) -> dict[str, object]:
        """The columns that every ended log has."""
        spent = sum(taken for step in self.steps if isinstance(taken := step.get("duration_ms"), int))
        return {"steps": self.steps, "completed_at": datetime.now(UTC), "duration_ms": spent}


def _milliseconds_since(began: float) -> int:
    return round((time.monotonic() - began) * 1000)


_OperationListener = Callable[[str, str], object]
_listeners: Final[dict[object, _OperationListener]] = {}


def subscribe_operations(listener: _OperationListener) -> Callable[[], None]:
    """Call `listener` with the action (`install`, `yank`, …) and its outcome (`success`, `failed`); gives what ends that."""
    mine = object()
    _listeners[mine] = listener

    def stop() -> None:
        _listeners.pop(mine, None)

    return stop


def publish_operation(action: str, outcome: str) -> None:
    """Report it to every listener."""
    for listener in tuple(_listeners.values()):
        listener(action, outcome)
