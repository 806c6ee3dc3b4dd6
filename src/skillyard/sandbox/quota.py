"""How much a run has written, where the kernel does not see to it."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from skillyard.sandbox.processes import deleted_bytes, files_in

if TYPE_CHECKING:
    from skillyard.sandbox.preparing import Engine, Prepared

__all__ = ["quota"]

_MEBIBYTE: Final = 1024 * 1024
_A_FILE: Final = 4096  # bytes that a file takes whatever is in it


def quota(engine: Engine, run: Prepared) -> Callable[[list[int]], bool] | None:
    """How to see, from the numbers of the run's processes, that it has written too much; `None` where the kernel sees to it."""
    if engine.own_folders:
        return partial(_folders_over_quota, run)
    in_memory = partial(_too_many_files, run) if run.cgroup is None else None
    if not run.job.workspace:
        return in_memory
    return lambda pids: _folders_over_quota(run, pids, "/workspace") or (in_memory is not None and in_memory(pids))


def _folders_over_quota(run: Prepared, pids: list[int], seen_as: str = "") -> bool:
    """Whether the run's own folders, or files it has deleted and still holds, are larger than they may be.

    What lay in the workspace before does not count.
    """
    allowed, stage = run.policy.tmp_mb * _MEBIBYTE, run.stage
    given = stage.seeded.size + 2 * _A_FILE * len(stage.seeded.marks) if stage.seeded else 0
    large = _size(stage.scratch, allowed) > allowed or _size(stage.workspace, allowed + given) > allowed + given
    return large or deleted_bytes(pids, stage.base, seen_as=seen_as) > allowed + given


def _size(folder: str, enough: int) -> int:
    """The bytes that a folder takes; more than `enough` when a part of it cannot be looked into."""
    total, waiting = 0, [folder]
    while waiting and total <= enough:
        try:
            with os.scandir(waiting.pop()) as items:
                for item in items:
                    total += _A_FILE + item.stat(follow_symlinks=False).st_blocks * 512
                    if item.is_dir(follow_symlinks=False):
                        waiting.append(item.path)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError:  # made unreadable, or nested deeper than a path is long
            return enough + 1
    return total


def _too_many_files(run: Prepared, pids: list[int]) -> bool:
    """Whether the file systems in memory hold more files than fit their size: an empty file is memory that nobody counts."""
    allowed = run.policy.tmp_mb * _MEBIBYTE // _A_FILE
    return any(files_in(pids[0], folder) > allowed for folder in ("/tmp", "/dev/shm", "/workspace") if pids)  # noqa: S108
