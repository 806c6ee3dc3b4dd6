"""The discovery index 0.1, for clients that know no other: `/.well-known/skills/` with each file by itself.

It has no digests; whoever can reads `/.well-known/agent-skills/`.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter, Request, Response
from fastapi import Path as InPath

from skillyard.catalog import read_file
from skillyard.packages import Limits
from skillyard.registry import InstalledSkill
from skillyard.server.callers import needs
from skillyard.server.contents import file_answer
from skillyard.server.definitions import FILE, Folder
from skillyard.server.offered import listed, offered, one_offered, serving
from skillyard.server.packaged import folder_of, names_in
from skillyard.server.problems import READING, WRITING
from skillyard.server.service import Served, Service

__all__ = ["routes"]

routes: Final = APIRouter(prefix="/.well-known/skills", tags=["discovery"], dependencies=[needs("skills:read")])


@routes.get("/index.json", responses=READING)
def index(service: Served, response: Response) -> dict[str, Any]:
    """Every installed skill that the rules let anybody read, with its files; two dots in a name are an attack to clients."""
    response.headers["Access-Control-Allow-Origin"] = "*"
    entries = listed(offered(service), lambda skill: _entry(service, skill))
    return {"skills": [entry for entry in entries if not any(".." in path for path in entry["files"])]}


@routes.get("/{name}/{path:path}", responses=READING | WRITING | FILE, response_class=Response)
def one_file(
    service: Served,
    request: Request,
    name: Annotated[str, InPath(max_length=200)],
    path: Annotated[str, InPath(max_length=1024)],
) -> Response:
    """One file of a skill."""
    one = serving(service, one_offered(service, name).skill_id)
    answer = file_answer(request, read_file(Folder(str(folder_of(service, one.version))), path, limit=Limits().file))
    answer.headers["Access-Control-Allow-Origin"] = "*"
    return answer


def _entry(service: Service, skill: InstalledSkill) -> dict[str, Any]:
    files = names_in(service, serving(service, skill.skill_id).version)
    return {"name": skill.skill_id, "description": skill.description, "files": files}
