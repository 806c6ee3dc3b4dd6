"""What ClawHub's client reads, with its stars, tags and counts: `clawhub --registry http://… search`, `install`, `update`, ….

A skill's slug is its id here, its owner the caller's organisation, and a version is called by its label. What is about accounts
of a public hub (transfers, other slugs, reports, plugins) is refused by one code. Errors are plain text (see
`middleware.error_formats`).
"""

from __future__ import annotations

import contextlib
import re
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Query, Request, Response
from fastapi import Path as InPath
from pydantic import BaseModel, Field

from skillyard.catalog import media_type
from skillyard.errors import DatabaseUnavailable, NotOffered, SkillNotFound
from skillyard.registry import LATEST, InstalledSkill
from skillyard.server.authorization import UNRECORDED, CurrentCaller, require_scope
from skillyard.server.clients.clawhub_skills import (
    LabelQuery,
    OwnedSkill,
    OwnerQuery,
    SkillShapes,
    SlugPath,
    fingerprint,
    milliseconds,
    moderation,
    owned_skill,
    owner_shape,
    version_of_label,
    version_of_tag,
    version_shape,
)
from skillyard.server.clients.published_skills import (
    MOMENT_KEY,
    collect_shapes,
    current_version,
    decode_cursor,
    display_name,
    encode_cursor,
    offered_skills,
    package_bytes,
    package_files,
    paginate,
    search_offered,
    usable_versions,
    version_folder,
)
from skillyard.server.middleware.error_formats import CLAWHUB
from skillyard.server.organisation_services import CurrentServices
from skillyard.server.responses import FILE_RESPONSES, ZIP_RESPONSES, version_file_response, zip_response

routes: Final = APIRouter(
    prefix="/api/v1", tags=["clients: ClawHub"], dependencies=[require_scope("skills:read")], responses=CLAWHUB
)

_SlugQuery = Annotated[str, Query(max_length=200, alias="slug")]
_Limit = Annotated[int, Query(ge=1, le=200)]
_Cursor = Annotated[str | None, Query(max_length=1000)]
_LAST_MS: Final = 10**15
_COUNTED: Final = ("stars", "downloads", "installs")


@routes.get("/whoami")
def whoami(caller: CurrentCaller) -> dict[str, Any]:
    """The caller: the organisation is what publishes, so its name is the handle."""
    role = "admin" if "admin" in caller.scopes else "user"
    return {"user": {**owner_shape(caller), "displayName": caller.name, "role": role}}


@routes.get("/search")
def search(
    service: CurrentServices,
    caller: CurrentCaller,
    q: Annotated[str, Query(max_length=2000)] = "",
    limit: _Limit = 25,
    mode: Annotated[str | None, Query(max_length=20)] = None,
) -> dict[str, Any]:
    """The skills that match a request, best first; with `mode=exact` only the one with that name."""
    matches = [
        (skill, score) for skill, score in search_offered(service, q) if mode != "exact" or q in (skill.skill_id, skill.name)
    ]
    scores = {skill.skill_id: score for skill, score in matches}

    shapes = SkillShapes(service)

    def result(skill: InstalledSkill) -> dict[str, Any]:
        shape, publisher = shapes.skill(skill), owner_shape(caller)
        shown = {name: shape[name] for name in ("slug", "displayName", "summary", "updatedAt")}
        version = shape["latestVersion"]["version"]
        return {
            **shown,
            "score": scores[skill.skill_id],
            "version": version,
            "ownerHandle": publisher["handle"],
            "owner": publisher,
        }

    return {"results": collect_shapes((skill for skill, _ in matches[:limit]), result)}


_NAME_KEY: Final = re.compile(r"\A[^\0]*\0[a-z0-9-]+")
_NUMBER_KEY: Final = re.compile(r"[0-9]{16,17}\0[a-z0-9-]+", re.ASCII)


@routes.get("/skills")
def list_skills(
    service: CurrentServices,
    limit: _Limit = 25,
    cursor: _Cursor = None,
    sort: Annotated[str, Query(max_length=40)] = "updated",
    prefix: Annotated[str, Query(max_length=200)] = "",
) -> dict[str, Any]:
    """The skills: by name, by when they were made, by a count, else those that changed last first."""
    shapes = SkillShapes(service)

    def sort_key(skill: InstalledSkill) -> str:
        """Where in the list a skill is, as text that sorts so."""
        if sort == "name":
            return f"{skill.name.casefold()}\0{skill.skill_id}"
        if sort in _COUNTED:
            return f"{_LAST_MS - getattr(shapes.counts(skill), sort):016}\0{skill.skill_id}"
        moment = skill.created_at if sort == "createdAt" else skill.updated_at
        return f"{_LAST_MS - milliseconds(moment):016}\0{skill.skill_id}"

    skills = sorted((skill for skill in offered_skills(service) if skill.skill_id.startswith(prefix.casefold())), key=sort_key)
    last = decode_cursor(cursor, _NAME_KEY if sort == "name" else _NUMBER_KEY) if cursor else ""
    listed, more = paginate(skills, lambda skill: sort_key(skill) > last, limit)
    return {
        "items": collect_shapes(listed, shapes.skill),
        "nextCursor": encode_cursor(sort_key(listed[-1])) if more else None,
    }


