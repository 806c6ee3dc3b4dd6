"""What a site publishes at `/.well-known/agent-skills/`: the installed skills, for every client of the discovery index 0.2.0.

Each skill is one archive with its SKILL.md in the root, always the same bytes for the same content, and named by their digest.
"""

from __future__ import annotations

from typing import Any, Final

from fastapi import APIRouter, Request, Response

from skillyard.packages import digest_of
from skillyard.registry import InstalledSkill
from skillyard.server.callers import needs
from skillyard.server.offered import listed, offered, one_offered
from skillyard.server.packaged import package_digest, package_of
from skillyard.server.problems import READING
from skillyard.server.service import Served

__all__ = ["routes"]

_SCHEMA: Final = "https://schemas.agentskills.io/discovery/0.2.0/schema.json"
_CACHED: Final = {"Cache-Control": "public, no-cache", "Access-Control-Allow-Origin": "*"}

routes: Final = APIRouter(tags=["discovery"], dependencies=[needs("skills:read")])


@routes.get("/.well-known/agent-skills/index.json", responses=READING)
def index(service: Served, response: Response) -> dict[str, Any]:
    """Every installed skill that the rules let anybody read, with the digest of its archive."""
    response.headers.update(_CACHED)

    serving = service.registry.serving()
    skills = (skill for skill in offered(service) if skill.skill_id in serving)
    shapes = listed(skills, lambda skill: _entry(skill, package_digest(service, serving[skill.skill_id])))
    return {"$schema": _SCHEMA, "skills": shapes}


@routes.get("/@{name}/.well-known/agent-skills/index.json", responses=READING)
def index_of_one(service: Served, response: Response, name: str) -> dict[str, Any]:
    """The same for one skill, so that its own address `/@{name}` can be given to a client."""
    response.headers.update(_CACHED)
    skill = one_offered(service, name)
    entry = _entry(skill, package_digest(service, service.registry.current(skill.skill_id)))
    return {"$schema": _SCHEMA, "skills": [entry | {"url": f"/.well-known/agent-skills/{entry['url']}"}]}


@routes.get("/.well-known/agent-skills/{name}.zip", responses=READING, response_class=Response)
def archive(service: Served, request: Request, name: str) -> Response:
    """The archive of one skill."""
    skill = one_offered(service, name)
    data = package_of(service, service.registry.current(skill.skill_id))
    headers = {"ETag": f'"{digest_of(data)}"', **_CACHED}
    if request.headers.get("if-none-match") == headers["ETag"]:
        return Response(status_code=304, headers=headers)
    return Response(data, headers=headers, media_type="application/zip")


def _entry(skill: InstalledSkill, digest: str) -> dict[str, str]:
    name = skill.skill_id
    return {"name": name, "type": "archive", "description": skill.description, "url": f"{name}.zip", "digest": digest}
