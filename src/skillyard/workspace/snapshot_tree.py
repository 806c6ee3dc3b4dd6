"""What lies in the folder of a workspace, entry by entry, and how entries are put there.

The folder was filled by untrusted programs, which may still run in it: every folder on the way is opened without following
links, and only regular files are read. What cannot be read counts as unchanged.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from skillyard.errors import FileTooLarge
from skillyard.paths import is_reserved

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_DEEPEST: Final = 64
_CHUNK: Final = 1 << 20
_SETTLED_NS: Final = 50_000_000  # a file that was changed so lately may change again without another time
_MODES: Final = 0o777

Mark = tuple[int, int, int, int]
"""The number, size and times of a file, by which a change of it shows."""


class SnapshotEntry(NamedTuple):
    """One file (`f`), link (`l`) or empty folder (`d`): its mode, its size in bytes, what is in it, when it was changed.

    `content` is the digest of a file, the target of a link. `modified` is in nanoseconds since 1970.
    """

    kind: Literal["f", "l", "d"]
    mode: int
    size: int
    content: str
    modified: int = 0

    def is_like(self, other: SnapshotEntry | None) -> bool:
        """Whether it is the same but for its time."""
        return other is not None and self[:4] == other[:4]


@dataclass(frozen=True, slots=True)
class SnapshotLimits:
    """How large a folder may be: entries, and bytes of all its files."""

    entries: int = 100_000
    total: int = 2 * 1024 * 1024 * 1024


@dataclass(slots=True)
class FolderScan:
    """What lies in a folder: entries and marks by path. Nothing can be said of the paths `unread` and what is below them."""

    entries: dict[str, SnapshotEntry] = field(default_factory=dict)
    marks: dict[str, Mark] = field(default_factory=dict)
    unread: set[str] = field(default_factory=set)

    def knows(self, path: str) -> bool:
        """Whether it has an entry for a path."""
        return not self.unread or not any(path == one or path.startswith(f"{one}/") or not one for one in self.unread)


def scan_folder(root: str, known: Mapping[str, SnapshotEntry], marks: Mapping[str, Mark], limits: SnapshotLimits) -> FolderScan:
    """Everything in a folder; files whose mark is the one in `marks` are as in `known` and are not read.

    Raises:
        FileTooLarge: it is over the limits.
    """
    scan = FolderScan()
    try:
        opened = os.open(root, _FOLDER)
    except OSError:
        scan.unread.add("")
        return scan
    _Scanner(scan, known, marks, limits).look(opened, "", 0)
    return scan


class _Scanner:
    """One scan; `total` are the bytes that were found."""

    def __init__(
        self, scan: FolderScan, known: Mapping[str, SnapshotEntry], marks: Mapping[str, Mark], limits: SnapshotLimits
    ) -> None:
        self.scan = scan
        self.known = known
        self.marks = marks
        self.limits = limits
        self.total = 0

    def look(self, folder: int, prefix: str, depth: int) -> None:
        """Note everything in an open folder, which is closed at the end."""
        try:
            names = sorted(os.listdir(folder))
            mode = os.fstat(folder).st_mode
            if not names and prefix:
                self._note(prefix[:-1], SnapshotEntry("d", mode & _MODES, 0, ""))
            for name in names:
                self._look_at(folder, name, f"{prefix}{name}", depth)
        except OSError:
            self.scan.unread.add(prefix[:-1])
        finally:
            os.close(folder)

    def _look_at(self, folder: int, name: str, path: str, depth: int) -> None:
        try:
            state = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if stat.S_ISDIR(state.st_mode):
                if depth >= _DEEPEST:
                    self.scan.unread.add(path)
                else:
                    self.look(os.open(name, _FOLDER, dir_fd=folder), f"{path}/", depth + 1)
            elif stat.S_ISLNK(state.st_mode):
                self._note(path, SnapshotEntry("l", 0, 0, os.readlink(name, dir_fd=folder)))
            elif stat.S_ISREG(state.st_mode) and not is_reserved(name, within=folder):
                self._file(folder, name, path, state)
        except OSError:
            self.scan.unread.add(path)

    def _file(self, folder: int, name: str, path: str, state: os.stat_result) -> None:
        known, mark = self.known.get(path), mark_of(state)
        if known is not None and self.marks.get(path) == mark and known.mode == state.st_mode & _MODES:
            self._note(path, known, mark)
            return
        file = os.open(name, _FILE, dir_fd=folder)
        with os.fdopen(file, "rb", buffering=0) as source:
            before = os.fstat(file)
            if not stat.S_ISREG(before.st_mode):
                return
            self._check(path, before.st_size)
            digest, size = hashlib.sha256(), 0
            while piece := source.read(min(_CHUNK, self.limits.total + 1 - size)):
                digest.update(piece)
                size += len(piece)
            settled = mark_of(os.fstat(file)) == mark_of(before) and before.st_ctime_ns < time.time_ns() - _SETTLED_NS
            entry = SnapshotEntry("f", before.st_mode & _MODES, size, f"sha256:{digest.hexdigest()}", before.st_mtime_ns)
            self._note(path, entry, mark_of(before) if settled else None)

    def _note(self, path: str, entry: SnapshotEntry, mark: Mark | None = None) -> None:
        self._check(path, entry.size)
        self.total += entry.size
        self.scan.entries[path] = entry
        if mark is not None:
            self.scan.marks[path] = mark

    def _check(self, path: str, size: int) -> None:
        if self.total + size > self.limits.total or len(self.scan.entries) >= self.limits.entries:
            raise FileTooLarge(
                f"there is too much in the workspace to keep (at {path[:100]!r})",
                hint=f"at most {self.limits.entries} files, {self.limits.total} bytes in all: delete what is not needed",
            )


def open_entry(root: str, path: str) -> int | None:
    """The regular file at a path, open; None when there is none. No link is followed, and no name is refused."""
    *parents, name = path.split("/")
    opened: list[int] = []
    try:
        opened.append(os.open(root, _FOLDER))
        for parent in parents:
            opened.append(os.open(parent, _FOLDER, dir_fd=opened[-1]))
        file = os.open(name, _FILE, dir_fd=opened[-1])
    except OSError:
        return None
    finally:
        for folder in opened:
            os.close(folder)
    if stat.S_ISREG(os.fstat(file).st_mode):
        return file
    os.close(file)
    return None


def mark_of(state: os.stat_result) -> Mark:
    """The mark of a file."""
    return state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns


class FolderWriter:
    """Puts entries into a folder, each in one step, and belonging to who the folder belongs to.

    `beside` is a folder of ours on the same file system, where files are built.
    """

    def __init__(self, root: str, beside: str) -> None:
        self._root = root
        self._beside = beside
        shutil.rmtree(beside, ignore_errors=True)
        os.mkdir(beside, 0o700)
        self._owner = os.stat(root)

    def close(self) -> None:
        """Leave nothing beside the folder."""
        shutil.rmtree(self._beside, ignore_errors=True)

    @contextlib.contextmanager
    def building(self) -> Iterator[tuple[int, str]]:
        """A new file, open for writing, and its path; what was not put in place is gone at the end."""
        path = f"{self._beside}/{os.urandom(8).hex()}"
        file = os.open(path, _NEW, 0o600)
        try:
            yield file, path
        finally:
            os.close(file)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)

    def put_file(self, path: str, entry: SnapshotEntry, file: int, built: str) -> Mark:
        """Move a built file to its path, in place of what is there; its mark."""
        os.fchmod(file, entry.mode)
        self._give(file)
        os.utime(file, ns=(entry.modified, entry.modified))
        with self._parent(path) as (folder, name):
            _clear(folder, name, but="f")
            os.rename(built, name, dst_dir_fd=folder)
            return mark_of(os.fstat(file))

    def put_link(self, path: str, entry: SnapshotEntry) -> None:
        """Make a link; nobody follows it here."""
        with self._parent(path) as (folder, name):
            _clear(folder, name)
            os.symlink(entry.content, name, dir_fd=folder)
            if os.geteuid() == 0:
                os.chown(name, self._owner.st_uid, self._owner.st_gid, dir_fd=folder, follow_symlinks=False)

    def put_folder(self, path: str, entry: SnapshotEntry) -> None:
        """Make an empty folder."""
        with self._parent(path) as (folder, name):
            opened = self._below(folder, name)
            os.fchmod(opened, entry.mode | stat.S_IRWXU)
            os.close(opened)

    def remove(self, path: str) -> None:
        """Delete what is at a path, and the folders above it that are empty then."""
        *parents, name = path.split("/")
        opened = [os.open(self._root, _FOLDER)]
        try:
            for parent in parents:
                opened.append(os.open(parent, _FOLDER, dir_fd=opened[-1]))
            _clear(opened[-1], name)
            for depth in range(len(parents), 0, -1):
                os.rmdir(parents[depth - 1], dir_fd=opened[depth - 1])
        except OSError:  # it is gone already, or a folder is not empty
            return
        finally:
            for folder in opened:
                os.close(folder)

    def _give(self, file: int) -> None:
        if os.geteuid() == 0:
            os.fchown(file, self._owner.st_uid, self._owner.st_gid)

    @contextlib.contextmanager
    def _parent(self, path: str) -> Iterator[tuple[int, str]]:
        *parents, name = path.split("/")
        at = os.open(self._root, _FOLDER)
        try:
            for parent in parents:
                below = self._below(at, parent)
                os.close(at)
                at = below
            yield at, name
        finally:
            os.close(at)

    def _below(self, folder: int, name: str) -> int:
        """The folder of that name, open; made when there is none, in place of anything else."""
        _clear(folder, name, but="d")
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, 0o755, dir_fd=folder)
            self._give(made := os.open(name, _FOLDER, dir_fd=folder))
            return made
        return os.open(name, _FOLDER, dir_fd=folder)


def _clear(folder: int, name: str, *, but: str = "") -> None:
    """Delete what has that name, unless it is a folder (`d`), or no folder (`f`)."""
    try:
        is_folder = stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return
    if but == ("d" if is_folder else "f"):
        return
    if is_folder:
        shutil.rmtree(name, dir_fd=folder)
    else:
        os.unlink(name, dir_fd=folder)
