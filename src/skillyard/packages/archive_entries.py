"""Entries of packages: size limits, names that are safe and unique on every operating system, and a folder written so.

Names that Windows reserves are refused everywhere, and so are names that differ only in case or Unicode composition. A folder
is filled entry by entry, without ever following a link, and removed again when that fails.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Literal

from skillyard.errors import (
    ArchiveRefused,
    ArchiveTooLarge,
    MalformedArchive,
    PathCollision,
    PathTooLong,
    TooManyFiles,
    UnsafePath,
)
from skillyard.files import wait_for_disk
from skillyard.paths import CLOEXEC, DIRECTORY, NOFOLLOW
from skillyard.text import limit_words, sanitize

_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class PackageLimits:
    """The most a package may be, and in `listed` all packages of one list together, fetched and unpacked; sizes in bytes.

    `ratio` is how many times larger than its compressed form a content over `ratio_from` may be. `depth` counts the components
    of a path, `component` and `path` are bytes of UTF-8.
    """

    archive: int = 50 * _MIB
    total: int = 100 * _MIB
    listed: int = 500 * _MIB
    file: int = 20 * _MIB
    entries: int = 2000
    ratio: int = 100
    ratio_from: int = _MIB
    depth: int = 16
    component: int = 255
    path: int = 1024


_PLAIN: Final = re.compile(r"[A-Za-z0-9_+@=,()\[\]#%&'!~ ./-]*")
_RESERVED: Final = re.compile(
    r"(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9\u00b9\u00b2\u00b3]) *(?:\..*)?", re.IGNORECASE
)
REPACK_HINT: Final = "download or pack it again"
_RENAME: Final = "rename it and pack again: letters, digits, '-', '_' and '.' are safe everywhere"


def decode_name(raw: bytes) -> str:
    """The text of a name's bytes. Raises UnsafePath: they are not UTF-8."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        text = raw.decode("utf-8", "backslashreplace")
        raise UnsafePath(f"the name {quoted_name(text)} is not UTF-8", hint=_RENAME, entry=text) from None


def quoted_name(name: str) -> str:
    """A name for a message: quoted, nothing invisible, not endless."""
    return ascii(name[:120] + ("…" if len(name) > 120 else ""))


def safe_name(name: str, limits: PackageLimits) -> str:
    """`name` as it is written to the disk: in Unicode's composed form, without a slash at the end.

    Raises:
        UnsafePath: it leaves the package, or some system reads it as something else.
        PathTooLong: it is too long or too deep.
    """
    bare = name[:-1] if name.endswith("/") else name
    path = bare if bare.isascii() else unicodedata.normalize("NFC", bare)
    if len(path) > limits.path or len(path.encode("utf-8", "surrogatepass")) > limits.path:
        raise PathTooLong(f"the path {quoted_name(name)} is over {limits.path} bytes", hint="use shorter names", entry=name)
    if not path or path.startswith("/") or "\\" in path or ":" in path:
        raise _unsafe(name, "is not a path inside the package")
    unseen = ("Cc", "Cf", "Cs", "Zl", "Zp")
    if not _PLAIN.fullmatch(path) and (sanitize(path) != path or any(unicodedata.category(char) in unseen for char in path)):
        raise _unsafe(name, "has characters that nobody sees or that steer a terminal")
    parts = path.split("/")
    if len(parts) > limits.depth:
        raise PathTooLong(f"{quoted_name(name)} is over {limits.depth} folders deep", hint="nest less", entry=name)
    for part in parts:
        _check_part(name, part, limits)
    return path


def _check_part(name: str, part: str, limits: PackageLimits) -> None:
    if part in ("", ".", ".."):
        raise _unsafe(name, "leaves the package or names a place twice")
    if part[-1] in ". " or part[0] == " ":
        raise _unsafe(name, "has a space or a dot at the end of a part, which Windows drops")
    if _RESERVED.fullmatch(part):
        raise _unsafe(name, "has a part that Windows reads as a device")
    if len(part.encode()) > limits.component:
        raise PathTooLong(
            f"a part of {quoted_name(name)} is over {limits.component} bytes", hint="use shorter names", entry=name
        )


