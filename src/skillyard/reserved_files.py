"""Files that only one library of this process may open, because it holds locks on them: the records in SQLite.

POSIX drops all locks that a process has on a file when the process closes any descriptor of it. Whoever opens files that others
named asks here first, before the file is open.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

__all__ = ["is_reserved", "reserve_file"]

_PATHS: Final[dict[str, set[str]]] = {}
"""The reserved paths by their last name."""


def reserve_file(path: str | os.PathLike[str], beside: Sequence[str] = ()) -> None:
    """Reserve `path`, and the files beside it whose names have one of the endings `beside`, as long as this process lives."""
    for ending in ("", *beside):
        whole = os.path.abspath(os.fspath(path)) + ending
        _PATHS.setdefault(os.path.basename(whole), set()).add(whole)


def is_reserved(name: str | bytes | os.PathLike[str], *, within: int | None = None) -> bool:
    """Whether the file of that name, in the open folder `within` or where the path says, is reserved; it is not opened.

    A second name of a reserved file (a hard link) is not recognised.
    """
    if not _PATHS:
        return False
    paths = _PATHS.get(os.path.basename(os.fsdecode(name)), ())
    for path in paths:
        with suppress(OSError):
            if os.path.samestat(os.stat(path), os.stat(name, dir_fd=within)):
                return True
    return False
