"""The application: every router under one roof, one shape for errors, one guard before all."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.concurrency import run_in_threadpool

from skillyard import __version__
from skillyard.engine import flush_spans
from skillyard.errors import DatabaseUnavailable
from skillyard.library import Catalog
from skillyard.registry import Registry
from skillyard.server import (
    agents,
    approvals,
    definitions,
    discovered,
    health,
    installing,
    metrics,
    mirrored,
    modelcontext,
    operations,
    portraits,
    runs,
    versions,
    wellknown,
)
from skillyard.server.guard import LocalGuard
from skillyard.server.observing import Observer
from skillyard.server.page import routes as page
from skillyard.server.problems import Problem, answer_errors
from skillyard.server.service import Service
from skillyard.server.stopping import Stopping
from skillyard.server.streams import describe_streams

__all__ = ["create_app"]

GRACE_S: Final = 30  # for what is under way when the server is asked to stop
# One module each, with its `routes`:
_PROTOCOLS: Final = (
    health,
    metrics,
    definitions,
    versions,
    operations,
    installing,
    portraits,
    discovered,
    runs,
    approvals,
    modelcontext,
    agents,
    wellknown,
    mirrored,
)


def create_app(catalog: Catalog, registry: Registry, *, alone: bool = True, grace_s: float = GRACE_S) -> FastAPI:
    """The HTTP service over a catalog and a registry, for the local user; both are let go of when it stops.

    `alone` says that no other process serves the same address: what only this one knows may then be asked for again. When it is
    asked to stop, what is under way has `grace_s` seconds.
    """
    counted, stopping = metrics.Metrics(), Stopping()

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        with contextlib.suppress(DatabaseUnavailable):  # `readyz` says so
            await run_in_threadpool(lambda: registry.ledger)  # what a killed server left is put in order
        stop_counting = counted.listen()
        async with app.state.doors.running():
            yield
            await stopping.settled()
            await service.close(stopping.left(grace_s))
        stop_counting()
        await run_in_threadpool(flush_spans)
        await run_in_threadpool(registry.close)
        await run_in_threadpool(catalog.records().close)

    app = FastAPI(title="Skillyard", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None)
    service = app.state.service = Service(catalog, registry)
    app.state.doors = doors = modelcontext.Doors(sessions=alone)
    app.state.metrics, app.state.stopping = counted, stopping
    stopping.then(doors.stop_telling)
    for protocol in _PROTOCOLS:
        app.include_router(protocol.routes)
    app.include_router(page)
    answer_errors(app)
    app.add_middleware(LocalGuard)
    app.add_middleware(Observer, metrics=counted, stopping=stopping)  # before all others
    app.openapi = lambda: _description(app)  # type: ignore[method-assign] # the way FastAPI documents
    return app


def _description(app: FastAPI) -> dict[str, Any]:
    """OpenAPI with the shape of problems, and without FastAPI's own error, which is never sent."""
    if app.openapi_schema is None:
        found = get_openapi(title=app.title, version=app.version, routes=app.routes)
        shapes = found["components"]["schemas"]
        problem = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
        shapes |= problem.pop("$defs")
        shapes["Problem"] = problem
        for methods in found["paths"].values():
            for route in methods.values():
                if "HTTPValidationError" in str(route["responses"].get("422")):
                    del route["responses"]["422"]
        describe_streams(found)
        for unused in ("HTTPValidationError", "ValidationError"):
            shapes.pop(unused, None)
        app.openapi_schema = found
    return app.openapi_schema
