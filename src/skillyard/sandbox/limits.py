"""The limits of a run: of its processes, of what it writes, and the report of all limits and what enforces them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from skillyard.sandbox.job import Limit
from skillyard.sandbox.processes import deleted_bytes, files_in

if TYPE_CHECKING:
    from skillyard.sandbox.preparation import IsolationMechanism, PreparedRun
    from skillyard.sandbox.session_preparation import PreparedSession


_MEBIBYTE: Final = 1024 * 1024
_ESTIMATED: Final = (
    "a watchdog that estimates sockets, pipes and page tables; lists of mappings and locks on files are not counted"
)


def common_limits(run: PreparedRun, *, processes: str, files: str) -> tuple[Limit, ...]:
    """The limits all backends have; `processes` and `files` say what counts processes and written files."""
    policy = run.policy
    cgroup = run.counted_by
    return (
        Limit("timeout_ms", policy.timeout_ms, True, "supervisor"),
        Limit("memory_mb", policy.memory_mb, True, cgroup or "rlimit and watchdog"),
        *(() if cgroup else (Limit("kernel_memory", policy.memory_mb, False, _ESTIMATED),)),
        Limit("pids", policy.pids, True, cgroup or processes),
        Limit("cpu_seconds", policy.timeout_ms // 1000 + 1, True, "rlimit"),
        Limit("nofile", policy.nofile, True, "rlimit"),
        Limit("file_size_mb", policy.file_size_mb, True, "rlimit"),
        Limit("stack_mb", 8, True, "rlimit"),
        Limit("core_bytes", 0, True, "rlimit"),
        Limit("tmp_mb", policy.tmp_mb, True, files),
        Limit("output_bytes", policy.output_bytes, True, "supervisor"),
        Limit("result_bytes", policy.result_bytes, True, "supervisor"),
    )


def process_limits(run: PreparedRun) -> Mapping[str, int]:
    """The process limits to set just before the skill's own program, by the names of `resource.RLIMIT_*`.

    Memory is only limited where no cgroup counts it, and address space never for node, which reserves far more than it uses.
    The number of processes is counted for the user, so its limit is only set where the user is the run's own.
    """
    policy = run.policy
    limits = {
        "CORE": 1,  # one byte also stops the program of the machine that collects cores; zero only stops files
        "NOFILE": policy.nofile,
        "FSIZE": policy.file_size_mb * _MEBIBYTE,
        "STACK": 8 * _MEBIBYTE,
        "CPU": policy.timeout_ms // 1000 + 1,
    }
    if not run.counted_by:
        limits["DATA"] = policy.memory_bytes + run.runtime.reserve_mb * _MEBIBYTE
        if run.runtime.kind != "node":
            limits["AS"] = 2 * policy.memory_bytes + 128 * _MEBIBYTE
    return limits


_A_FILE: Final = 4096  # bytes that a file takes whatever is in it


def quota_check(engine: IsolationMechanism, run: PreparedRun) -> Callable[[list[int]], bool] | None:
    """How to see, from the numbers of the run's processes, that it has written too much; `None` where the kernel sees to it."""
    if engine.own_folders:
        return partial(_folders_over_quota, run)
    in_memory = partial(_too_many_files, run) if not run.counted_by else None
    if not run.job.workspace:
        return in_memory
    return lambda pids: _folders_over_quota(run, pids, "/workspace") or (in_memory is not None and in_memory(pids))


def session_quota(engine: IsolationMechanism, session: PreparedSession) -> Callable[[list[int]], bool] | None:
    """How to see that the temporary folder of a session is too large; `None` where it is a file system of that size."""
    if not engine.own_folders:
        return None
    allowed = session.policy.tmp_mb * _MEBIBYTE
    return lambda _pids: folder_bytes(session.stage.scratch, allowed) > allowed


def _folders_over_quota(run: PreparedRun, pids: list[int], seen_as: str = "") -> bool:
    """Whether the run's own folders, or files it has deleted and still holds, are larger than they may be.

    What lay in the workspace before does not count.
    """
    allowed, stage = run.policy.tmp_mb * _MEBIBYTE, run.stage
    given = stage.seeded.size + 2 * _A_FILE * len(stage.seeded.marks) if stage.seeded else 0
    large = folder_bytes(stage.scratch, allowed) > allowed or folder_bytes(stage.workspace, allowed + given) > allowed + given
    return large or deleted_bytes(pids, stage.base, seen_as=seen_as) > allowed + given


def folder_bytes(folder: str, enough: int) -> int:
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


def _too_many_files(run: PreparedRun, pids: list[int]) -> bool:
    """Whether the file systems in memory hold more files than fit their size: an empty file is memory that nobody counts."""
    allowed = run.policy.tmp_mb * _MEBIBYTE // _A_FILE
    folders = ["/tmp", "/dev/shm"]  # noqa: S108
    if not run.job.workspace:  # a folder that was given is on a disk with all its other files
        folders.append("/workspace")
    return any(files_in(pids[0], folder) > allowed for folder in folders if pids)
