"""What a site publishes at `/.well-known/agent-skills/`: the installed skills, for every client of the discovery index 0.2.0.

Each skill is one archive with its SKILL.md in the root, always the same bytes for the same content, and named by their digest.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any, Final

from fastapi import APIRouter, Request, Response

from skillyard.errors import PermissionDenied, SkillNotFound
from skillyard.packages import digest_of, pack
from skillyard.registry import InstalledSkill, SkillVersion
from skillyard.server.callers import needs
from skillyard.server.problems import READING
from skillyard.server.service import Served, Service

__all__ = ["routes"]

_SCHEMA: Final = "https://schemas.agentskills.io/discovery/0.2.0/schema.json"
_CACHED: Final = {"Cache-Control": "public, no-cache", "Access-Control-Allow-Origin": "*"}

routes: Final = APIRouter(prefix="/.well-known/agent-skills", tags=["discovery"], dependencies=[needs("skills:read")])


@routes.get("/index.json", responses=READING)
def index(service: Served, response: Response) -> dict[str, Any]:
    """Every installed skill that the rules let anybody read, with the digest of its archive."""
    response.headers.update(_CACHED)
    listed = []
    for skill in service.registry.skills():
        with contextlib.suppress(PermissionDenied):
            service.admit_installed(skill)
            data = _archive(service, service.registry.current(skill.skill_id))
            listed.append(_entry(skill, digest_of(data)))
    return {"$schema": _SCHEMA, "skills": listed}


@routes.get("/{name}.zip", responses=READING, response_class=Response)
def archive(service: Served, request: Request, name: str) -> Response:
    """The archive of one skill."""
    skill = service.registry.skill(name)
    if skill.skill_id != name:
        raise SkillNotFound(f"{name!r} is not published here", hint="/.well-known/agent-skills/index.json lists what is")
    service.admit_installed(skill)
    data = _archive(service, service.registry.current(skill.skill_id))
    headers = {"ETag": f'"{digest_of(data)}"', **_CACHED}
    if request.headers.get("if-none-match") == headers["ETag"]:
        return Response(status_code=304, headers=headers)
    return Response(data, headers=headers, media_type="application/zip")


def _entry(skill: InstalledSkill, digest: str) -> dict[str, str]:
    name = skill.skill_id
    return {"name": name, "type": "archive", "description": skill.description, "url": f"{name}.zip", "digest": digest}


def _archive(service: Service, version: SkillVersion) -> bytes:
    """The package of a version, made once: a version never changes."""
    kept = Path(service.catalog.data_directory, "cache/packages", f"{version.digest.removeprefix('sha256:')}.zip")
    with contextlib.suppress(FileNotFoundError):
        return kept.read_bytes()
    kept.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    pack(service.registry.versions_folder.path(version.skill_id, version.version), kept, whole=True)
    return kept.read_bytes()
