"""Whether the server lives, and whether it can serve."""

from __future__ import annotations

from typing import Final, Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel

from skillyard.errors import ServerStopping
from skillyard.server.callers import OPEN
from skillyard.server.problems import READING
from skillyard.server.service import Served

__all__ = ["routes"]

routes: Final = APIRouter(tags=["health"])


class Health(BaseModel):
    """All is well; anything else is a problem."""

    status: Literal["ok"] = "ok"


@routes.get("/healthz", responses=READING, openapi_extra=OPEN)
async def alive() -> Health:
    """The process answers."""
    return Health()


@routes.get("/readyz", responses=READING, openapi_extra=OPEN)
def ready(service: Served, request: Request) -> Health:
    """The records can be read, and the server does not stop."""
    if request.app.state.stopping.begun:
        raise ServerStopping("the server is about to stop", hint="ask another one, or this one when it is back")
    service.registry.history(limit=1)
    return Health()
