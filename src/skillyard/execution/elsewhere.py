"""Skills whose work is done elsewhere: by a service over HTTP, or by a tool of an MCP server."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from skillyard.errors import SkillyardError
from skillyard.execution.call import Call, require_approved
from skillyard.execution.distributed import DistributedCall, call_server, server_problem
from skillyard.execution.report import answered
from skillyard.execution.run import Run
from skillyard.execution.servers import McpServer
from skillyard.execution.service import NO_ENDPOINT, ServiceCall, call_service, has_endpoint
from skillyard.sandbox import Policy, effective, narrowed

if TYPE_CHECKING:
    from skillyard.catalog import Skill

__all__ = ["REMOTE", "Elsewhere"]

REMOTE: Final = ("service", "distributed")
"""The kinds of skills that are asked elsewhere."""


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """Who may be asked: the registered MCP `servers`, and services; granted secrets go to `secret_hosts` only."""

    servers: Mapping[str, McpServer]
    ceiling: Policy
    secret_hosts: tuple[str, ...]

    def can_ask(self, skill: Skill) -> bool:
        """Whether the skill names a service, or a server that is registered here."""
        try:
            config = skill.document().metadata.config
        except (SkillyardError, OSError):
            return False
        if skill.kind == "distributed" and server_problem(config, self.servers) is None:
            return True
        return has_endpoint(config)

    def problem(self, kind: str, config: Mapping[str, object]) -> str:
        """What is missing for a skill of that kind that cannot be asked."""
        missing = server_problem(config, self.servers) if kind == "distributed" else None
        return missing or NO_ENDPOINT

    async def ask(self, kind: str, call: Call, digest: str | None) -> Run:
        """Run a skill as that kind, within its policy.

        Raises:
            KindUnavailable: nobody there does it.
            PermissionDenied: its content is not what `digest` says.
        """
        declared = Policy.from_security(call.metadata.security)
        policy = effective(declared, self.ceiling)
        await require_approved(digest, call)
        began = time.monotonic()
        config, parameters = call.metadata.config, call.parameters
        if kind == "service":
            answer = await call_service(ServiceCall(config, parameters, policy, self.ceiling, self.secret_hosts))
        else:
            answer = await call_server(DistributedCall(config, parameters, self.servers, policy, self.ceiling))
        run = await answered(replace(call, warnings=(*call.warnings, *narrowed(declared, policy))), answer)
        return replace(run, duration_ms=round((time.monotonic() - began) * 1000))
