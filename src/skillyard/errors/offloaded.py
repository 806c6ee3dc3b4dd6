"""Work that a helper process was given and did not bring to an end."""

from __future__ import annotations

from skillyard.errors.base import SkillyardError

__all__ = ["HelperFailed", "HelpersBusy", "WorkMemoryExceeded", "WorkProblem", "WorkTimedOut"]


class WorkProblem(SkillyardError):
    """A helper process did not finish what it was given; `details["at"]` is what it last reported to work on, if anything."""

    code = "work_failed"


class WorkTimedOut(WorkProblem):
    """It took longer than its deadline; `details["limit_seconds"]` is that deadline."""

    code = "work_timeout"
    status = 422


class WorkMemoryExceeded(WorkProblem):
    """It needed more memory, or a deeper stack, than it may have; `details["limit_mb"]` is the limit in MiB."""

    code = "work_memory_exceeded"
    status = 422


class HelperFailed(WorkProblem):
    """The helper process could not be started, or ended by itself."""

    code = "helper_failed"
    status = 503


class HelpersBusy(WorkProblem):
    """Every helper process is at work and too many callers wait; `details["retry_after"]` is how many seconds to wait."""

    code = "busy"
    status = 503