def _unsafe(name: str, why: str) -> ArchiveRefused:
    return UnsafePath(f"the name {quoted_name(name)} {why}", hint=_RENAME, entry=name)


class EntryNames:
    """The names seen so far, by what they are on a machine that ignores case and composition; folders above count too."""

    def __init__(self, limits: PackageLimits) -> None:
        self._limits = limits
        self._seen: dict[str, tuple[str, Literal["file", "folder", "above"]]] = {}

    def claim(self, path: str, *, folder: bool) -> None:
        """Reserve `path` for a file or a folder.

        Raises:
            PathCollision: some machine would see another entry there.
            TooManyFiles: there are more entries than the limit.
        """
        for cut in (index for index, char in enumerate(path) if char == "/"):
            self._reserve(path[:cut], "above", path)
        self._reserve(path, "folder" if folder else "file", path)
        if len(self._seen) > self._limits.entries:
            raise TooManyFiles(
                f"there are more than {self._limits.entries} files and folders", hint="pack less", limit=self._limits.entries
            )

    def _reserve(self, entry: str, kind: Literal["file", "folder", "above"], path: str) -> None:
        key = (
            entry.lower() if entry.isascii() else unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", entry).casefold())
        )
        before = self._seen.get(key)
        if before is None or before == (entry, "above"):
            if before is None or kind == "folder":
                self._seen[key] = (entry, kind)
            if before is None or kind != "file":
                return
        elif kind == "above" and before == (entry, "folder"):
            return
        raise PathCollision(
            f"{quoted_name(path)} and {quoted_name(before[0])} are the same place on some machines",
            hint="give each file a name of its own, also when upper and lower case are the same",
            entry=path,
        )


_FOLDER: Final = os.O_RDONLY | DIRECTORY | NOFOLLOW | CLOEXEC
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | NOFOLLOW | CLOEXEC


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
        """Make a folder, and those above it. Raises ArchiveRefused: the name may not be used, or there are too many."""
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
                view = memoryview(chunk)
                while view:
                    view = view[os.write(target, view) :]
            os.fchmod(target, 0o755 if executable else 0o644)
            self.size += size
            self.files.append(path)
        finally:
            os.close(target)

    def _check_size(self, name: str, size: int) -> None:
        if size > self._limits.file:
            raise file_too_large(name, self._limits.file)
        check_total(self.size + size, self._limits, entry=name)

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


def malformed(name: str, why: str, hint: str = REPACK_HINT) -> MalformedArchive:
    """The refusal of one entry that is damaged or could be read in two ways."""
    return MalformedArchive(f"{quoted_name(name)} {why}", hint=hint, entry=name)


def file_too_large(name: str, limit: int) -> ArchiveTooLarge:
    """The refusal of one file that is over the limit."""
    return ArchiveTooLarge(
        f"{quoted_name(name)} is over {limit_words(limit)}", hint="keep large data out of the package", entry=name, limit=limit
    )


def too_compressed(name: str, limits: PackageLimits) -> ArchiveTooLarge:
    """The refusal of a content that is far larger than its compressed form."""
    why = f"{quoted_name(name)} grows more than {limits.ratio} times"
    return ArchiveTooLarge(why, hint="keep such data out of the package", entry=name)


def check_total(size: int, limits: PackageLimits, **details: str) -> None:
    """Refuse files that are too large together."""
    if size > limits.total:
        why = f"the files are over {limit_words(limits.total)} together"
        raise ArchiveTooLarge(why, hint="pack less", limit=limits.total, **details)


def check_entry_count(count: int, limits: PackageLimits, *, per_entry: int = 1) -> None:
    """Refuse an archive with too many headers, of which an entry may have `per_entry`."""
    if count > per_entry * limits.entries:
        raise TooManyFiles(f"the archive has over {limits.entries} entries", hint="pack less", limit=limits.entries)
