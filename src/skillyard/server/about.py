"""What each protocol here is, told at its own address, and where ClawHub's client finds its registry."""

from __future__ import annotations

from typing import Any, Final

from fastapi import APIRouter, Request

from skillyard import __version__
from skillyard.server.callers import OPEN
from skillyard.server.problems import READING

__all__ = ["routes"]

routes: Final = APIRouter(tags=["clients"])

_DOCUMENTATION: Final = "/openapi.json"


def _about(protocol: str, resources: list[str], use: str) -> dict[str, Any]:
    return {
        "server": "Skillyard",
        "version": __version__,
        "protocol": protocol,
        "resources": resources,
        "use": use,
        "documentation": _DOCUMENTATION,
    }


@routes.get("/anthropic", responses=READING, openapi_extra=OPEN)
@routes.get("/anthropic/v1", responses=READING, openapi_extra=OPEN, include_in_schema=False)
async def anthropic(request: Request) -> dict[str, Any]:
    """What is spoken below /anthropic."""
    use = f'Anthropic(base_url="{_base(request)}/anthropic").beta.skills'
    return _about("Anthropic API, skills", ["/anthropic/v1/skills"], use)


@routes.get("/openai", responses=READING, openapi_extra=OPEN)
@routes.get("/openai/v1", responses=READING, openapi_extra=OPEN, include_in_schema=False)
async def openai(request: Request) -> dict[str, Any]:
    """What is spoken below /openai/v1."""
    return _about("OpenAI API, skills", ["/openai/v1/skills"], f'OpenAI(base_url="{_base(request)}/openai/v1").skills')


@routes.get("/api/v1", responses=READING, openapi_extra=OPEN)
async def api(request: Request) -> dict[str, Any]:
    """What is spoken below /api/v1: Skillyard's own routes, and ClawHub's."""
    resources = ["/api/v1/search", "/api/v1/skills", "/api/v1/resolve", "/api/v1/download", "/api/v1/whoami"]
    return _about("ClawHub v1, beside Skillyard's own routes", resources, f"clawhub --registry {_base(request)}")


@routes.get("/.well-known/clawhub.json", responses=READING, openapi_extra=OPEN)
@routes.get("/.well-known/clawdhub.json", responses=READING, openapi_extra=OPEN, include_in_schema=False)
async def clawhub(request: Request) -> dict[str, str]:
    """Where ClawHub's client, given this site, finds its registry."""
    return {"apiBase": _base(request), "authBase": _base(request), "minCliVersion": "0.18.0"}


def _base(request: Request) -> str:
    return str(request.base_url).rstrip("/")
