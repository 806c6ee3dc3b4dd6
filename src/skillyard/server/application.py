"""The application: all routers, one shape for errors, the middlewares in their order.

A router is only tried for paths with a prefix of one of its routes: two hundred routes are not tried one after the other. The
routes and their description are the same for all applications of a process, and are made once.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Final

from fastapi import APIRouter, FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import URLPath
from starlette.routing import BaseRoute, Match, NoMatchFound
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from skillyard import __version__
from skillyard.errors import DatabaseUnavailable, SkillyardError
from skillyard.library import Catalog
from skillyard.registry import Registry
from skillyard.server.authorization import scopes_of
from skillyard.server.background.caller_sessions import SessionSlots
from skillyard.server.background.running_work import Shutdown, WebhookNotifier
from skillyard.server.clients import (
    agent_tasks,
    anthropic_skills,
    clawhub,
    clawhub_publishing,
    clawhub_skills,
    discovery,
    oauth_endpoints,
    openai_skills,
    plugin_marketplace,
    resource_discovery,
)
from skillyard.server.middleware.authentication import (
    SCHEMES,
    WEBHOOK_SCHEMES,
    AuthenticationMiddleware,
    CredentialStore,
    HostOriginCheck,
    PublicRoutes,
)
from skillyard.server.middleware.error_formats import ErrorFormats
from skillyard.server.middleware.observability import AuditRecorder, Metrics, RequestIds, RequestObserver
from skillyard.server.middleware.request_limits import BodyLimits, RateLimiter
from skillyard.server.organisation_services import OrganisationPool, OrganisationScope, OrganisationServices, ScheduleClock
from skillyard.server.responses import Problem, add_error_handlers, describe_streams
from skillyard.server.routes import (
    administration_routes,
    agent_routes,
    catalog_routes,
    chat_routes,
    collection_routes,
    credential_routes,
    installation_routes,
    page_routes,
    run_routes,
    schedule_routes,
    server_info_routes,
    skill_definition_routes,
    skill_routes,
    tool_and_memory_routes,
    workspace_routes,
)
from skillyard.server.server_settings import AccessPolicy, ServerSettings
from skillyard.server.server_state import McpEndpoints, ServerState
from skillyard.tracing import flush_spans

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send


class PrefixRoutes(BaseRoute):
    """The routes of a router, which are only tried for paths with one of their prefixes.

    They serve as they were declared: FastAPI's `include_router` would build each of them once more for every application, at
    the first request that comes by.
    """

    def __init__(self, router: APIRouter) -> None:
        self._router = router
        self.routes = router.routes
        self._beginnings = tuple({str(getattr(route, "path", "")).partition("{")[0] for route in router.routes})

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Whether a route fits, or a path whose route then refuses the method; what it makes of the scope is the router's."""
        best = Match.NONE
        if scope["path"].startswith(self._beginnings):
            for route in self._router.routes:
                match, _ = route.matches(scope)
                if match == Match.FULL:
                    return match, {}
                best = Match.PARTIAL if match == Match.PARTIAL else best
        return best, {}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the router answer, which names the span of the request after the route."""
        await self._router.app(scope, receive, send)

    def url_path_for(self, name: str, /, **path_params: Any) -> URLPath:
        """The address of the route of that name.

        Raises:
            NoMatchFound: none of these has it.
        """
        for route in self._router.routes:
            with contextlib.suppress(NoMatchFound):
                return route.url_path_for(name, **path_params)
        raise NoMatchFound(name, path_params)


_TITLE: Final = "Skillyard"
GRACE_S: Final = 30  # for work in progress when the server stops
# The first match wins; the most frequent come first:
ROUTERS: Final = (
    catalog_routes.routes,
    skill_routes.routes,
    collection_routes.routes,
    skill_definition_routes.routes,
    server_info_routes.health_routes,
    server_info_routes.metrics_routes,
    credential_routes.session_routes,
    skill_definition_routes.version_routes,
    installation_routes.operation_routes,
    installation_routes.routes,
    workspace_routes.run_file_routes,
    run_routes.routes,
    run_routes.insight_routes,
    schedule_routes.routes,
    schedule_routes.event_routes,
    schedule_routes.webhook_routes,
    administration_routes.worker_routes,
    administration_routes.approval_routes,
    administration_routes.version_approval_routes,
    agent_routes.routes,
    agent_routes.machine_routes,
    tool_and_memory_routes.memory_routes,
    tool_and_memory_routes.tool_routes,
    tool_and_memory_routes.mcp_routes,
    server_info_routes.machine_routes,
    credential_routes.key_routes,
    credential_routes.oauth_routes,
    oauth_endpoints.metadata_routes,
    oauth_endpoints.client_routes,
    administration_routes.organisation_routes,
    administration_routes.audit_routes,
    chat_routes.routes,
    chat_routes.folder_routes,
    workspace_routes.routes,
    discovery.well_known_routes,
    discovery.mirror_routes,
    server_info_routes.about_routes,
    discovery.legacy_well_known_routes,
    discovery.skills_sh_routes,
    resource_discovery.routes,
    agent_tasks.card_routes,
    agent_tasks.routes,
    plugin_marketplace.routes,
    anthropic_skills.routes,
    openai_skills.routes,
    clawhub.routes,
    clawhub.community_routes,
    clawhub_skills.moderation_routes,
    clawhub_publishing.routes,
    clawhub_skills.scan_routes,
    page_routes.routes,
)
_ROUTES: Final = tuple(route for router in ROUTERS for route in router.routes)
_BY_PREFIX: Final = tuple(PrefixRoutes(router) for router in ROUTERS)
_PUBLIC: Final = PublicRoutes(_ROUTES)


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
    notifier = WebhookNotifier(
        settings.notifications,
        catalog.data_directory,
        allow_private=catalog.configuration.private_hosts,
        timing=catalog.timing,
    )

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        with contextlib.suppress(DatabaseUnavailable):  # `readyz` reports it
            await run_in_threadpool(lambda: registry.records)  # recovers what a killed server left
        stop_counting = counted.listen()
        indexing = asyncio.create_task(run_in_threadpool(_prepare_search, catalog))
        async with (
            pool.running(functools.partial(stopping.left, grace_s)),
            endpoints.running(),
            clock.running(),
            notifier.running(pool),
        ):
            yield
            await stopping.settled()
        await indexing
        stop_counting()
        await run_in_threadpool(flush_spans)

    app = FastAPI(title=_TITLE, version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None)
    credentials = CredentialStore(pool.database)
    state = ServerState(pool, settings, access_policy, credentials, clock, endpoints, counted, stopping, notifier)
    app.state = state  # type: ignore[assignment] # Starlette gives it no type
    stopping.then(endpoints.close_change_streams)
    stopping.then(pool.close_questions, last=True)
    app.router.routes.extend(_BY_PREFIX)
    add_error_handlers(app)
    page_routes.add_not_found_page(app)
    _guard(app, state)
    app.add_middleware(ErrorFormats)
    if proxies := (*settings.trusted_proxies, *access_policy.trusted_proxies):
        app.add_middleware(ProxyHeadersMiddleware, trusted_hosts=list(proxies))
    described = functools.partial(_description, keys_required=access_policy.keys_required)
    app.openapi = described  # type: ignore[method-assign] # the way FastAPI documents
    return app


def _prepare_search(catalog: Catalog) -> None:
    """Read what the first search would wait for; it reports itself what is wrong with the skills."""
    with contextlib.suppress(OSError, SkillyardError):
        catalog.prepare_search()


def _guard(app: FastAPI, state: ServerState) -> None:
    """Add the middlewares; the last one added runs first."""
    app.add_middleware(BodyLimits, limits=state.settings.connections)
    app.add_middleware(OrganisationScope)
    app.add_middleware(AuditRecorder, pool=state.pool)
    app.add_middleware(RateLimiter, rates=state.settings.rates)
    app.add_middleware(
        AuthenticationMiddleware,
        credentials=state.credentials,
        policy=state.access_policy,
        public_routes=_PUBLIC,
        oauth=state.offers_oauth,
    )
    app.add_middleware(HostOriginCheck, policy=state.access_policy)
    app.add_middleware(RequestIds)
    app.add_middleware(RequestObserver, metrics=state.metrics, stopping=state.stopping)


def _describe_keys(found: dict[str, Any], *, required: bool) -> None:
    """Describe how to send a key, and the scopes that each route requires; `security: []` of a route means none."""
    found["components"]["securitySchemes"] = SCHEMES | WEBHOOK_SCHEMES
    found["security"] = [*({name: []} for name in SCHEMES), *([] if required else [{}])]
    for route in _ROUTES:
        if isinstance(route, APIRoute) and route.include_in_schema and (scopes := scopes_of(route.dependencies)):
            for method in route.methods or ():
                found["paths"][route.path_format][method.lower()]["x-scopes"] = scopes


@functools.cache
def _description(*, keys_required: bool) -> dict[str, Any]:
    """OpenAPI with the shape of problems, and without FastAPI's own error, which is never sent."""
    found = get_openapi(title=_TITLE, version=__version__, routes=_ROUTES)
    shapes = found["components"]["schemas"]
    problem = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
    shapes |= problem.pop("$defs")
    shapes["Problem"] = problem
    _describe_keys(found, required=keys_required)
    for methods in found["paths"].values():
        for route in methods.values():
            if "HTTPValidationError" in str(route["responses"].get("422")):
                del route["responses"]["422"]
            for content in route.get("requestBody", {}).get("content", {}).values():
                shapes |= content["schema"].pop("$defs", {})  # of a body that the route reads by itself
    describe_streams(found)
    for unused in ("HTTPValidationError", "ValidationError"):
        shapes.pop(unused, None)
    return found
