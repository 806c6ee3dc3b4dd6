"""What is limited in a run: the limits of its processes, and the report of all of them, and by what."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from skillyard.sandbox.job import Limit

if TYPE_CHECKING:
    from skillyard.sandbox.preparing import Prepared

__all__ = ["common_limits", "process_limits"]

_MEBIBYTE: Final = 1024 * 1024
_ESTIMATED: Final = (
    "a watchdog that estimates sockets, pipes and page tables; lists of mappings and locks on files are not counted"
)


def common_limits(run: Prepared, *, processes: str, files: str) -> tuple[Limit, ...]:
    """The limits all backends have; `processes` and `files` say what counts processes and written files."""
    policy = run.policy
    cgroup = run.cgroup.name if run.cgroup else None
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


def process_limits(run: Prepared) -> Mapping[str, int]:
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
    if run.cgroup is None:
        limits["DATA"] = policy.memory_bytes + run.runtime.reserve_mb * _MEBIBYTE
        if run.runtime.kind != "node":
            limits["AS"] = 2 * policy.memory_bytes + 128 * _MEBIBYTE
    return limits
