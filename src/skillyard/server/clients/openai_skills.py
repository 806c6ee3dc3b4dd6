"""The skills resource of OpenAI's API, for its SDK: `OpenAI(base_url="http://…/openai/v1").skills`.

Ids are `skill_` and the skill's id; versions are counted from 1. The default version is the current one here.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool

from skillyard.errors import InvalidInput
from skillyard.registry import InstalledSkill
from skillyard.server.authorization import require_scope
from skillyard.server.clients.published_skills import (
    ClientSkill,
    ConsentQuery,
    NumberedVersion,
    SkillIdPath,
    VersionPath,
    activate_version,
    bundle_bytes,
    client_skill_id,
    collect_shapes,
    current_version,
    find_version,
    installed_version,
    metadata_of,
    offered_skill,
    offered_skills,
    own_skill_id,
    paginate,
    remove_skill,
    remove_version,
    usable_versions,
)
from skillyard.server.clients.skill_uploads import install_skill, received_skill
from skillyard.server.file_transfers import FILES
from skillyard.server.middleware.error_formats import OPENAI
from skillyard.server.organisation_services import CurrentServices, OrganisationServices
from skillyard.server.responses import ZIP_RESPONSES, zip_response

routes: Final = APIRouter(
    prefix="/openai/v1/skills", tags=["clients: OpenAI"], dependencies=[require_scope("skills:read")], responses=OPENAI
)

_WRITE: Final = require_scope("skills:write")
_Limit = Annotated[int, Query(ge=1, le=100)]
_Order = Literal["asc", "desc"]
_After = Annotated[str | None, Query(max_length=400)]


class Update(BaseModel):
    """Which version of a skill becomes the default."""

    default_version: str = Field(max_length=400)


@routes.post("", openapi_extra=FILES, dependencies=[_WRITE])
async def create(service: CurrentServices, request: Request, consent: ConsentQuery = None) -> dict[str, Any]:
    """Install a new skill from its files, or from one archive of them."""
    async with received_skill(service, request) as incoming:
        result = await run_in_threadpool(install_skill, service, incoming, consent=consent)
        return await run_in_threadpool(_skill, service, offered_skill(service, result.skill_id))


@routes.get("")
def list_skills(service: CurrentServices, limit: _Limit = 20, after: _After = None, order: _Order = "desc") -> dict[str, Any]:
    """The installed skills, by when they first were."""
    skills = sorted(offered_skills(service), key=_age, reverse=order == "desc")
    last = _age(service.registry.installed.skill(own_skill_id(after), installed=False)) if after else None
    listed, more = paginate(skills, _behind(last, order, _age), limit)
    return _paged(collect_shapes(listed, lambda skill: _skill(service, skill)), more=more)


@routes.get("/{skill_id}")
def retrieve(service: CurrentServices, skill: ClientSkill) -> dict[str, Any]:
    """One skill."""
    return _skill(service, skill)


@routes.post("/{skill_id}", dependencies=[_WRITE])
def update(service: CurrentServices, skill: ClientSkill, body: Update) -> dict[str, Any]:
    """Make another version the current one."""
    one = _find_version(service, skill, body.default_version)
    if not one.version.current:
        activate_version(service, one)
    return _skill(service, offered_skill(service, skill.skill_id))


@routes.delete("/{skill_id}", dependencies=[_WRITE])
def delete(service: CurrentServices, skill_id: SkillIdPath) -> dict[str, Any]:
    """Uninstall a skill; an operator can still roll back to its versions."""
    remove_skill(service, own_skill_id(skill_id))
    return {"id": skill_id, "object": "skill.deleted", "deleted": True}


@routes.get("/{skill_id}/content", responses=ZIP_RESPONSES, response_class=Response)
def content(service: CurrentServices, skill: ClientSkill) -> Response:
    """The files of the current version, as a zip archive with one folder."""
    return _archive(service, current_version(service, skill.skill_id))


@routes.post("/{skill_id}/versions", openapi_extra=FILES, dependencies=[_WRITE])
async def create_version(
    service: CurrentServices, request: Request, skill: ClientSkill, consent: ConsentQuery = None
) -> dict[str, Any]:
    """Add a version of a skill, which becomes current only with the field `default`; the current files are no new version."""
    async with received_skill(service, request) as incoming:
        serves = incoming.fields.get("default", "false").lower()
        if serves not in ("true", "false"):
            raise InvalidInput(f"default is {serves[:20]!r}", hint="true or false")
        result = await run_in_threadpool(
            install_skill, service, incoming, into=skill.skill_id, consent=consent, serves=serves == "true"
        )
        made = await run_in_threadpool(installed_version, service, skill.skill_id, str(result.version))
        return await run_in_threadpool(_version, service, skill, made)


@routes.get("/{skill_id}/versions")
def list_versions(
    service: CurrentServices, skill: ClientSkill, limit: _Limit = 20, after: _After = None, order: _Order = "desc"
) -> dict[str, Any]:
    """The versions of a skill, by number."""
    versions = sorted(usable_versions(service, skill.skill_id), key=_number, reverse=order == "desc")
    listed, more = paginate(versions, _behind(_number_in(after) if after else None, order, _number), limit)
    return _paged([_version(service, skill, one) for one in listed], more=more)


@routes.get("/{skill_id}/versions/{version}")
def retrieve_version(service: CurrentServices, skill: ClientSkill, version: VersionPath) -> dict[str, Any]:
    """One version, by its number or id; `latest` is the newest."""
    return _version(service, skill, _find_version(service, skill, version))


@routes.delete("/{skill_id}/versions/{version}", dependencies=[_WRITE])
def delete_version(service: CurrentServices, skill: ClientSkill, version: VersionPath) -> dict[str, Any]:
    """Delete a version for good; the newest other one becomes current, and with the last one the skill is uninstalled."""
    one = _find_version(service, skill, version)
    remove_version(service, one)
    return {"id": _version_id(one), "object": "skill.version.deleted", "deleted": True, "version": str(one.number)}


@routes.get("/{skill_id}/versions/{version}/content", responses=ZIP_RESPONSES, response_class=Response)
def version_content(service: CurrentServices, skill: ClientSkill, version: VersionPath) -> Response:
    """The files of a version, as a zip archive with one folder."""
    return _archive(service, _find_version(service, skill, version))


def _find_version(service: OrganisationServices, skill: InstalledSkill, version: str) -> NumberedVersion:
    versions = usable_versions(service, skill.skill_id)
    newest = max(one.number for one in versions) if versions else 0

    def fits(one: NumberedVersion) -> bool:
        return one.number == newest if version == "latest" else version in (str(one.number), _version_id(one))

    return find_version(service, skill.skill_id, fits, version)


def _age(skill: InstalledSkill) -> tuple[float, str]:
    return _seconds(skill.created_at), skill.skill_id


def _number(one: NumberedVersion) -> int:
    return one.number


def _version_id(one: NumberedVersion) -> str:
    return f"skillver_{one.version.skill_id}_{one.number}"


def _number_in(version_id: str) -> int:
    number = version_id.rpartition("_")[2]
    if not (number.isdecimal() and number.isascii() and len(number) < 10):
        raise InvalidInput(f"{version_id[:100]!r} is not the id of a version", hint="take it from a list of versions")
    return int(number)


def _behind(last: Any, order: _Order, key_of: Any) -> Any:
    """Whether something comes behind the last one of the piece before."""
    if last is None:
        return None
    return (lambda item: key_of(item) < last) if order == "desc" else (lambda item: key_of(item) > last)


def _skill(service: OrganisationServices, skill: InstalledSkill) -> dict[str, Any]:
    versions = usable_versions(service, skill.skill_id)
    return {
        "id": client_skill_id(skill),
        "object": "skill",
        "name": skill.name,
        "description": skill.description,
        "created_at": int(_seconds(skill.created_at)),
        "default_version": str(current_version(service, skill.skill_id).number),
        "latest_version": str(max(one.number for one in versions)),
    }


def _version(service: OrganisationServices, skill: InstalledSkill, one: NumberedVersion) -> dict[str, Any]:
    metadata = metadata_of(service, one.version)
    return {
        "id": _version_id(one),
        "object": "skill.version",
        "skill_id": client_skill_id(skill),
        "version": str(one.number),
        "name": metadata.name,
        "description": metadata.description,
        "created_at": int(_seconds(one.version.created_at)),
    }


def _seconds(moment: datetime | None) -> float:
    return (moment or datetime.fromtimestamp(0, UTC)).timestamp()


def _archive(service: OrganisationServices, one: NumberedVersion) -> Response:
    return zip_response(bundle_bytes(service, one.version), f"{one.version.skill_id}.zip")


def _paged(data: list[dict[str, Any]], *, more: bool) -> dict[str, Any]:
    first, last = (data[0]["id"], data[-1]["id"]) if data else (None, None)
    return {"object": "list", "data": data, "has_more": more, "first_id": first, "last_id": last}