@routes.get("/skills/{slug}")
def detail(service: CurrentServices, caller: CurrentCaller, skill: OwnedSkill) -> dict[str, Any]:
    """One skill."""
    shape = SkillShapes(service).skill(skill)
    beside = {name: shape.pop(name) for name in ("latestVersion", "metadata")}
    warned = moderation(service, current_version(service, skill.skill_id).version)
    return {"skill": shape, **beside, "owner": owner_shape(caller), "moderation": warned}


@routes.get("/skills/{slug}/versions")
def list_versions(service: CurrentServices, skill: OwnedSkill, limit: _Limit = 25, cursor: _Cursor = None) -> dict[str, Any]:
    """The versions of a skill, the newest first."""
    last = decode_cursor(cursor, MOMENT_KEY) if cursor else None
    listed, more = paginate(
        usable_versions(service, skill.skill_id), (lambda one: f"{one.epoch:020}" < last) if last else None, limit
    )
    return {
        "items": [version_shape(one) for one in listed],
        "nextCursor": encode_cursor(f"{listed[-1].epoch:020}") if more else None,
    }


@routes.get("/skills/{slug}/versions/{version}")
def one_version(service: CurrentServices, skill: OwnedSkill, version: Annotated[str, InPath(max_length=100)]) -> dict[str, Any]:
    """One version with its files."""
    one = version_of_label(service, skill, version)
    files = [
        {"path": path, "size": size, "sha256": digest, "contentType": media_type(path)}
        for path, size, digest in package_files(service, one.version)
    ]
    named = {"slug": skill.skill_id, "displayName": display_name(skill)}
    return {"version": {**version_shape(one), "files": files}, "skill": named}


@routes.get("/skills/{slug}/file", responses=FILE_RESPONSES, response_class=Response)
def one_file(
    service: CurrentServices,
    request: Request,
    skill: OwnedSkill,
    path: Annotated[str, Query(min_length=1, max_length=1024)],
    version: LabelQuery = None,
    tag: LabelQuery = None,
) -> Response:
    """One file of a version."""
    one = version_of_tag(service, skill, version, tag)
    return version_file_response(request, version_folder(service, one.version), path)


@routes.get("/skills/{slug}/install")
def resolve_install(service: CurrentServices, request: Request, skill: OwnedSkill) -> dict[str, Any]:
    """Where the current version is downloaded."""
    version = current_version(service, skill.skill_id).label
    address = request.url_for("download").include_query_params(slug=skill.skill_id, version=version)
    archive = {"version": version, "downloadUrl": str(address)}
    return {"ok": True, "slug": skill.skill_id, "installKind": "archive", "archive": archive}


@routes.get("/resolve")
def resolve(
    service: CurrentServices,
    caller: CurrentCaller,
    slug: _SlugQuery,
    digest: Annotated[str, Query(alias="hash", pattern="^[0-9a-fA-F]{64}$")],
    ownerHandle: OwnerQuery = None,  # noqa: N803
) -> dict[str, Any]:
    """Which version has exactly the files that a client has, named by their fingerprint."""
    skill = owned_skill(service, caller, slug, ownerHandle)
    versions = usable_versions(service, skill.skill_id)
    match = next((one for one in versions if fingerprint(package_files(service, one.version)) == digest.lower()), None)
    return {
        "slug": skill.skill_id,
        "match": {"version": match.label} if match else None,
        "latestVersion": {"version": current_version(service, skill.skill_id).label},
    }


@routes.get("/download", responses=ZIP_RESPONSES, response_class=Response)
def download(
    service: CurrentServices,
    caller: CurrentCaller,
    slug: _SlugQuery,
    ownerHandle: OwnerQuery = None,  # noqa: N803
    version: LabelQuery = None,
    tag: LabelQuery = None,
) -> Response:
    """The archive of a version, with SKILL.md in its root."""
    one = version_of_tag(service, owned_skill(service, caller, slug, ownerHandle), version, tag)
    with contextlib.suppress(DatabaseUnavailable):  # a count is no reason to refuse
        service.registry.popularity.count(one.version.skill_id, "downloads", service.owner(caller))
    return zip_response(package_bytes(service, one.version), f"{one.version.skill_id}-{one.label}.zip")


community_routes: Final = APIRouter(
    prefix="/api", tags=["clients: ClawHub"], dependencies=[require_scope("skills:read")], responses=CLAWHUB
)

_WRITE: Final = require_scope("skills:write")
_Tag = Annotated[str, InPath(max_length=200)]
_ONE_OWNER: Final = "an organisation owns all skills here; to give a skill to another, export it with `skillyard mirror export`"
_OWN_NAME: Final = "a skill is called what its SKILL.md says; publish it under the other name, then delete this one"
_NO_REPORTS: Final = "ask the operator of this server; `clawhub inspect` shows what its scanner says of the skill"
_NO_PLUGINS: Final = "it gives skills only; Claude Code gets them as plugins from /.claude-plugin/marketplace.json"


