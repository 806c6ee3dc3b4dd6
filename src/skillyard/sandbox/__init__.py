"""The sandbox: what one run may do, and what holds it to that. It knows nothing of skills.

`choose_backend(policy)` gives the strongest backend that can enforce a policy here; `await backend.run(job)` runs one script of
one folder and leaves nothing behind. `WarmPool(k, digest)` runs jobs in sandboxes that were started beforehand.
`await open_session(backend, request, receive)` gives a sandbox that stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillyard.lazy_exports import lazy_exports
from skillyard.sandbox.backend_selection import backends, choose_backend, probe_all
from skillyard.sandbox.job import (
    NOTHING_GRANTED,
    GrantedEnvironment,
    Job,
    Limit,
    Probe,
    RunMode,
    SandboxBackend,
    SandboxResult,
    Status,
)
from skillyard.sandbox.policy import (
    Policy,
    container_image,
    effective_policy,
    lowered_ceiling,
    narrowing_warnings,
    prewarm_count,
    redact,
)
from skillyard.sandbox.process_launch import can_reach
from skillyard.sandbox.run_output import StreamListener, listen_to_output
from skillyard.sandbox.runtimes import can_start, interpreter_for, on_trusted_path, strips_types

if TYPE_CHECKING:
    from skillyard.sandbox.folder_owners import give_back_folders
    from skillyard.sandbox.run_job import folder_bytes
    from skillyard.sandbox.sandbox_session import SandboxSession, open_session
    from skillyard.sandbox.session_preparation import ReadOnlyMount, SessionRequest
    from skillyard.sandbox.standby_sandboxes import WarmPool

__all__ = [
    "NOTHING_GRANTED",
    "GrantedEnvironment",
    "Job",
    "Limit",
    "Policy",
    "Probe",
    "ReadOnlyMount",
    "RunMode",
    "SandboxBackend",
    "SandboxResult",
    "SandboxSession",
    "SessionRequest",
    "Status",
    "StreamListener",
    "WarmPool",
    "backends",
    "can_reach",
    "can_start",
    "choose_backend",
    "container_image",
    "effective_policy",
    "folder_bytes",
    "give_back_folders",
    "interpreter_for",
    "listen_to_output",
    "lowered_ceiling",
    "narrowing_warnings",
    "on_trusted_path",
    "open_session",
    "prewarm_count",
    "probe_all",
    "redact",
    "strips_types",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "folder_owners": ("give_back_folders",),
        "run_job": ("folder_bytes",),
        "sandbox_session": ("SandboxSession", "open_session"),
        "session_preparation": ("ReadOnlyMount", "SessionRequest"),
        "standby_sandboxes": ("WarmPool",),
    },
)
