"""The folder of a workspace from outside: its files for people, without a session, and the watch over its quota.

The content of the folder was made by untrusted programs: no link is followed, and only regular files are opened.
"""

from __future__ import annotations

import asyncio
import contextlib
import mimetypes
import os
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import IO, TYPE_CHECKING, Final, Literal

from skillyard.errors import DiskFull, FileMissing, FileProblem, FileTooLarge, PathRefused
from skillyard.files import delete_tree
from skillyard.paths import open_inside, read_inside, safe_relative
from skillyard.sandbox import folder_bytes
from skillyard.wire import WireForm

if TYPE_CHECKING:
    from zipfile import ZipFile

    from skillyard.workspace.channel import SessionCall, SessionChannel

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_DEEPEST: Final = 32
_OLDEST: Final = datetime(1980, 1, 1, tzinfo=UTC)  # that a ZIP archive can say
_LATEST: Final = 4_102_444_800.0  # the year 2100
_PACKAGE_FOLDERS: Final = frozenset({"node_modules", "__pycache__"})


@dataclass(frozen=True, slots=True)
class WorkspaceFile(WireForm):
    """One regular file: its path below the folder, its size in bytes, when it was changed, its media type by its name."""

    path: str
    size: int
    modified: datetime
    media_type: str


@dataclass(frozen=True, slots=True)
class WorkspaceEntry(WireForm):
    """One file or folder: its path, its bytes (0 for a folder), when it was changed, a file's media type by its name."""

    path: str
    kind: Literal["file", "folder"]
    size: int
    modified: datetime
    media_type: str | None = None


@dataclass(frozen=True, slots=True)
class WorkspaceListing(WireForm):
    """What a folder holds, by path; `truncated` says that there is more, `size` is that of the listed files in bytes."""

    entries: tuple[WorkspaceEntry, ...]
    truncated: bool
    size: int


