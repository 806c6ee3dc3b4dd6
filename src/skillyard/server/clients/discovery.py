"""Indexes by which clients discover skills: `.well-known` (0.2.0 and 0.1), the search of skills.sh, a registry's mirror.

In the index 0.2.0 each skill is one archive with its SKILL.md in the root, the same bytes for the same content, named by their
digest. The index 0.1 lists single files without digests.
"""

from __future__ import annotations

import contextlib
from itertools import islice
from typing import Annotated, Any, Final
from weakref import WeakKeyDictionary

from fastapi import APIRouter, Query, Request, Response
from fastapi import Path as InPath

from skillyard.errors import PackageMissing, SkillyardError
from skillyard.registry import InstalledSkill, Registry, SkillVersion
from skillyard.registry.mirror import RegistryMirror
from skillyard.registry.mirror_locations import INDEX_FILE, MirrorIndex
from skillyard.server.authorization import require_scope
from skillyard.server.clients.published_skills import (
    collect_shapes,
    current_version,
    offered_skill,
    offered_skills,
    package_bytes,
    package_digest,
    package_names,
    search_offered,
    version_folder,
)
from skillyard.server.organisation_services import CurrentServices, OrganisationServices
from skillyard.server.responses import FILE_RESPONSES, READ_PROBLEMS, WRITE_PROBLEMS, bytes_response, version_file_response

_SCHEMA: Final = "https://schemas.agentskills.io/discovery/0.2.0/schema.json"
_CACHED: Final = {"Cache-Control": "public, no-cache", "Access-Control-Allow-Origin": "*"}

well_known_routes: Final = APIRouter(tags=["discovery"], dependencies=[require_scope("skills:read")])


@well_known_routes.get("/.well-known/agent-skills/index.json", responses=READ_PROBLEMS)
def index(service: CurrentServices, response: Response) -> dict[str, Any]:
    """Every installed skill that the rules let anybody read, with the digest of its archive."""
    response.headers.update(_CACHED)

    serving = service.registry.installed.serving()
    skills = (skill for skill in offered_skills(service) if skill.skill_id in serving)
    shapes = collect_shapes(skills, lambda skill: _entry(service, skill, serving[skill.skill_id]))
    return {"$schema": _SCHEMA, "skills": shapes}


@well_known_routes.get("/@{name}/.well-known/agent-skills/index.json", responses=READ_PROBLEMS)
def index_of_one(service: CurrentServices, response: Response, name: str) -> dict[str, Any]:
    """The same for one skill, so that its own address `/@{name}` can be given to a client."""
    response.headers.update(_CACHED)
    skill = offered_skill(service, name)
    entry = _entry(service, skill, service.registry.installed.current(skill.skill_id))
    return {"$schema": _SCHEMA, "skills": [entry | {"url": f"/.well-known/agent-skills/{entry['url']}"}]}


@well_known_routes.get("/.well-known/agent-skills/{name}.zip", responses=READ_PROBLEMS, response_class=Response)
def archive(service: CurrentServices, request: Request, name: str) -> Response:
    """The archive of one skill."""
    skill = offered_skill(service, name)
    data = package_bytes(service, service.registry.installed.current(skill.skill_id))
    answer = bytes_response(request, data, "application/zip")
    answer.headers.update(_CACHED)
    return answer


def _entry(service: OrganisationServices, skill: InstalledSkill, version: SkillVersion) -> dict[str, str]:
    name, digest = skill.skill_id, package_digest(service, version)
    entry = {"name": name, "type": "archive", "description": skill.description, "version": version.label or version.version}
    return entry | {"url": f"{name}.zip", "digest": digest}


legacy_well_known_routes: Final = APIRouter(
    prefix="/.well-known/skills", tags=["discovery"], dependencies=[require_scope("skills:read")]
)