class TagTarget(BaseModel):
    """The version for a tag, by its label."""

    version: str = Field(max_length=100)
    ownerHandle: str | None = Field(default=None, max_length=200)  # noqa: N815


class InstallTelemetry(BaseModel):
    """What a client reports when it has installed a skill; other fields are ignored."""

    event: str | None = Field(default=None, max_length=40)
    slug: str | None = Field(default=None, max_length=200)


@community_routes.post("/v1/stars/{slug}")
def star(service: CurrentServices, caller: CurrentCaller, skill: OwnedSkill) -> dict[str, Any]:
    """Star a skill."""
    new = service.registry.popularity.star(skill.skill_id, service.owner(caller))
    return {"ok": True, "starred": True, "alreadyStarred": not new}


@community_routes.delete("/v1/stars/{slug}")
def unstar(service: CurrentServices, caller: CurrentCaller, skill: OwnedSkill) -> dict[str, Any]:
    """Remove the caller's star."""
    removed = service.registry.popularity.unstar(skill.skill_id, service.owner(caller))
    return {"ok": True, "unstarred": True, "alreadyUnstarred": not removed}


@community_routes.post("/v1/skills/{slug}/tags/{tag}", dependencies=[_WRITE])
def put_tag(service: CurrentServices, caller: CurrentCaller, slug: SlugPath, tag: _Tag, body: TagTarget) -> dict[str, Any]:
    """Set a tag to a version; with `latest` that version becomes current."""
    skill = owned_skill(service, caller, slug, body.ownerHandle)
    version = version_of_label(service, skill, body.version).version
    if tag != LATEST:
        service.registry.tags.put(skill.skill_id, tag, version.version)
    elif not version.current:
        if version.status == "deprecated":  # by going back behind it
            service.registry.versions.deprecate(skill.skill_id, version.version, undo=True)
        service.registry.rollback(skill.skill_id, version.version, dependencies=False)
        service.refresh()
    return {"ok": True, "slug": skill.skill_id, "tag": tag, "version": body.version}


@community_routes.post("/cli/telemetry/install", dependencies=[UNRECORDED])
def count_install(service: CurrentServices, caller: CurrentCaller, body: InstallTelemetry) -> dict[str, Any]:
    """Count an install that a client reports; each caller counts once a day."""
    if body.event == "install" and body.slug:
        try:
            skill = owned_skill(service, caller, body.slug, None)
        except SkillNotFound:  # it came from elsewhere
            return {"ok": True}
        service.registry.popularity.count(skill.skill_id, "installs", service.owner(caller))
    return {"ok": True}


@community_routes.get("/v1/transfers/{way}")
def list_transfers(way: Literal["incoming", "outgoing"]) -> dict[str, Any]:
    """The skills that owners hand to each other: none, because there is one owner."""
    return {"transfers": []}


@community_routes.post("/v1/skills/{slug}/transfer", dependencies=[_WRITE])
@community_routes.post("/v1/skills/{slug}/transfer/{decision}", dependencies=[_WRITE])
def transfer(slug: SlugPath, decision: str = "") -> dict[str, Any]:
    """Not offered."""
    raise NotOffered("transferring skills is not supported here", hint=_ONE_OWNER)


@community_routes.post("/v1/publishers", dependencies=[_WRITE])
def create_publisher() -> dict[str, Any]:
    """Not offered."""
    raise NotOffered("publishers are not made by clients here", hint="`skillyard organisations create` makes one on the server")


@community_routes.post("/v1/skills/{slug}/rename", dependencies=[_WRITE])
@community_routes.post("/v1/skills/{slug}/merge", dependencies=[_WRITE])
def rename(slug: SlugPath) -> dict[str, Any]:
    """Not offered."""
    raise NotOffered("skills do not change their slug here", hint=_OWN_NAME)


@community_routes.post("/v1/skills/{slug}/report", dependencies=[UNRECORDED])
@community_routes.get("/v1/skills/-/reports")
@community_routes.post("/v1/skills/-/reports/{report}/triage", dependencies=[UNRECORDED])
def report_skill(slug: str = "", report: str = "") -> dict[str, Any]:
    """Not offered."""
    raise NotOffered("reports are not taken here", hint=_NO_REPORTS)


@community_routes.api_route("/v1/packages", methods=["GET", "POST"], include_in_schema=False)
@community_routes.api_route("/v1/packages/{path:path}", methods=["GET", "POST", "PUT", "DELETE"], include_in_schema=False)
def packages(path: str = "") -> dict[str, Any]:
    """Not offered."""
    raise NotOffered("this server has no plugins for OpenClaw", hint=_NO_PLUGINS)


@community_routes.get("/v1/skills-sh/{path:path}", include_in_schema=False)
def skills_sh(path: str) -> dict[str, Any]:
    """Not offered."""
    raise NotOffered("this server does not pass on what skills.sh has", hint="install it with `npx skills add`")
