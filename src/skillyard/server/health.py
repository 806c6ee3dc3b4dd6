"""Whether the server lives, and whether it can serve."""

from __future__ import annotations

from typing import Final, Literal

from fastapi import APIRouter
from pydantic import BaseModel

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
def ready(service: Served) -> Health:
    """The records can be read."""
    service.registry.history(limit=1)
    return Health()
