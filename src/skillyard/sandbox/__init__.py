"""The sandbox: what one run may do, and what holds it to that. It knows nothing of skills.

`choose_backend(policy)` gives the strongest backend that can enforce a policy here; `await backend.run(job)` runs one script of
one folder and leaves nothing behind. `WarmPool(k, digest)` runs jobs in sandboxes that were started beforehand.
"""

from __future__ import annotations

from skillyard.sandbox.backend_selection import backends, choose_backend, probe_all
from skillyard.sandbox.granted_environment import NOTHING_GRANTED, GrantedEnvironment
from skillyard.sandbox.job import Job, Limit, Probe, SandboxBackend, SandboxResult, Status
from skillyard.sandbox.policy import Policy, effective_policy, lowered_ceiling, narrowing_warnings, prewarm_count
from skillyard.sandbox.run_output import listen_to_output
from skillyard.sandbox.runtimes import can_start, interpreter_for, on_trusted_path
from skillyard.sandbox.warm_pool import WarmPool

__all__ = [
    "NOTHING_GRANTED",
    "GrantedEnvironment",
    "Job",
    "Limit",
    "Policy",
    "Probe",
    "SandboxBackend",
    "SandboxResult",
    "Status",
    "WarmPool",
    "backends",
    "can_start",
    "choose_backend",
    "effective_policy",
    "interpreter_for",
    "listen_to_output",
    "lowered_ceiling",
    "narrowing_warnings",
    "on_trusted_path",
    "prewarm_count",
    "probe_all",
]
