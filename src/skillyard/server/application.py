"""The application: every router under one roof, one shape for errors, one guard before all."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import AsyncIterator
from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from starlette.concurrency import run_in_threadpool
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from skillyard import __version__
from skillyard.engine import flush_spans
from skillyard.errors import DatabaseUnavailable
from skillyard.library import Catalog
from skillyard.registry import Registry
from skillyard.server import (
    about,
    agents,
    anthropic_skills,
    approvals,
    audit,
    chat,
    clawhub,
    clawhub_community,
    clawhub_moderation,
    clawhub_publishing,
    clawhub_scanning,
    definitions,
    discovered,
    health,
    installing,
    keys,
    machine,
    marketplace,
    memories,
    metrics,
    mirrored,
    modelcontext,
    modelling,
    openai_skills,
    operations,
    organisations,
    portraits,
    runs,
    schedules,
    sessions,
    skills_sh,
    versions,
    wellknown,
    wellknown_files,
    workers,
)
from skillyard.server.admission import Admission
from skillyard.server.authentication import SCHEMES, Authentication, Identities
from skillyard.server.bodies import Bodies
from skillyard.server.callers import scopes_of
from skillyard.server.dialects import Dialects
from skillyard.server.guard import Guard
from skillyard.server.homes import Homes
from skillyard.server.identity import RequestIds
from skillyard.server.limits import RateLimits
from skillyard.server.observing import Observer
from skillyard.server.openness import Openness
from skillyard.server.page import routes as page
from skillyard.server.page import show_lost
from skillyard.server.problems import Problem, answer_errors
from skillyard.server.recording import Recording
from skillyard.server.scheduling import Clock
from skillyard.server.service import Housing, Service
from skillyard.server.settings import ServerSettings
from skillyard.server.signposts import Signposted
from skillyard.server.stopping import Stopping
from skillyard.server.streams import describe_streams

__all__ = ["create_app"]

GRACE_S: Final = 30  # for what is under way when the server is asked to stop
# One module each, with its `routes`; what is asked most often stands first:
_PROTOCOLS: Final = (
    discovered,
    definitions,
    health,
    metrics,
    sessions,
    versions,
    operations,
    installing,
    portraits,
    runs,
    schedules,
    workers,
    approvals,
    agents,
    memories,
    modelling,
    modelcontext,
    machine,
    keys,
    organisations,
    audit,
    chat,
    wellknown,
    mirrored,
    about,
    wellknown_files,
    skills_sh,
    marketplace,
    anthropic_skills,
    openai_skills,
    clawhub,
    clawhub_community,
    clawhub_moderation,
    clawhub_publishing,
    clawhub_scanning,
)


def create_app(
    catalog: Catalog,
    registry: Registry,
    *,
    admission: Admission | None = None,
    alone: bool = True,
    grace_s: float = GRACE_S,
) -> FastAPI:
    """The HTTP service over a catalog and a registry, which are let go of when it stops.

    It is open to the local user, unless `admission` says that keys are needed. `alone` says that no other process serves the
    same address: what only this one knows may then be asked for again. Runs that go on have `grace_s` seconds when it stops.

    Raises:
        InvalidConfiguration: the table `[server]` cannot be understood.
    """
    admission = admission or Admission()
    counted, stopping = metrics.Metrics(), Stopping()
    settings = ServerSettings.of(catalog.configuration)
    one = alone and not catalog.records().may_have_workers  # else other servers may share the address
    endpoints = modelcontext.Doors(settings.mcp, sessions=one)
    if admission.keys_required:  # whoever calls from elsewhere must not reach through this machine what they cannot reach
        registry = registry.beside(catalog, public_only=True)
    homes = Homes(Service(catalog, registry))
    clock = Clock(homes)

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        with contextlib.suppress(DatabaseUnavailable):  # `readyz` says so
            await run_in_threadpool(lambda: registry.ledger)  # what a killed server left is put in order
        stop_counting = counted.listen()
        async with homes.running(functools.partial(stopping.left, grace_s)), endpoints.running(), clock.running():
            yield
            await stopping.settled()
        stop_counting()
        await run_in_threadpool(flush_spans)

    app = FastAPI(title="Skillyard", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None)
    app.state.homes, app.state.settings, app.state.admission = homes, settings, admission
    app.state.metrics, app.state.stopping, app.state.endpoints = counted, stopping, endpoints
    app.state.clock = clock
    stopping.then(endpoints.stop_telling)
    stopping.then(homes.stop_asking, last=True)
    app.state.identities = Identities(homes.database)
    for routes in (*(protocol.routes for protocol in _PROTOCOLS), page):
        app.include_router(Signposted(routes))
    answer_errors(app)
    show_lost(app)
    _guard(app)
    app.add_middleware(Dialects)
    if proxies := (*settings.trusted_proxies, *admission.trusted_proxies):
        app.add_middleware(ProxyHeadersMiddleware, trusted_hosts=list(proxies))
    app.openapi = lambda: _description(app)  # type: ignore[method-assign] # the way FastAPI documents
    return app


def _guard(app: FastAPI) -> None:
    """What a request passes before it comes to its route; the last that is added stands before all others."""
    state, routers = app.state, [*(protocol.routes for protocol in _PROTOCOLS), page]
    openness = Openness(route for router in routers for route in router.routes)
    app.add_middleware(Bodies, limits=state.settings.connections)
    app.add_middleware(Housing)
    app.add_middleware(Recording, homes=state.homes)
    app.add_middleware(RateLimits, rates=state.settings.rates)
    app.add_middleware(Authentication, identities=state.identities, admission=state.admission, openness=openness)
    app.add_middleware(Guard, admission=state.admission)
    app.add_middleware(RequestIds)
    app.add_middleware(Observer, metrics=state.metrics, stopping=state.stopping)


def _describe_keys(app: FastAPI, found: dict[str, Any]) -> None:
    """How to show a key, and which scopes each route asks for; `security: []` of a route says that it asks for none."""
    found["components"]["securitySchemes"] = SCHEMES
    found["security"] = [*({name: []} for name in SCHEMES), *([] if app.state.admission.keys_required else [{}])]
    for protocol in _PROTOCOLS:
        for route in protocol.routes.routes:
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
