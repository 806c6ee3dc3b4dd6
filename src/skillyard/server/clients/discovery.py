"""Indexes by which clients discover skills: `.well-known` (0.2.0 and 0.1), the search of skills.sh, a registry's mirror.

In the index 0.2.0 each skill is one archive with its SKILL.md in the root, the same bytes for the same content, named by their
digest. The index 0.1 lists single files without digests. Versions are a proposal for the index (agentskills/agentskills, pull
request 380): `versions.json` names them and `v1.2.0/index.json` has what is called 1.2.0. The address of one skill, `/@{name}`,
is a site of its own with the versions of that skill, which is the proposal to the letter; at the address of the server a
version is that of each skill that has one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from itertools import islice
from typing import Annotated, Any, Final
from weakref import WeakKeyDictionary

from fastapi import APIRouter, Query, Request, Response
from fastapi import Path as InPath

from skillyard.errors import PackageMissing, SkillyardError, VersionNotFound
from skillyard.registry import InstalledSkill, Registry
from skillyard.registry.mirror_locations import INDEX_FILE, MirrorIndex
from skillyard.registry.registry_mirror import RegistryMirror
from skillyard.registry.requirements import version_key
from skillyard.server.authorization import require_scope
from skillyard.server.clients.published_skills import (
    NumberedVersion,
    collect_shapes,
    current_version,
    find_version,
    metadata_of,
    offered_skill,
    offered_skills,
    offered_versions,
    package_bytes,
    package_digest,
    package_names,
    search_offered,
    usable_versions,
    version_folder,
)
from skillyard.server.organisation_services import CurrentServices, OrganisationServices
from skillyard.server.responses import FILE_RESPONSES, READ_PROBLEMS, WRITE_PROBLEMS, bytes_response, version_file_response

_SCHEMA: Final = "https://schemas.agentskills.io/discovery/0.2.0/schema.json"
_CACHED: Final = {"Cache-Control": "public, no-cache", "Access-Control-Allow-Origin": "*"}

well_known_routes: Final = APIRouter(tags=["discovery"], dependencies=[require_scope("skills:read")])


_SITE: Final = "/.well-known/agent-skills"
_NamePath = Annotated[str, InPath(max_length=200)]
_LabelPath = Annotated[str, InPath(max_length=100)]
"""A semantic version, as `NumberedVersion.label` has it."""


@well_known_routes.get(f"{_SITE}/index.json", responses=READ_PROBLEMS)
def index(service: CurrentServices, response: Response) -> dict[str, Any]:
    """Every installed skill that the rules allow, with the digest of its archive."""
    response.headers.update(_CACHED)
    every = offered_versions(service)
    now = {skill_id: one for skill_id, versions in every.items() for one in versions if one.version.current}
    skills = (skill for skill in offered_skills(service) if skill.skill_id in now)
    return _index(collect_shapes(skills, lambda skill: _entry(service, skill, now[skill.skill_id])))


@well_known_routes.get(f"{_SITE}/versions.json", responses=READ_PROBLEMS)
def list_versions(service: CurrentServices, response: Response) -> dict[str, Any]:
    """The versions that any skill has, the lowest first; `latest` is the highest that is current."""
    response.headers.update(_CACHED)
    every = offered_versions(service)
    readable = [every[skill.skill_id] for skill in offered_skills(service) if skill.skill_id in every]
    return _version_list([one for versions in readable for one in versions])


@well_known_routes.get(f"{_SITE}/v{{version}}/index.json", responses=READ_PROBLEMS)
def index_of_version(service: CurrentServices, response: Response, version: _LabelPath) -> dict[str, Any]:
    """Every skill that has this version, as of this version."""
    response.headers.update(_CACHED)
    found = {name: one for name, versions in offered_versions(service).items() for one in versions if _is_called(one, version)}
    skills = (skill for skill in offered_skills(service) if skill.skill_id in found)
    entries = collect_shapes(skills, lambda skill: _entry(service, skill, found[skill.skill_id]))
    if not entries:
        raise VersionNotFound(f"no skill has a version {version}", hint=f"{_SITE}/versions.json lists them")
    return _index(entries)


@well_known_routes.get("/@{name}" + f"{_SITE}/index.json", responses=READ_PROBLEMS)
def index_of_one(service: CurrentServices, response: Response, name: _NamePath) -> dict[str, Any]:
    """The same for one skill, so that its own address `/@{name}` can be given to a client."""
    response.headers.update(_CACHED)
    skill = offered_skill(service, name)
    entry = _entry(service, skill, current_version(service, skill.skill_id))
    return _index([entry | {"url": f"{_SITE}/{entry['url']}"}])


@well_known_routes.get("/@{name}" + f"{_SITE}/versions.json", responses=READ_PROBLEMS)
def list_versions_of_one(service: CurrentServices, response: Response, name: _NamePath) -> dict[str, Any]:
    """The versions of one skill, the lowest first, and which of them is current."""
    response.headers.update(_CACHED)
    return _version_list(usable_versions(service, offered_skill(service, name).skill_id))


@well_known_routes.get("/@{name}" + f"{_SITE}/v{{version}}/index.json", responses=READ_PROBLEMS)
def index_of_one_version(service: CurrentServices, response: Response, name: _NamePath, version: _LabelPath) -> dict[str, Any]:
    """One version of one skill; what it leads to never changes."""
    response.headers.update(_CACHED)
    skill = offered_skill(service, name)
    entry = _entry(service, skill, _find_version(service, skill, version))
    return _index([entry | {"url": f"{_SITE}/v{version}/{skill.skill_id}.zip"}])


@well_known_routes.get(f"{_SITE}/{{name}}.zip", responses=READ_PROBLEMS, response_class=Response)
def archive(service: CurrentServices, request: Request, name: _NamePath) -> Response:
    """The archive of one skill."""
    skill = offered_skill(service, name)
    return _archive(service, request, current_version(service, skill.skill_id))


@well_known_routes.get(f"{_SITE}/v{{version}}/{{name}}.zip", responses=READ_PROBLEMS, response_class=Response)
def archive_of_version(service: CurrentServices, request: Request, version: _LabelPath, name: _NamePath) -> Response:
    """The archive of one version of a skill."""
    return _archive(service, request, _find_version(service, offered_skill(service, name), version))


def _archive(service: OrganisationServices, request: Request, one: NumberedVersion) -> Response:
    answer = bytes_response(request, package_bytes(service, one.version), "application/zip")
    answer.headers.update(_CACHED)
    return answer


def _index(entries: list[dict[str, str]]) -> dict[str, Any]:
    return {"$schema": _SCHEMA, "skills": entries}


def _entry(service: OrganisationServices, skill: InstalledSkill, one: NumberedVersion) -> dict[str, str]:
    name, digest = skill.skill_id, package_digest(service, one.version)
    description = skill.description if one.version.current else metadata_of(service, one.version).description
    entry = {"name": name, "type": "archive", "description": description, "version": one.label}
    return entry | {"url": f"{name}.zip", "digest": digest}


def _is_called(one: NumberedVersion, label: str) -> bool:
    """Whether it is the version with that label, and was not withdrawn."""
    return one.label == label and one.version.refusal is None


def _find_version(service: OrganisationServices, skill: InstalledSkill, label: str) -> NumberedVersion:
    return find_version(service, skill.skill_id, lambda one: _is_called(one, label), label)


def _version_list(versions: Iterable[NumberedVersion]) -> dict[str, Any]:
    given = [one for one in versions if one.version.refusal is None]
    labels = sorted({one.label for one in given}, key=lambda label: (version_key(label), label))
    current = {one.label for one in given if one.version.current}
    return {"latest": next((label for label in reversed(labels) if label in current), None), "versions": labels}


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