class WorkspaceFolder:
    """The folder of a workspace, as the interfaces see it. Methods block; call them in a thread from an event loop."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.path: Final = os.path.realpath(folder)

    def files(self, *, limit: int = 2000, hidden: bool = False) -> tuple[WorkspaceFile, ...]:
        """Its files, by path, at most `limit`.

        Those whose path has a part that begins with a dot, and those in folders such as `node_modules`, only when `hidden`.
        """
        files = (_file(entry) for entry in self._walk(hidden=hidden) if entry.kind == "file")
        return tuple(sorted(islice(files, limit), key=lambda file: file.path))

    def listing(self, *, limit: int = 2000, hidden: bool = False) -> WorkspaceListing:
        """Its files and folders, by path, at most `limit` of them; what is hidden as in `files`."""
        found = list(islice(self._walk(hidden=hidden), limit + 1))
        entries = tuple(sorted(found[:limit], key=lambda entry: entry.path))
        return WorkspaceListing(entries, len(found) > limit, sum(entry.size for entry in entries))

    def pack(self, *, limit: int, hidden: bool = False) -> IO[bytes]:
        """All of its files as a ZIP archive, in a file of its own that is gone when it is closed.

        Raises:
            FileTooLarge: they have over `limit` bytes together.
            DiskFull: there is no room for the archive.
        """
        import tempfile
        import zipfile

        packed = tempfile.TemporaryFile()  # noqa: SIM115 # who asked for it closes it
        left = limit
        try:
            with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
                for entry in self._walk(hidden=hidden):
                    left -= entry.size
                    if left < 0:
                        raise FileTooLarge(f"the files have over {limit} bytes", hint="take them one by one")
                    if entry.kind == "folder":
                        archive.mkdir(_readable(entry.path))
                    else:
                        self._pack_file(archive, entry)
            packed.seek(0)  # writes what has not been written
        except BaseException as error:
            with contextlib.suppress(OSError):  # it tries to write once more
                packed.close()
            if (full := DiskFull.of(error)) is not None:
                raise full from None
            raise
        return packed

    def _pack_file(self, archive: ZipFile, entry: WorkspaceEntry) -> None:
        from zipfile import ZIP_DEFLATED, ZipInfo

        try:
            source = os.fdopen(self.open(entry.path), "rb")
        except (FileProblem, OSError):  # gone meanwhile, or not to be read
            return
        changed = max(entry.modified, _OLDEST)
        packed = ZipInfo(_readable(entry.path), changed.timetuple()[:6])
        packed.compress_type, packed.external_attr = ZIP_DEFLATED, (stat.S_IFREG | 0o644) << 16
        packed.file_size = left = entry.size  # what has grown meanwhile is cut
        with source, archive.open(packed, "w") as sink:
            while piece := source.read(min(left, _MEBIBYTE)):
                sink.write(piece)
                left -= len(piece)

    def file(self, path: str) -> WorkspaceFile:
        """What is known of one file.

        Raises:
            PathRefused, FileMissing: as `skillyard.paths.open_inside`.
        """
        descriptor = self.open(path)
        try:
            return _file(_entry(safe_relative(path), os.fstat(descriptor)))
        finally:
            os.close(descriptor)

    def open(self, path: str) -> int:
        """A descriptor to read a file from; the caller closes it.

        Raises:
            PathRefused, FileMissing: as `skillyard.paths.open_inside`.
        """
        return open_inside(self.path, path)

    def read(self, path: str, *, limit: int) -> bytes:
        """The bytes of a file of at most `limit` bytes.

        Raises:
            PathRefused, FileMissing, FileTooLarge: as `skillyard.paths.read_inside`.
        """
        return read_inside(self.path, path, limit=limit)

    def put(self, path: str, data: bytes, *, quota_mb: int | None = None) -> None:
        """Put a file there, in place of what has that name; it belongs to who the folder belongs to.

        With `quota_mb` only where the folder takes it.

        Raises:
            PathRefused: the path leaves the folder, or passes through something that is no folder.
            DiskFull: there is no space, or the folder would be over its quota.
        """
        relative = safe_relative(path)
        if quota_mb is not None and folder_bytes(self.path, (quota_mb + 1) * _MEBIBYTE) + len(data) > quota_mb * _MEBIBYTE:
            raise DiskFull(f"the workspace takes at most {quota_mb} MB", hint="delete what is not needed")
        with self._parent(relative, make=True) as (folder, name):
            beside = f".{os.urandom(8).hex()}.new"
            try:
                self._write(folder, beside, data)
                os.rename(beside, name, src_dir_fd=folder, dst_dir_fd=folder)
            except OSError as error:
                with contextlib.suppress(OSError):
                    os.unlink(beside, dir_fd=folder)
                reason = os.strerror(error.errno) if error.errno else str(error)
                raise DiskFull.of(error) or PathRefused(f"{relative!r} cannot be written: {reason}") from None

    def remove(self, path: str) -> None:
        """Delete a file, or a folder with all that is in it.

        Raises:
            PathRefused, FileMissing: there is no such file.
        """
        relative = safe_relative(path)
        with self._parent(relative, make=False) as (folder, name):
            try:
                self._delete(folder, name)
            except FileNotFoundError:
                raise FileMissing(f"there is no file {relative!r}") from None
            except OSError as error:
                raise PathRefused(f"{relative!r} cannot be deleted: {os.strerror(error.errno or 0)}") from None

    def put_exactly(self, path: str, data: bytes, *, executable: bool) -> None:
        """Put back a file that was there, under a name that a person or program gave it; as `put`."""
        with self._parent(path, make=True) as (folder, name):
            beside = f".{os.urandom(8).hex()}.new"
            self._write(folder, beside, data, 0o700 if executable else 0o600)
            os.rename(beside, name, src_dir_fd=folder, dst_dir_fd=folder)

    def set_aside(self, path: str) -> None:
        """Move a file or folder to where nothing acts on it, below `.skillyard/held-back`; where that fails it is deleted."""
        with contextlib.suppress(FileProblem, OSError), self._parent(path, make=False) as (folder, name):
            aside = f".skillyard/held-back/{os.urandom(4).hex()}/{name}.held"
            try:
                with self._parent(aside, make=True) as (target, new):
                    os.rename(name, new, src_dir_fd=folder, dst_dir_fd=target)
                    with contextlib.suppress(OSError):  # a repository is one by this file, whatever its folder is called
                        os.rename(f"{new}/HEAD", f"{new}/HEAD.held", src_dir_fd=target, dst_dir_fd=target)
            except (FileProblem, OSError):
                self._delete(folder, name)

    def find_again(self, path: str, identity: tuple[int, int]) -> None:
        """Give a folder that was moved within the folder above it its name back."""
        with contextlib.suppress(FileProblem, OSError), self._parent(path, make=False) as (folder, name):
            for other in os.listdir(folder):
                state = os.stat(other, dir_fd=folder, follow_symlinks=False)
                if (state.st_dev, state.st_ino) == identity:
                    os.rename(other, name, src_dir_fd=folder, dst_dir_fd=folder)
                    return

    @staticmethod
    def _delete(folder: int, name: str) -> None:
        if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            delete_tree(f"/proc/self/fd/{folder}/{name}")  # even if the folders above it are moved meanwhile
        else:
            os.unlink(name, dir_fd=folder)

    def _write(self, folder: int, name: str, data: bytes, mode: int = 0o644) -> None:
        owner = os.stat(self.path)
        file = os.open(name, _NEW, mode, dir_fd=folder)
        with os.fdopen(file, "wb") as sink:
            sink.write(data)
            if os.geteuid() == 0:
                os.fchown(file, owner.st_uid, owner.st_gid)

    @contextlib.contextmanager
    def _parent(self, relative: str, *, make: bool) -> Iterator[tuple[int, str]]:
        """The folder that a file is in, open, and its name there; every folder on the way is one and no link."""
        *parents, name = relative.split("/")
        owner = os.stat(self.path)
        at = os.open(self.path, _FOLDER)
        try:
            for parent in parents:
                if make:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(parent, 0o755, dir_fd=at)
                        if os.geteuid() == 0:
                            os.chown(parent, owner.st_uid, owner.st_gid, dir_fd=at, follow_symlinks=False)
                below = self._below(at, parent, relative)
                os.close(at)
                at = below
            yield at, name
        finally:
            os.close(at)

    @staticmethod
    def _below(at: int, name: str, relative: str) -> int:
        try:
            return os.open(name, _FOLDER, dir_fd=at)
        except FileNotFoundError:
            raise FileMissing(f"there is no file {relative!r}") from None
        except OSError:
            raise PathRefused(f"{name!r} in {relative!r} is not a folder", hint="choose another name") from None

    def _walk(self, *, hidden: bool) -> Iterator[WorkspaceEntry]:
        for base, folders, files, opened in os.fwalk(self.path, follow_symlinks=False):
            prefix = "" if base == self.path else base[len(self.path) + 1 :] + "/"
            deep = prefix.count("/") >= _DEEPEST
            folders[:] = () if deep else sorted(name for name in folders if hidden or not _is_hidden_folder(name))
            for name in sorted((*folders, *(name for name in files if hidden or not name.startswith(".")))):
                with contextlib.suppress(OSError):
                    state = os.stat(name, dir_fd=opened, follow_symlinks=False)
                    if stat.S_ISREG(state.st_mode) or stat.S_ISDIR(state.st_mode):
                        yield _entry(f"{prefix}{name}", state)


def _is_hidden_folder(name: str) -> bool:
    return name.startswith(".") or name in _PACKAGE_FOLDERS


def _readable(path: str) -> str:
    """A path that can be written in UTF-8: a program may choose bytes that are none."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _entry(path: str, state: os.stat_result) -> WorkspaceEntry:
    changed = datetime.fromtimestamp(min(max(state.st_mtime, 0.0), _LATEST), UTC)  # what a stranger has set
    if stat.S_ISDIR(state.st_mode):
        return WorkspaceEntry(path, "folder", 0, changed)
    kind = mimetypes.guess_type(path)[0] or "application/octet-stream"
    return WorkspaceEntry(path, "file", state.st_size, changed, kind)


