"""The sandbox: what one run may do, and what holds it to that. It knows nothing of skills.

`choose_backend(policy)` gives the strongest backend that can enforce a policy here; `await backend.run(job)` runs one script of
one folder and leaves nothing behind. `WarmPool(k, digest)` runs jobs in sandboxes that stand ready.
`await guarded_request(…)` asks a host of an allow-list from this process itself.
"""

from __future__ import annotations

from skillyard.sandbox.job import Job, Limit, Probe, Result, SandboxBackend, Status, Unmet
from skillyard.sandbox.listening import Listener, listening
from skillyard.sandbox.network.contact import Contact
from skillyard.sandbox.network.guarded import GuardedResponse, guarded_request
from skillyard.sandbox.policy import Policy, effective, lowered, narrowed
from skillyard.sandbox.programs import on_trusted_path
from skillyard.sandbox.runtimes import can_start, interpreter_for
from skillyard.sandbox.selection import backends, choose_backend, probe_all
from skillyard.sandbox.warm import WarmPool, prewarm_count

__all__ = [
    "Contact",
    "GuardedResponse",
    "Job",
    "Limit",
    "Listener",
    "Policy",
    "Probe",
    "Result",
    "SandboxBackend",
    "Status",
    "Unmet",
    "WarmPool",
    "backends",
    "can_start",
    "choose_backend",
    "effective",
    "guarded_request",
    "interpreter_for",
    "listening",
    "lowered",
    "narrowed",
    "on_trusted_path",
    "prewarm_count",
    "probe_all",
]
