"""The disk of a registry: `{root}/{skill_id}/{version}/`, a link `current` that is switched atomically, and running operations.

File locks decide who may change a skill: one file for each skill in `.locks`, released by the kernel when its holder dies. The
same holds for a version that somebody reads. A running operation holds a lock on `.work/{id}.lock`; the next process finds
those whose process has ended and recovers them.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from skillyard.errors import DatabaseUnavailable, InstallProblem, InvalidInput, VersionUnusable
from skillyard.files import delete_tree, lock_file, sync_folder
from skillyard.paths import CLOEXEC, DIRECTORY, HAS_FOLDER_DESCRIPTORS, NOFOLLOW
from skillyard.registry.registry_values import Operation, Progress, ProgressEvent

CURRENT: Final = "current"
_ID: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_VERSION: Final = re.compile(r"[0-9A-Za-z][0-9A-Za-z.+_-]{0,99}")
_FOLDER: Final = os.O_RDONLY | DIRECTORY | NOFOLLOW | CLOEXEC


class VersionStore:
    """The versions of all skills below `root`; every name is checked before it becomes a path."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = Path(os.path.abspath(root))  # noqa: PTH100 # links stay as they were written

    def home(self, skill_id: str) -> Path:
        """The folder of one skill. Raises InvalidInput: the id is no storage name, for example `../../etc`."""
        if not _ID.fullmatch(skill_id):
            raise InvalidInput(f"{skill_id[:100]!r} cannot be the id of a skill", hint="as `skillyard list` shows it: pdf")
        return self.root / skill_id

    def path(self, skill_id: str, version: str) -> Path:
        """The folder of one version. Raises InvalidInput: a name cannot be one."""
        if not _VERSION.fullmatch(version) or version == CURRENT:
            raise InvalidInput(f"{version[:100]!r} cannot be a version", hint="`skillyard versions NAME` lists them")
        return self.home(skill_id) / version

    def skills(self) -> list[str]:
        """The ids that have a folder, sorted."""
        if not self.root.is_dir():
            return []
        return sorted(entry.name for entry in self.root.iterdir() if _ID.fullmatch(entry.name) and entry.is_dir())

    def names(self, skill_id: str) -> list[str]:
        """The versions of a skill that are on the disk, the oldest first."""
        home = self.home(skill_id)
        if not home.is_dir():
            return []
        names = (entry.name for entry in home.iterdir() if entry.is_dir() and not entry.is_symlink())
        return sorted((name for name in names if _VERSION.fullmatch(name) and name != CURRENT), key=_version_sort_key)

    def current(self, skill_id: str) -> str | None:
        """The current version, or None."""
        try:
            name = (self.home(skill_id) / CURRENT).readlink().name
        except OSError:
            return None
        return name if _VERSION.fullmatch(name) and self.path(skill_id, name).is_dir() else None

    def free_name(self, skill_id: str, taken: set[str], moment: datetime | None = None) -> str:
        """A name for a version: the UTC time `YYYYMMDD-HHmmss`, with `-2`… when it is taken.

        It is the time now, or the `moment` at which a version was installed that comes from elsewhere.
        """
        stem = (moment or datetime.now(UTC)).astimezone(UTC).strftime("%Y%m%d-%H%M%S")
        name, number = stem, 1
        while name in taken or self.path(skill_id, name).exists():
            number += 1
            name = f"{stem}-{number}"
        return name

    def locked(self, skill_id: str) -> AbstractContextManager[None]:
        """Keep every other process and thread from changing this skill; waits for its turn."""
        return lock_file(ensure_real_folder(self.root / ".locks", 0o700) / self.home(skill_id).name)

    def place(self, tree: Path, skill_id: str, version: str) -> Path:
        """Move a finished tree, which has reached the disk, to its path, with the usual modes.

        Raises:
            VersionUnusable: there is such a version already.
            InstallProblem: a link stands where the versions of the skill belong.
        """
        target = self.path(skill_id, version)
        ensure_real_folder(target.parent, 0o755)
        if target.exists():
            raise VersionUnusable(f"{skill_id} {version} already exists", hint="install again")
        set_usual_modes(tree)
        tree.rename(target)
        sync_folder(target.parent)
        sync_folder(self.root)
        return target

    def activate(self, skill_id: str, version: str, scratch: Path) -> None:
        """Make `version` current: a link is made in `scratch` and moved over `current`, so that readers see the old or the new.

        Raises:
            VersionUnusable: there is no such version on the disk.
        """
        if not self.path(skill_id, version).is_dir():
            raise VersionUnusable(f"the files of {skill_id} {version} were removed", hint="install it again from its source")
        link = scratch / f"{skill_id}.link"
        link.unlink(missing_ok=True)
        link.symlink_to(version)
        link.replace(self.home(skill_id) / CURRENT)
        sync_folder(self.home(skill_id))

    def deactivate(self, skill_id: str) -> None:
        """Remove the link to the current version; all versions stay on the disk."""
        with suppress(FileNotFoundError):
            (self.home(skill_id) / CURRENT).unlink()
            sync_folder(self.home(skill_id))

    def remove(self, skill_id: str, version: str, scratch: Path) -> bool:
        """Delete the files of a version that is not current; False when it is being read, or does not exist.

        It is moved away in one step, so that nobody ever sees a part of it.
        """
        import fcntl  # not on every platform

        path = self.path(skill_id, version)
        if self.current(skill_id) == version:
            return False
        try:
            descriptor = os.open(path, _FOLDER)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.chmod(0o755)
            grave = scratch / f"{skill_id}-{version}"
            path.rename(grave)
        except BlockingIOError:
            return False
        finally:
            os.close(descriptor)
        delete_tree(grave)
        with suppress(OSError):  # the last one
            self.home(skill_id).rmdir()
        return True


def ensure_real_folder(path: Path, mode: int) -> Path:
    """A folder that is there afterwards and is no link, whatever somebody planted.

    Raises:
        InstallProblem: there is a link or a file at its path.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        path.mkdir(mode)
    if not stat.S_ISDIR(path.lstat().st_mode):
        raise InstallProblem(f"{path} is not a folder, or is a link to one", hint="check who put it there, and remove it")
    return path


def set_usual_modes(tree: Path) -> None:
    """Let everybody read everything in the tree, and only its owner write; what its owner may execute everybody may.

    The sandbox keeps whoever follows a skill from writing to it. The modes do not, because what is copied from a skill has the
    same, and a template that was copied is there to be written to.
    """
    for folder, names, files in os.walk(tree):
        for name in names:
            if not (path := Path(folder, name)).is_symlink():
                path.chmod(0o755)
        for name in files:
            if not (path := Path(folder, name)).is_symlink():
                path.chmod(0o755 if path.stat().st_mode & stat.S_IXUSR else 0o644)
    tree.chmod(0o755)


def _version_sort_key(name: str) -> tuple[str, int, str]:
    """The time in a version's name, then the number behind it: `…-10` comes after `…-2`."""
    stem, _, number = name[:15], name[15:16], name[16:]
    return (stem, int(number), "") if number.isdecimal() and number.isascii() else (stem, 0 if not number else 1, name)


_LOCK: Final = os.O_RDWR | os.O_CREAT | NOFOLLOW | CLOEXEC
_OPERATION: Final = re.compile(r"op_[0-9a-f]{28}\.lock")


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
        for name in sorted(entry.name for entry in self.folder.iterdir() if _OPERATION.fullmatch(entry.name)):
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
