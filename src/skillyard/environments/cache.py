"""The kept environments: how many there are, how large, and the removal of those that nobody has used for some time."""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from skillyard.environments.installer import environments_folder
from skillyard.wire import WireForm

DAY_S: Final = 86_400
UNUSED_DAYS: Final = 30
"""After so many days without use an environment is removed by a prune, unless another number is given."""
_LOCKS: Final = (".lock", ".npm-lock")
_DOWNLOADS: Final = ("uv", "npm")


@dataclass(frozen=True, slots=True)
class CacheReport(WireForm):
    """What a prune removed: environments, their locks and downloads of the installers, in bytes all together."""

    environments: int
    locks: int
    size: int


def prune_environments(*, unused_days: int = UNUSED_DAYS, now: float | None = None) -> CacheReport:
    """Remove environments and locks that were not used for `unused_days`, and what the installers have downloaded.

    Runs that are going on keep what they see: it is renamed before it is removed, and open files stay. Whatever is removed is
    resolved and installed again when somebody is granted it.
    """
    base, before = environments_folder(), (time.time() if now is None else now) - unused_days * DAY_S
    folders, locks, size = 0, 0, 0
    for path in _entries(base):
        try:
            state = path.lstat()
        except OSError:
            continue
        if state.st_mtime > before:
            continue
        if path.is_dir():
            folders, size = folders + 1, size + _size(path)
            _remove(path)
        elif path.suffix in _LOCKS:
            locks, size = locks + 1, size + state.st_size
            path.unlink(missing_ok=True)
    for name in _DOWNLOADS:
        downloads = base.parent / name
        size += _size(downloads)
        shutil.rmtree(downloads, ignore_errors=True)
    return CacheReport(folders, locks, size)


def note_use(*paths: Path) -> None:
    """Note that these are used now, once in an hour: a prune removes what has not been used for long."""
    now = time.time()
    for path in paths:
        with contextlib.suppress(OSError):
            if now - path.stat().st_mtime > 3_600:
                os.utime(path)


def _entries(base: Path) -> Iterator[Path]:
    with contextlib.suppress(OSError):
        yield from sorted(base.iterdir())


def _size(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):
            total += path.lstat().st_size if not path.is_dir() else 0
    return total


def _remove(folder: Path) -> None:
    aside = folder.with_name(f"new-{folder.name}-{os.getpid()}")
    with contextlib.suppress(OSError):
        folder.rename(aside)
        shutil.rmtree(aside, ignore_errors=True)
