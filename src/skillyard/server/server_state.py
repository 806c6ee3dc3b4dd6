"""What one application shares with all its requests, with the endpoints of MCP, which are opened at their first request.

At `/mcp` each organisation's skills are tools, prompts and resources, for every client that speaks streamable HTTP. The
handlers are those of `skillyard mcp`. Who may not run skills is not offered the tool that does.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

import anyio
from fastapi import Depends, Request
from starlette.concurrency import run_in_threadpool

from skillyard.access import Actor, acting_as
from skillyard.errors import ServerStopping, SkillyardError
from skillyard.server.background.running_work import Shutdown, WebhookNotifier
from skillyard.server.middleware.authentication import CredentialStore
from skillyard.server.middleware.observability import Metrics
from skillyard.server.organisation_services import OrganisationPool, OrganisationServices, ScheduleClock
from skillyard.server.server_settings import AccessPolicy, McpSessions, ServerSettings

if TYPE_CHECKING:
    from anyio.abc import TaskGroup, TaskStatus

    from skillyard.access import AuditOutcome
    from skillyard.mcp import McpHttpApp
    from skillyard.mcp.mcp_server import ToolUse, ToolUses
    from skillyard.tools import ToolResult


READ_ONLY_TOOLS: Final = frozenset({"skill", "skills_list", "skills_load", "read_skill_file", "search_skills"})
"""They leave no audit record."""

_REFUSALS: Final = frozenset({"permission_denied", "approval_rejected", "not_yours"})
_LOG: Final = logging.getLogger(__name__)


class McpEndpoints:
    """One endpoint for each organisation and power, opened at its first request, all closed with the server."""

    def __init__(self, limits: McpSessions, *, sessions: bool = True) -> None:
        self._sessions = sessions
        self._limits = limits
        self._open: dict[tuple[str, bool], McpHttpApp] = {}
        self._opening = anyio.Lock()
        self._group: TaskGroup | None = None

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Endpoints can be opened in this block; at its end all of them end."""
        async with anyio.create_task_group() as group:
            self._group = group
            try:
                yield
            finally:
                self._group = None
                group.cancel_scope.cancel()

    def close_change_streams(self) -> None:
        """End the streams that only wait for changes."""
        for endpoint in self._open.values():
            endpoint.end_subscriptions()

    async def endpoint(self, organisation: str, runs: bool, pool: OrganisationPool) -> McpHttpApp:
        """The endpoint to the skills of an organisation, with or without the tool that runs them.

        Raises:
            ServerStopping: the server is about to stop.
        """
        async with self._opening:
            endpoint = self._open.get((organisation, runs))
            if endpoint is None:
                if self._group is None:
                    raise ServerStopping("the server is about to stop", hint="ask again when it is back")
                endpoint = self._open[organisation, runs] = await self._group.start(self._keep, organisation, runs, pool)
        return endpoint

    async def _keep(
        self, organisation: str, runs: bool, pool: OrganisationPool, *, task_status: TaskStatus[McpHttpApp]
    ) -> None:
        """Keep an endpoint, and the services behind it, open as long as the server runs."""
        async with pool.of(organisation) as service:
            endpoint = await run_in_threadpool(_endpoint, service, runs=runs, sessions=self._sessions, limits=self._limits)
            async with endpoint.running():
                task_status.started(endpoint)
                await anyio.sleep_forever()


@dataclass(frozen=True, slots=True)
class ServerState:
    """What one application shares with all its requests: its `app.state`."""

    pool: OrganisationPool
    settings: ServerSettings
    access_policy: AccessPolicy
    credentials: CredentialStore
    clock: ScheduleClock
    endpoints: McpEndpoints
    metrics: Metrics
    stopping: Shutdown
    notifier: WebhookNotifier

    @property
    def offers_oauth(self) -> bool:
        """Whether people may let clients of MCP sign in here."""
        return self.access_policy.keys_required and self.settings.oauth.enabled


async def _server_state(request: Request) -> ServerState:
    state: ServerState = request.app.state
    return state


CurrentState = Annotated[ServerState, Depends(_server_state)]


def _endpoint(service: OrganisationServices, *, runs: bool, sessions: bool, limits: McpSessions) -> McpHttpApp:
    from skillyard.execution import RunOrigin
    from skillyard.mcp import McpHttpApp
    from skillyard.tools import SkillTools

    catalog = service.catalog
    tools = SkillTools(
        catalog,
        approver=service.questions.asker_for_sessions(),
        engine=catalog.engine(),
        run_skills=runs,
        session="mcp",
        repeat="text",
        origin=RunOrigin("mcp"),
    )
    return McpHttpApp(tools, sessions=sessions, **limits._asdict(), on_call=_recorded(service))


def _recorded(service: OrganisationServices) -> ToolUses:
    """What makes each call of a tool one of the caller's own, and writes down the one that does something."""
    from skillyard.mcp import ToolUse

    @asynccontextmanager
    async def use(request: Request, name: str, arguments: Mapping[str, object]) -> AsyncIterator[ToolUse]:
        state = request.scope["state"]
        owner = service.owner(state["caller"])
        tool_use = ToolUse(owner, session=owner)
        try:
            yield tool_use
        finally:
            if name not in READ_ONLY_TOOLS and (tool_use.result is None or tool_use.result.code != "unknown_tool"):
                subject = str(arguments.get("name") or arguments.get("skill") or name)
                with anyio.CancelScope(shield=True):  # also when the client has left
                    await run_in_threadpool(_record, service, state["actor"], subject, tool_use.result)

    return use


def _record(service: OrganisationServices, actor: Actor, subject: str, result: ToolResult | None) -> None:
    outcome: AuditOutcome = "success"
    if result is None or not result.ok:
        outcome = "refused" if result is not None and result.code in _REFUSALS else "failed"
    with acting_as(Actor(actor.name, actor.organisation, actor.request_id, actor.address)):
        try:
            service.audit_log.record("models.call_tool", subject, outcome, {"over": "mcp"})
        except SkillyardError:
            _LOG.exception("a call of a tool over MCP could not be recorded")