def _file(entry: WorkspaceEntry) -> WorkspaceFile:
    return WorkspaceFile(entry.path, entry.size, entry.modified, entry.media_type or "application/octet-stream")


_MEBIBYTE: Final = 1024 * 1024
_BUSY_SECONDS: Final = 0.05  # between two looks at the disk while somebody waits
_IDLE_SECONDS: Final = 1.0
_SCAN_SECONDS: Final = 1.0  # between two scans, when the disk has not lost as much as is left
_SHARE: Final = 20  # a scan may take a twentieth of the time
_SAME_LOOKS: Final = 3  # in which a folder has not grown: then nothing writes to it any more
_MOST_LOOKS: Final = 40
_SLACK: Final = 16 * _MEBIBYTE  # that may be written before the disk is taken for the reason to look


class FolderQuota:
    """The quota of a folder, and its enforcement while a session is open.

    Nothing is deleted. What lies in the folder already may be over the quota; then only what makes it larger is stopped, so
    that a command can still delete files.
    """

    def __init__(self, folder: str, quota_mb: int) -> None:
        self._folder = folder
        self.limit: Final = quota_mb * _MEBIBYTE
        self._used = -1
        self._free = 0
        self._scanned = 0.0
        self._cost = 0.0

    def used(self) -> int:
        """The bytes the folder takes, as the disk counts them, up to a little over the limit; blocks while it looks."""
        begun = time.monotonic()
        self._free = self._free_bytes()
        self._used = folder_bytes(self._folder, max(self.limit, 1) * 4)
        self._scanned = time.monotonic()
        self._cost = self._scanned - begun
        return self._used

    async def guard(
        self, channel: SessionChannel, *, busy: Callable[[], bool], current: Callable[[], SessionCall | None]
    ) -> None:
        """Watch the folder while a session is open; a command that exceeds the quota is killed.

        That is the command that runs now (`current`), else what works in the background. A folder that is too large already
        may shrink. `busy` says whether somebody waits for the session.
        """
        allowed = max(self.limit, await asyncio.to_thread(self.used))
        while channel.alive:
            await asyncio.sleep(_BUSY_SECONDS if busy() else _IDLE_SECONDS)
            if not self.is_due(busy=busy()):
                continue
            used = await asyncio.to_thread(self.used)
            if used > allowed:
                call = current()
                if call is not None:
                    await channel.end(call, "disk_full")
                else:
                    await channel.end_background("disk_full")
                used = await self._settled()
            allowed = max(self.limit, used)

    async def _settled(self) -> int:
        """The size of the folder once what was ended writes no more: else the next command would be ended for it."""
        used, same = await asyncio.to_thread(self.used), 0
        for _ in range(_MOST_LOOKS):
            await asyncio.sleep(_BUSY_SECONDS)
            now = await asyncio.to_thread(self.used)
            used, same = now, same + 1 if now <= used else 0
            if same == _SAME_LOOKS:
                break
        return used

    def takes(self, size: int) -> bool:
        """Whether a file of that many bytes fits, by the last look."""
        return self._used + size <= self.limit

    def is_due(self, *, busy: bool) -> bool:
        """Whether to look: enough was written on the disk to fill the folder, or, while `busy`, enough time has gone by."""
        passed = time.monotonic() - self._scanned
        if passed < self._cost * _SHARE:
            return False
        written = self._free - self._free_bytes()
        return (busy and passed > _SCAN_SECONDS) or written > max(self.limit - self._used, _SLACK) // 2

    def _free_bytes(self) -> int:
        with contextlib.suppress(OSError):
            state = os.statvfs(self._folder)
            return state.f_bavail * state.f_frsize
        return 0
