"""A skill that could not be started, or was not let through to the net."""

from __future__ import annotations

from skillyard.errors.base import SkillyardError

__all__ = [
    "DependenciesUnavailable",
    "ExecutionProblem",
    "NetworkFailed",
    "NetworkRefused",
    "NotExecutable",
    "RuntimeUnavailable",
    "SandboxUnavailable",
]


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
