"""A new folder that is filled entry by entry, without ever following a link, and removed again when that fails."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterable, Iterator
from typing import Final

from skillyard.errors import ArchiveTooLarge
from skillyard.files import wait_for_disk
from skillyard.packages.entry_rules import EntryNames, PackageLimits, quoted_name, safe_name

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@contextlib.contextmanager
def new_staging(within: str | os.PathLike[str], limits: PackageLimits, *, durable: bool = True) -> Iterator[TreeWriter]:
    """Make the folder `staging-<random>` (mode 0700) in the folder `within`; it is removed when the block raises.

    `durable` waits until the disk has all of it.

    Raises:
        OSError: `within` is no folder or is a link, or nothing can be made in it.
    """
    outer = os.open(within, _FOLDER)
    try:
        name = f"staging-{os.urandom(8).hex()}"
        os.mkdir(name, 0o700, dir_fd=outer)
        root = os.open(name, _FOLDER, dir_fd=outer)
    finally:
        os.close(outer)
    path = os.path.join(os.path.abspath(within), name)  # noqa: PTH100, PTH118 # links are not followed
    try:
        writer = TreeWriter(path, root, limits)
        try:
            yield writer
            if durable:
                writer.finish()
        finally:
            writer.close()
    except BaseException:
        shutil.rmtree(path, ignore_errors=True)
        raise


class TreeWriter:
    """Writes files and folders below one folder by descriptors; modes become 0644, 0755 for what may run, 0755 for folders.

    Every name is checked and claimed here, whatever it came from, and bytes are counted while they are written.
    """

    def __init__(self, path: str, root: int, limits: PackageLimits) -> None:
        self.path = path
        self.size = 0
        self.files: list[str] = []
        self._root = root
        self._limits = limits
        self._names = EntryNames(limits)
        self._chain: list[tuple[str, int]] = []  # the open folders down to the last one used
        self._folders: set[str] = {""}

    def folder(self, name: str) -> None:
        """Make a folder, and those above it.

        Raises:
            ArchiveRefused: the name may not be used, or there are too many.
        """
        path = safe_name(name, self._limits)
        self._names.claim(path, folder=True)
        self._descend(path.split("/"))

    def file(self, name: str, chunks: Iterable[bytes], *, executable: bool) -> None:
        """Write a file from pieces, and the folders above it.

        Raises:
            ArchiveRefused: the name may not be used, or the file or all files together are too large.
        """
        path = safe_name(name, self._limits)
        self._names.claim(path, folder=False)
        *above, last = path.split("/")
        target = os.open(last, _NEW, 0o600, dir_fd=self._descend(above))
        try:
            size = 0
            for chunk in chunks:
                size += len(chunk)
                self._check_size(name, size)
                _write_all(target, chunk)
            os.fchmod(target, 0o755 if executable else 0o644)
            self.size += size
            self.files.append(path)
        finally:
            os.close(target)

    def _check_size(self, name: str, size: int) -> None:
        if size > self._limits.file:
            raise file_too_large(name, self._limits.file)
        if self.size + size > self._limits.total:
            raise ArchiveTooLarge(
                f"the files are over {self._limits.total} bytes together",
                hint="pack less",
                entry=name,
                limit=self._limits.total,
            )

    def _descend(self, parts: list[str]) -> int:
        """The descriptor of a folder, made when it is missing; those on the way stay open for the next entry."""
        same = 0
        while same < min(len(parts), len(self._chain)) and self._chain[same][0] == parts[same]:
            same += 1
        while len(self._chain) > same:
            os.close(self._chain.pop()[1])
        for depth in range(same, len(parts)):
            above = self._chain[-1][1] if self._chain else self._root
            path = "/".join(parts[: depth + 1])
            if path not in self._folders:
                os.mkdir(parts[depth], 0o755, dir_fd=above)
                self._folders.add(path)
            below = os.open(parts[depth], _FOLDER, dir_fd=above)
            os.fchmod(below, 0o755)
            self._chain.append((parts[depth], below))
        return self._chain[-1][1] if self._chain else self._root

    def finish(self) -> None:
        """Wait until the disk has every file and folder.

        All is written before anything is waited for, so that the disk can take many files at once.
        """
        wait_for_disk([*self.files, *(path or "." for path in self._folders)], within=self._root)

    def close(self) -> None:
        """Close the descriptors."""
        for _, descriptor in self._chain:
            os.close(descriptor)
        self._chain.clear()
        os.close(self._root)


def file_too_large(name: str, limit: int) -> ArchiveTooLarge:
    """The refusal of one file that is over the limit."""
    return ArchiveTooLarge(
        f"{quoted_name(name)} is over {limit} bytes", hint="keep large data out of the package", entry=name, limit=limit
    )


def _write_all(target: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(target, view) :]
