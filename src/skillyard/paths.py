"""Paths that cannot leave their folder, names that are safe to use as one, and how files that others named are opened.

Containment is decided on real paths and on path components, never on string prefixes (`/s/pdf` does not contain
`/s/pdf-evil`). Files are opened one component at a time without following links, so that a folder swapped for a link between
check and use is refused by the kernel.

Flags for `os.open` are nothing where the system does not have them. Windows has none of these but knows texts from bytes, so
`CLOEXEC`, which stands in every call, also says bytes there.

Some files only one library of this process may open, because it holds locks on them: the records in SQLite. POSIX drops all
locks that a process has on a file when the process closes any descriptor of it. Whoever opens files that others named checks
here first, before the file is open.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from skillyard.errors import FileMissing, FileTooLarge, PathRefused
from skillyard.text import limit_words

NOFOLLOW: Final[int] = getattr(os, "O_NOFOLLOW", 0)
NONBLOCK: Final[int] = getattr(os, "O_NONBLOCK", 0)
NOCTTY: Final[int] = getattr(os, "O_NOCTTY", 0)
DIRECTORY: Final[int] = getattr(os, "O_DIRECTORY", 0)
CLOEXEC: Final[int] = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
HAS_FOLDER_DESCRIPTORS: Final = bool(DIRECTORY) and os.open in os.supports_dir_fd
"""Whether a folder can be opened, and files by names within it."""


def owner_id() -> int | None:
    """The id of the user that this process acts for, as files have it; None where files have no such owners."""
    ask = getattr(os, "geteuid", None)
    return None if ask is None else int(ask())


_RESERVED: Final[dict[str, set[str]]] = {}
"""The reserved paths by their last name, in small letters: some file systems do not distinguish them from large ones."""


def reserve_file(path: str | os.PathLike[str], beside: Sequence[str] = ()) -> None:
    """Reserve `path`, and the files beside it whose names have one of the endings `beside`, as long as this process lives."""
    for ending in ("", *beside):
        whole = os.path.abspath(os.fspath(path)) + ending
        _RESERVED.setdefault(os.path.basename(whole).casefold(), set()).add(whole)


def is_reserved(name: str | bytes | os.PathLike[str], *, within: int | None = None) -> bool:
    """Whether the file of that name, in the open folder `within` or where the path says, is reserved; it is not opened.

    A link is what it leads to, and every name of a file is that file.
    """
    if not _RESERVED:
        return False
    try:
        state = os.stat(name, dir_fd=within, follow_symlinks=False)
        paths = _RESERVED.get(os.path.basename(os.fsdecode(name)).casefold(), set())
        if stat.S_ISLNK(state.st_mode):
            state = os.stat(name, dir_fd=within)
            paths = set().union(*_RESERVED.values())
        elif state.st_nlink > 1 and not stat.S_ISDIR(state.st_mode):
            paths = set().union(*_RESERVED.values())
    except (OSError, ValueError):
        return False  # nothing that could be opened
    for path in paths:
        with suppress(OSError):
            if os.path.samestat(os.stat(path), state):
                return True
    return False


def refuse_reserved(path: str | os.PathLike[str]) -> None:
    """Say that a file is not to be opened because it is reserved, as the system says that one cannot be.

    Raises:
        OSError: it is.
    """
    if is_reserved(path):
        raise OSError(errno.EBUSY, "it is a database that is in use", os.fspath(path))


_UNSAFE: Final = re.compile(r"[\x00-\x1f\x7f\\]")
_NOT_SLUG: Final = re.compile(r"[^a-z0-9]+")
_SLUG: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_REPARSE_TAG: Final = "st_reparse_tag"  # what Windows has for links and junctions
_DIRECTORY_FLAGS: Final = os.O_RDONLY | DIRECTORY | NOFOLLOW | CLOEXEC
_FILE_FLAGS: Final = os.O_RDONLY | NOFOLLOW | NONBLOCK | CLOEXEC | NOCTTY


def is_inside(path: str | os.PathLike[str], root: str | os.PathLike[str]) -> bool:
    """Whether the real path of `path` is `root` or below it; links are resolved on both sides."""
    real_root = real_path(root)
    return os.path.commonpath([real_root, real_path(path)]) == real_root


def is_regular(path: str | os.PathLike[str]) -> bool:
    """Whether there is a file of that name, itself and no link to one."""
    try:
        return stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


def real_path(path: str | os.PathLike[str]) -> str:
    """`path` with all links resolved; through a chain of links longer than Python can follow nothing can be opened either."""
    try:
        return os.path.realpath(path)
    except RecursionError:
        return os.path.abspath(path)  # pathlib would follow the links


def safe_relative(path: str) -> str:
    """`path` normalised as a POSIX path relative to a skill, for example `./a//b` to `a/b`.

    Raises:
        PathRefused: the path is empty, absolute, starts with `~`, climbs with `..`, or holds a backslash or control character.
    """
    if not path.strip() or path.startswith(("/", "~")) or _UNSAFE.search(path):
        raise PathRefused(f"{path!r} is not a path inside a skill", hint="give a path relative to the skill's folder")
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if not parts:
        raise PathRefused(f"{path!r} is the skill's folder itself", hint="name a file in it")
    if ".." in parts:
        raise PathRefused(
            f"{path!r} leaves the skill's folder: path traversal detected",
            hint="give a path relative to the skill's folder, without '..'",
        )
    return "/".join(parts)


def open_inside(root: str | os.PathLike[str], relative: str) -> int:
    """A read-only file descriptor of the regular file `relative` below `root`; the caller closes it.

    No component may be a link. A FIFO or device never blocks the caller: it is refused.

    Raises:
        PathRefused: unsafe path, a link on the way, or not a regular file.
        FileMissing: no such file.
    """
    parts = safe_relative(relative).split("/")
    if not HAS_FOLDER_DESCRIPTORS:
        return _open_by_path(os.fspath(root), parts, relative)
    folder = os.open(root, os.O_RDONLY | DIRECTORY | CLOEXEC)
    try:
        for part in parts[:-1]:
            below = _open(part, _DIRECTORY_FLAGS, folder, relative)
            os.close(folder)
            folder = below
        file = _open(parts[-1], _FILE_FLAGS, folder, relative)
    finally:
        os.close(folder)
    if not stat.S_ISREG(os.fstat(file).st_mode):
        os.close(file)
        raise PathRefused(f"{relative!r} is not a regular file", hint="only regular files of a skill can be read")
    return file


def _open_by_path(root: str, parts: list[str], relative: str) -> int:
    """The same where a folder cannot be opened: every component is looked at, and the file again when it is open."""
    path = root
    for part in parts:
        path = f"{path}/{part}"
        try:
            state = os.lstat(path)
        except FileNotFoundError:
            raise FileMissing(f"there is no file {relative!r}") from None
        except OSError as error:
            raise _not_opened(relative, error) from None
        if stat.S_ISLNK(state.st_mode) or (getattr(state, _REPARSE_TAG, None)):
            raise PathRefused(f"{relative!r} is or passes a link", hint="links, devices and unreadable files are refused")
    if not stat.S_ISREG(state.st_mode):
        raise PathRefused(f"{relative!r} is not a regular file", hint="only regular files of a skill can be read")
    try:
        refuse_reserved(path)
        file = os.open(path, _FILE_FLAGS)
    except OSError as error:
        raise _not_opened(relative, error) from None
    if not os.path.samestat(os.fstat(file), state):
        os.close(file)
        raise PathRefused(f"{relative!r} was replaced while it was opened", hint="try again")
    return file


def _not_opened(relative: str, error: OSError) -> PathRefused:
    reason = os.strerror(error.errno) if error.errno else str(error)
    return PathRefused(
        f"{relative!r} cannot be opened inside the skill: {reason}",
        hint="links, devices and unreadable files are refused",
    )


def _open(name: str, flags: int, folder: int, relative: str) -> int:
    if is_reserved(name, within=folder):
        raise PathRefused(f"{relative!r} is a database that is in use", hint="keep records outside of folders of skills")
    try:
        return os.open(name, flags, dir_fd=folder)
    except FileNotFoundError:
        raise FileMissing(f"there is no file {relative!r}") from None
    except OSError as error:
        raise _not_opened(relative, error) from None


def read_inside(root: str | os.PathLike[str], relative: str, *, limit: int) -> bytes:
    """The bytes of the regular file `relative` below `root`, at most `limit` bytes.

    Raises:
        PathRefused: as `open_inside`.
        FileMissing: as `open_inside`.
        FileTooLarge: the file is longer than `limit`.
    """
    with os.fdopen(open_inside(root, relative), "rb", buffering=0) as file:
        size = min(os.fstat(file.fileno()).st_size, limit)  # room for `limit` bytes would cost more than to read them
        data = file.read(size + 1)
        if len(data) > size:  # it has become longer
            data += file.read(limit - size)
    if len(data) > limit:
        raise FileTooLarge(f"{relative!r} is over {limit_words(limit)}", hint="read a smaller file, or a part of it")
    return data


def relative_to(path: str, folder: str) -> str:
    """`path` as it is written below `folder`, unchanged when it is elsewhere: for showing, no link is resolved."""
    from pathlib import PurePath  # 7 ms that a list does without

    return str(PurePath(path).relative_to(folder)) if PurePath(path).is_relative_to(folder) else path


def slug(name: str, fallback: str = "") -> str:
    """A storage-safe name: lower-case ASCII letters, digits and single hyphens.

    Letters outside ASCII are folded where Unicode knows how (`Café` → `cafe`). A name that leaves nothing takes the slug of
    `fallback` (the folder's name), then `skill-<8 hex digits>` of the name's hash, so that no two names share one by accident.
    """
    if _SLUG.fullmatch(name):
        return name
    for candidate in (name, fallback):
        folded = candidate if candidate.isascii() else _without_marks(candidate)
        if result := _NOT_SLUG.sub("-", folded.lower()).strip("-"):
            return result
    import hashlib  # only for a name without a letter or digit: it is slow to import

    return "skill-" + hashlib.sha256(f"{name}\0{fallback}".encode("utf-8", "surrogatepass")).hexdigest()[:8]


def _without_marks(name: str) -> str:
    import unicodedata  # only for names that are not ASCII

    return "".join(char for char in unicodedata.normalize("NFKD", name) if not unicodedata.combining(char))
