"""A copy of a folder by the rules of packages: no links, no specials, names that are safe everywhere."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from skillyard.packages.limits import Limits
from skillyard.packages.packing import checked_name, read_item, walk_items
from skillyard.packages.writing import new_staging

__all__ = ["copy_tree"]

_DEFAULT = Limits()


def copy_tree(
    directory: str | os.PathLike[str],
    within: str | os.PathLike[str],
    *,
    without: Callable[[str, os.DirEntry[str]], bool] = lambda _path, _entry: False,
    limits: Limits = _DEFAULT,
) -> Path:
    """Copy what is in `directory` into a new folder `staging-<random>` in the folder `within`; nobody waits for the disk.

    `without` is asked for each path with its entry, and leaves out what it says yes to.

    Raises:
        ArchiveRefused: it has a link, or a name or a size that no package may have.
        OSError: it cannot be read or written.
    """
    root = Path(directory).resolve()
    with new_staging(within, limits, durable=False) as writer:
        for path, kind in walk_items(root, without):
            checked_name(path, limits)
            if kind == "d":
                writer.folder(path)
            else:
                writer.file(path, [read_item(root, path, limits)], executable=kind == "x")
    return Path(writer.path)
