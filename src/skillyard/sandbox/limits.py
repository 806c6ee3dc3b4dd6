"""The report of what was limited in a run, and by what."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillyard.sandbox.job import Limit

if TYPE_CHECKING:
    from skillyard.sandbox.running import Prepared

__all__ = ["common_limits"]


def common_limits(run: Prepared, *, processes: str, files: str) -> tuple[Limit, ...]:
    """The limits all backends have; `processes` and `files` say what counts processes and written files."""
    policy = run.policy
    cgroup = run.cgroup.name if run.cgroup else None
    return (
        Limit("timeout_ms", policy.timeout_ms, True, "supervisor"),
        Limit("memory_mb", policy.memory_mb, True, cgroup or "rlimit and watchdog"),
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
