"""Errors about runs, sandboxes and helper processes."""

from __future__ import annotations

from skillyard.errors.base import SkillyardError


class ExecutionProblem(SkillyardError):
    """A skill could not be started."""

    code = "execution_failed"


class NetworkRefused(ExecutionProblem):
    """The host is not on the allow-list, or its address may not be reached."""

    code = "network_refused"
    status = 403


class NetworkFailed(ExecutionProblem):
    """A host that may be reached could not be found, did not answer, or answered with what cannot be used."""

    code = "network_failed"
    status = 502


class NotExecutable(ExecutionProblem):
    """The skill declares nothing that can run."""

    code = "not_executable"
    status = 422


class RuntimeUnavailable(ExecutionProblem):
    """This machine has no interpreter for the skill's entry."""

    code = "runtime_unavailable"
    status = 503


class DependenciesUnavailable(ExecutionProblem):
    """Packages the entry asks for are not installed; `details["dependencies"]` lists them."""

    code = "dependencies_unavailable"
    status = 503


class SandboxUnavailable(ExecutionProblem):
    """No sandbox here can enforce the policy; `details` carries `unmet` and `remedies`."""

    code = "sandbox_unavailable"
    status = 503


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