@legacy_well_known_routes.get("/index.json", name="index", responses=READ_PROBLEMS)
def legacy_index(service: CurrentServices, response: Response) -> dict[str, Any]:
    """Every installed skill that the rules let anybody read, with its files; two dots in a name are an attack to clients."""
    response.headers["Access-Control-Allow-Origin"] = "*"
    entries = collect_shapes(offered_skills(service), lambda skill: _legacy_entry(service, skill))
    return {"skills": [entry for entry in entries if not any(".." in path for path in entry["files"])]}


@legacy_well_known_routes.get(
    "/{name}/{path:path}", responses=READ_PROBLEMS | WRITE_PROBLEMS | FILE_RESPONSES, response_class=Response
)
def one_file(
    service: CurrentServices,
    request: Request,
    name: Annotated[str, InPath(max_length=200)],
    path: Annotated[str, InPath(max_length=1024)],
) -> Response:
    """One file of a skill."""
    one = current_version(service, offered_skill(service, name).skill_id)
    answer = version_file_response(request, version_folder(service, one.version), path)
    answer.headers["Access-Control-Allow-Origin"] = "*"
    return answer


def _legacy_entry(service: OrganisationServices, skill: InstalledSkill) -> dict[str, Any]:
    files = package_names(service, current_version(service, skill.skill_id).version)
    return {"name": skill.skill_id, "description": skill.description, "files": files}


skills_sh_routes: Final = APIRouter(prefix="/api", tags=["clients: skills.sh"], dependencies=[require_scope("skills:read")])


@skills_sh_routes.get("/search", responses=READ_PROBLEMS)
def search(
    service: CurrentServices,
    request: Request,
    q: Annotated[str, Query(max_length=2000)] = "",
    limit: Annotated[int, Query(ge=1, le=200)] = 10,
) -> dict[str, Any]:
    """The skills that fit a request, the best first; what `find` shows of each can be given to `add`."""
    matches = [skill for skill, _ in islice(search_offered(service, q), limit)]
    source = str(request.base_url)
    skills = [{"id": f"@{skill.skill_id}", "name": skill.skill_id, "source": source} for skill in matches]
    return {"query": q, "skills": skills, "count": len(skills)}


mirror_routes: Final = APIRouter(prefix="/mirror", tags=["mirror"], dependencies=[require_scope("skills:read")])
_MIRRORS: Final[WeakKeyDictionary[Registry, RegistryMirror]] = WeakKeyDictionary()


@mirror_routes.get(f"/{INDEX_FILE}", name="index", responses=READ_PROBLEMS, response_class=Response)
def mirror_index(service: CurrentServices) -> Response:
    """Every installed skill that the rules let anybody read, with its versions and their digests."""
    skills = [skill for skill in _registry_mirror(service).index().skills if _is_open(service, skill.skill_id)]
    return Response(MirrorIndex(tuple(skills)).to_bytes(), media_type="application/json")


@mirror_routes.get("/packages/{start}/{rest}", responses=READ_PROBLEMS, response_class=Response)
def package(
    service: CurrentServices,
    start: Annotated[str, InPath(pattern="^[0-9a-f]{2}$")],
    rest: Annotated[str, InPath(pattern="^[0-9a-f]{62}$")],
) -> Response:
    """One package, by the hex digits of its digest."""
    digest, mirror = f"sha256:{start}{rest}", _registry_mirror(service)
    if not any(_is_open(service, skill_id) for skill_id in mirror.skills_with(digest)):
        raise PackageMissing(f"there is no package {digest}", hint=f"/mirror/{INDEX_FILE} lists them")
    return Response(mirror.package(digest), media_type="application/zip", headers={"ETag": f'"{digest}"'})


def _registry_mirror(service: OrganisationServices) -> RegistryMirror:
    mirror = _MIRRORS.get(service.registry)
    if mirror is None:
        mirror = _MIRRORS[service.registry] = RegistryMirror(service.registry, service.catalog.data_directory)
    return mirror


def _is_open(service: OrganisationServices, skill_id: str) -> bool:
    """Whether the rules let anybody read the skill; of one that was uninstalled, what they say of its name."""
    with contextlib.suppress(SkillyardError):
        service.require_installed_readable(service.registry.installed.skill(skill_id, installed=False))
        return True
    return False
