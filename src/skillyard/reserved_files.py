"""Files that only one library of this process may open, because it holds locks on them: the records in SQLite.

POSIX drops all locks that a process has on a file when the process closes any descriptor of it. Whoever opens files that others
named checks here first, before the file is open.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

_PATHS: Final[dict[str, set[str]]] = {}
"""The reserved paths by their last name, in small letters: some file systems do not distinguish them from large ones."""


def reserve_file(path: str | os.PathLike[str], beside: Sequence[str] = ()) -> None:
    """Reserve `path`, and the files beside it whose names have one of the endings `beside`, as long as this process lives."""
    for ending in ("", *beside):
        whole = os.path.abspath(os.fspath(path)) + ending
        _PATHS.setdefault(os.path.basename(whole).casefold(), set()).add(whole)


def is_reserved(name: str | bytes | os.PathLike[str], *, within: int | None = None) -> bool:
    """Whether the file of that name, in the open folder `within` or where the path says, is reserved; it is not opened.

    A link is what it leads to, and every name of a file is that file.
    """
    if not _PATHS:
        return False
    try:
        state = os.stat(name, dir_fd=within, follow_symlinks=False)
        paths = _PATHS.get(os.path.basename(os.fsdecode(name)).casefold(), set())
        if stat.S_ISLNK(state.st_mode):
            state = os.stat(name, dir_fd=within)
            paths = set().union(*_PATHS.values())
        elif state.st_nlink > 1 and not stat.S_ISDIR(state.st_mode):
            paths = set().union(*_PATHS.values())
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
