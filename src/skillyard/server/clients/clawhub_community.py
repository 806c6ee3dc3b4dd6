"""What people do with each other's skills at ClawHub: stars, tags of versions, counts of installs.

What is about accounts of a public hub (owners that hand skills on, other slugs, reports, plugins) is refused by one code.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Query
from fastapi import Path as InPath
from pydantic import BaseModel, Field

from skillyard.errors import NotOffered, SkillNotFound
from skillyard.registry import LATEST
from skillyard.server.authorization import UNRECORDED, CurrentCaller, require_scope
from skillyard.server.clients.clawhub_shapes import owned_skill, version_of_label
from skillyard.server.middleware.error_formats import CLAWHUB
from skillyard.server.organisation_services import CurrentServices

routes: Final = APIRouter(
    prefix="/api", tags=["clients: ClawHub"], dependencies=[require_scope("skills:read")], responses=CLAWHUB
)

_WRITE: Final = require_scope("skills:write")
_Slug = Annotated[str, InPath(max_length=200)]
_Tag = Annotated[str, InPath(max_length=200)]
_Owner = Annotated[str | None, Query(max_length=200)]
_ONE_OWNER: Final = "an organisation owns all skills here; to give a skill to another, export it with `skillyard mirror export`"
_OWN_NAME: Final = "a skill is called what its SKILL.md says; publish it under the other name, then delete this one"
_NO_REPORTS: Final = "ask whoever keeps this server; `clawhub inspect` shows what its scanner says of the skill"
_NO_PLUGINS: Final = "it gives skills only; Claude Code gets them as plugins from /.claude-plugin/marketplace.json"


class TagTarget(BaseModel):
    """Which version a tag shall stand for, by its label."""

    version: str = Field(max_length=100)
    ownerHandle: str | None = Field(default=None, max_length=200)  # noqa: N815


class InstallTelemetry(BaseModel):
    """What a client tells when it has installed a skill; all else that it tells is not looked at."""

    event: str | None = Field(default=None, max_length=40)
    slug: str | None = Field(default=None, max_length=200)


@routes.post("/v1/stars/{slug}")
def star(service: CurrentServices, caller: CurrentCaller, slug: _Slug, ownerHandle: _Owner = None) -> dict[str, Any]:  # noqa: N803
    """Give a skill the caller's star."""
    skill = owned_skill(service, caller, slug, ownerHandle)
    new = service.registry.popularity.star(skill.skill_id, service.owner(caller))
    return {"ok": True, "starred": True, "alreadyStarred": not new}


@routes.delete("/v1/stars/{slug}")
def unstar(service: CurrentServices, caller: CurrentCaller, slug: _Slug, ownerHandle: _Owner = None) -> dict[str, Any]:  # noqa: N803
    """Take the caller's star back."""
    skill = owned_skill(service, caller, slug, ownerHandle)
    gone = service.registry.popularity.unstar(skill.skill_id, service.owner(caller))
    return {"ok": True, "unstarred": True, "alreadyUnstarred": not gone}


@routes.post("/v1/skills/{slug}/tags/{tag}", dependencies=[_WRITE])
def put_tag(service: CurrentServices, caller: CurrentCaller, slug: _Slug, tag: _Tag, body: TagTarget) -> dict[str, Any]:
    """Let a tag stand for a version; with `latest` that version serves."""
    skill = owned_skill(service, caller, slug, body.ownerHandle)
    version = version_of_label(service, skill, body.version).version
    if tag != LATEST:
        service.registry.tags.put(skill.skill_id, tag, version.version)
    elif not version.current:
        if version.status == "deprecated":  # by going back behind it
            service.registry.versions.deprecate(skill.skill_id, version.version, undo=True)
        service.registry.rollback(skill.skill_id, version.version)
        service.refresh()
    return {"ok": True, "slug": skill.skill_id, "tag": tag, "version": body.version}


@routes.post("/cli/telemetry/install", dependencies=[UNRECORDED])
def count_install(service: CurrentServices, caller: CurrentCaller, body: InstallTelemetry) -> dict[str, Any]:
    """Count an install that a client tells of; each caller counts once a day."""
    if body.event == "install" and body.slug:
        try:
            skill = owned_skill(service, caller, body.slug, None)
        except SkillNotFound:  # it came from elsewhere
            return {"ok": True}
        service.registry.popularity.count(skill.skill_id, "installs", service.owner(caller))
    return {"ok": True}


@routes.get("/v1/transfers/{way}")
def list_transfers(way: Literal["incoming", "outgoing"]) -> dict[str, Any]:
    """The skills that owners hand to each other: none, because there is one owner."""
    return {"transfers": []}


@routes.post("/v1/skills/{slug}/transfer", dependencies=[_WRITE])
@routes.post("/v1/skills/{slug}/transfer/{decision}", dependencies=[_WRITE])
def transfer(slug: _Slug, decision: str = "") -> dict[str, Any]:
    """Not offered."""
    raise NotOffered("skills are not handed from owner to owner here", hint=_ONE_OWNER)


@routes.post("/v1/publishers", dependencies=[_WRITE])
def create_publisher() -> dict[str, Any]:
    """Not offered."""
    raise NotOffered("publishers are not made by clients here", hint="`skillyard organisations create` makes one on the server")


@routes.post("/v1/skills/{slug}/rename", dependencies=[_WRITE])
@routes.post("/v1/skills/{slug}/merge", dependencies=[_WRITE])
def rename(slug: _Slug) -> dict[str, Any]:
    """Not offered."""
    raise NotOffered("skills do not change their slug here", hint=_OWN_NAME)


@routes.post("/v1/skills/{slug}/report", dependencies=[UNRECORDED])
@routes.get("/v1/skills/-/reports")
@routes.post("/v1/skills/-/reports/{report}/triage", dependencies=[UNRECORDED])
def report_skill(slug: str = "", report: str = "") -> dict[str, Any]:
    """Not offered."""
    raise NotOffered("reports are not taken here", hint=_NO_REPORTS)


@routes.api_route("/v1/packages", methods=["GET", "POST"], include_in_schema=False)
@routes.api_route("/v1/packages/{path:path}", methods=["GET", "POST", "PUT", "DELETE"], include_in_schema=False)
def packages(path: str = "") -> dict[str, Any]:
    """Not offered."""
    raise NotOffered("this server has no plugins for OpenClaw", hint=_NO_PLUGINS)


@routes.get("/v1/skills-sh/{path:path}", include_in_schema=False)
def skills_sh(path: str) -> dict[str, Any]:
    """Not offered."""
    raise NotOffered("this server does not pass on what skills.sh has", hint="install it with `npx skills add`")
