"""The application: all routers, one shape for errors, the middlewares in their order.

A router is only tried for paths with a prefix of one of its routes: two hundred routes are not tried one after the other.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Final

from fastapi import APIRouter, FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from starlette.concurrency import run_in_threadpool
from starlette.routing import Match
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from skillyard import __version__
from skillyard.engine import flush_spans
from skillyard.errors import DatabaseUnavailable
from skillyard.library import Catalog
from skillyard.registry import Registry
from skillyard.server.authorization import scopes_of
from skillyard.server.background.caller_workspaces import SessionSlots
from skillyard.server.background.running_work import Shutdown
from skillyard.server.clients import (
    anthropic_skills,
    clawhub,
    clawhub_publishing,
    clawhub_scanning,
    discovery,
    openai_skills,
    plugin_marketplace,
)
from skillyard.server.middleware.audit_log import AuditRecorder
from skillyard.server.middleware.authentication import (
    SCHEMES,
    WEBHOOK_SCHEMES,
    AuthenticationMiddleware,
    CredentialStore,
    HostOriginCheck,
    PublicRoutes,
)
from skillyard.server.middleware.error_formats import ErrorFormats
from skillyard.server.middleware.observability import Metrics, RequestIds, RequestObserver
from skillyard.server.middleware.request_limits import BodyLimits, RateLimiter
from skillyard.server.organisation_services import OrganisationPool, OrganisationScope, OrganisationServices, ScheduleClock
from skillyard.server.responses import Problem, add_error_handlers, describe_streams
from skillyard.server.routes import (
    administration,
    agents,
    chat,
    chat_workspace,
    credentials,
    installation,
    page,
    run_files,
    runs,
    schedules,
    server_info,
    skill_definitions,
    tools_and_memory,
    workspaces,
)
from skillyard.server.routes import catalog as catalog_routes
from skillyard.server.server_state import McpEndpoints, ServerState
from skillyard.server.settings import AccessPolicy, ServerSettings

if TYPE_CHECKING:
    from starlette.types import Scope


class PrefixRouter(APIRouter):
    """The routes of another router, which are only tried for paths with one of their prefixes."""

    def __init__(self, router: APIRouter) -> None:
        super().__init__(routes=router.routes)
        self._beginnings = tuple({str(getattr(route, "path", "")).partition("{")[0] for route in router.routes})

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """The match of the inner routes, where a prefix fits."""
        return super().matches(scope) if scope["path"].startswith(self._beginnings) else (Match.NONE, {})


GRACE_S: Final = 30  # for work in progress when the server stops
# The first match wins; the most frequent come first:
ROUTERS: Final = (
    catalog_routes.routes,
    skill_definitions.routes,
    server_info.health_routes,
    server_info.metrics_routes,
    credentials.session_routes,
    skill_definitions.version_routes,
    installation.operation_routes,
    installation.routes,
    run_files.routes,
    runs.routes,
    schedules.routes,
    schedules.event_routes,
    schedules.webhook_routes,
    administration.worker_routes,
    administration.approval_routes,
    agents.routes,
    tools_and_memory.memory_routes,
    tools_and_memory.tool_routes,
    tools_and_memory.mcp_routes,
    server_info.machine_routes,
    credentials.key_routes,
    administration.organisation_routes,
    administration.audit_routes,
    chat.routes,
    chat_workspace.routes,
    workspaces.routes,
    discovery.well_known_routes,
    discovery.mirror_routes,
    server_info.about_routes,
    discovery.legacy_well_known_routes,
    discovery.skills_sh_routes,
    plugin_marketplace.routes,
    anthropic_skills.routes,
    openai_skills.routes,
    clawhub.routes,
    clawhub.community_routes,
    clawhub_scanning.moderation_routes,
    clawhub_publishing.routes,
    clawhub_scanning.scan_routes,
    page.routes,
)


def create_app(
    catalog: Catalog,
    registry: Registry,
    *,
    access_policy: AccessPolicy | None = None,
    alone: bool = True,
    grace_s: float = GRACE_S,
) -> FastAPI:
    """The HTTP service over a catalog and a registry, which are closed when it stops.

    It is open to the local user, unless `access_policy` requires keys. `alone` means that no other process serves
    the same address: state of this process may then be used across requests. Runs have `grace_s` seconds when it stops.

    Raises:
        InvalidConfiguration: the table `[server]` cannot be understood.
    """
    access_policy = access_policy or AccessPolicy()
    counted, stopping = Metrics(), Shutdown()
    settings = ServerSettings.of(catalog.configuration)
    one = alone and not catalog.records().may_have_workers  # else other servers may share the address
    endpoints = McpEndpoints(settings.mcp, sessions=one)
    if access_policy.keys_required:  # remote callers must not reach through this machine what they cannot reach
        registry = registry.for_catalog(catalog, public_only=True)
    pool = OrganisationPool(OrganisationServices(catalog, registry, SessionSlots(settings.workspaces, lasting=alone)))
    clock = ScheduleClock(pool)

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        with contextlib.suppress(DatabaseUnavailable):  # `readyz` reports it
            await run_in_threadpool(lambda: registry.records)  # recovers what a killed server left
        stop_counting = counted.listen()
        async with pool.running(functools.partial(stopping.left, grace_s)), endpoints.running(), clock.running():
            yield
            await stopping.settled()
        stop_counting()
        await run_in_threadpool(flush_spans)

    app = FastAPI(title="Skillyard", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None)
    credentials = CredentialStore(pool.database)
    state = ServerState(pool, settings, access_policy, credentials, clock, endpoints, counted, stopping)
    app.state = state  # type: ignore[assignment] # Starlette gives it no type
    stopping.then(endpoints.close_change_streams)
    stopping.then(pool.close_questions, last=True)
    for routes in ROUTERS:
        app.include_router(PrefixRouter(routes))
    add_error_handlers(app)
    page.add_not_found_page(app)
    _guard(app, state)
    app.add_middleware(ErrorFormats)
    if proxies := (*settings.trusted_proxies, *access_policy.trusted_proxies):
        app.add_middleware(ProxyHeadersMiddleware, trusted_hosts=list(proxies))
    app.openapi = lambda: _description(app)  # type: ignore[method-assign] # the way FastAPI documents
    return app


def _guard(app: FastAPI, state: ServerState) -> None:
    """Add the middlewares; the last one added runs first."""
    public_routes = PublicRoutes(route for router in ROUTERS for route in router.routes)
    app.add_middleware(BodyLimits, limits=state.settings.connections)
    app.add_middleware(OrganisationScope)
    app.add_middleware(AuditRecorder, pool=state.pool)
    app.add_middleware(RateLimiter, rates=state.settings.rates)
    app.add_middleware(
        AuthenticationMiddleware, credentials=state.credentials, policy=state.access_policy, public_routes=public_routes
    )
    app.add_middleware(HostOriginCheck, policy=state.access_policy)
    app.add_middleware(RequestIds)
    app.add_middleware(RequestObserver, metrics=state.metrics, stopping=state.stopping)


def _describe_keys(app: FastAPI, found: dict[str, Any]) -> None:
    """Describe how to send a key, and the scopes that each route requires; `security: []` of a route means none."""
    found["components"]["securitySchemes"] = SCHEMES | WEBHOOK_SCHEMES
    found["security"] = [*({name: []} for name in SCHEMES), *([] if app.state.access_policy.keys_required else [{}])]
    for router in ROUTERS:
        for route in router.routes:
            if isinstance(route, APIRoute) and route.include_in_schema and (scopes := scopes_of(route.dependencies)):
                for method in route.methods or ():
                    found["paths"][route.path_format][method.lower()]["x-scopes"] = scopes


def _description(app: FastAPI) -> dict[str, Any]:
    """OpenAPI with the shape of problems, and without FastAPI's own error, which is never sent."""
    if app.openapi_schema is None:
        found = get_openapi(title=app.title, version=app.version, routes=app.routes)
        shapes = found["components"]["schemas"]
        problem = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
        shapes |= problem.pop("$defs")
        shapes["Problem"] = problem
        _describe_keys(app, found)
        for methods in found["paths"].values():
            for route in methods.values():
                if "HTTPValidationError" in str(route["responses"].get("422")):
                    del route["responses"]["422"]
                for content in route.get("requestBody", {}).get("content", {}).values():
                    shapes |= content["schema"].pop("$defs", {})  # of a body that the route reads by itself
        describe_streams(found)
        for unused in ("HTTPValidationError", "ValidationError"):
            shapes.pop(unused, None)
        app.openapi_schema = found
    return app.openapi_schema
