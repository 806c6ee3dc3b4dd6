"""The skills resource of Anthropic's API, for its SDK: `Anthropic(base_url="http://…/anthropic").beta.skills`.

Ids are made of ours: `skill_` and the skill's id; a version is addressed by its id or by its time in microseconds. Answers
carry the fields of the resource as it is and as it was under the beta header `skills-2025-10-02`, for clients of both. Only
`source` is one thing or the other: an object, and under that header a word.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from skillyard.packages import PackageLimits
from skillyard.registry import InstalledSkill, check_edits
from skillyard.server.authorization import require_scope
from skillyard.server.clients.published_skills import (
    MOMENT_KEY,
    SKILL_KEY,
    ClientSkill,
    ConsentQuery,
    NumberedVersion,
    SkillIdPath,
    VersionPath,
    bundle_bytes,
    client_skill_id,
    collect_shapes,
    current_version,
    decode_cursor,
    display_name,
    encode_cursor,
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
from skillyard.server.clients.skill_uploads import IncomingSkill, install_skill, received_skill
from skillyard.server.file_transfers import FILES
from skillyard.server.middleware.error_formats import ANTHROPIC
from skillyard.server.organisation_services import CurrentServices, OrganisationServices
from skillyard.server.responses import ZIP_RESPONSES, zip_response
from skillyard.server.server_state import CurrentState, ServerState

routes: Final = APIRouter(
    prefix="/anthropic/v1/skills", tags=["clients: Anthropic"], dependencies=[require_scope("skills:read")], responses=ANTHROPIC
)

_WRITE: Final = require_scope("skills:write")
_OLD_BETA: Final = "skills-2025-10-02"
_Limit = Annotated[int, Query(ge=1, le=1000)]
_Page = Annotated[str | None, Query(max_length=1000)]


def _wants_old_form(request: Request) -> bool:
    """Whether the client asks for the resource as it was under the header of the beta."""
    betas = ",".join(request.headers.getlist("anthropic-beta"))
    return _OLD_BETA in (name.strip() for name in betas.split(","))


_OldForm = Annotated[bool, Depends(_wants_old_form)]


def _limits(state: ServerState) -> PackageLimits:
    """The files of a skill are at most 30 MB together, as the API has it, unless the operator says otherwise."""
    return PackageLimits(total=state.settings.skills_api_bytes)


@routes.post("", openapi_extra=FILES, dependencies=[_WRITE])
async def create(
    service: CurrentServices, state: CurrentState, request: Request, old_form: _OldForm, consent: ConsentQuery = None
) -> dict[str, Any]:
    """Install a new skill from its files, which are in one folder with its SKILL.md.

    The field `display_name` (`display_title` in the beta) of the form is the name that is shown; without it, the SKILL.md's is.
    """
    async with received_skill(service, request, one_folder=True, limits=_limits(state)) as incoming:
        skill = await run_in_threadpool(_install_named, service, incoming, consent)
        return await run_in_threadpool(_skill, service, skill, old_form=old_form)


@routes.get("")
def list_skills(
    service: CurrentServices,
    old_form: _OldForm,
    limit: _Limit = 20,
    page: _Page = None,
    source: Annotated[str | None, Query(max_length=100)] = None,
) -> dict[str, Any]:
    """The installed skills, by id; all are of the source `custom`."""
    skills = list(offered_skills(service)) if source in (None, "", "custom") else []
    last = decode_cursor(page, SKILL_KEY) if page else ""
    listed, more = paginate(skills, lambda skill: skill.skill_id > last, limit)
    return _paged(
        collect_shapes(listed, lambda skill: _skill(service, skill, old_form=old_form)),
        encode_cursor(listed[-1].skill_id) if more else None,
    )


@routes.get("/{skill_id}")
def retrieve(service: CurrentServices, skill: ClientSkill, old_form: _OldForm) -> dict[str, Any]:
    """One skill."""
    return _skill(service, skill, old_form=old_form)


@routes.delete("/{skill_id}", dependencies=[_WRITE])
def delete(service: CurrentServices, skill_id: SkillIdPath) -> dict[str, Any]:
    """Uninstall a skill; an operator can still roll back to its versions."""
    remove_skill(service, own_skill_id(skill_id))
    return {"id": skill_id, "type": "skill_deleted"}


@routes.post("/{skill_id}/versions", openapi_extra=FILES, dependencies=[_WRITE])
async def create_version(
    service: CurrentServices, state: CurrentState, request: Request, skill: ClientSkill, consent: ConsentQuery = None
) -> dict[str, Any]:
    """Install another version of a skill, which becomes the current one; the same files again are the same version."""
    async with received_skill(service, request, one_folder=True, limits=_limits(state)) as incoming:
        result = await run_in_threadpool(install_skill, service, incoming, into=skill.skill_id, consent=consent)
        made = await run_in_threadpool(installed_version, service, skill.skill_id, str(result.version))
        return await run_in_threadpool(_version, service, skill, made)


@routes.get("/{skill_id}/versions")
def list_versions(service: CurrentServices, skill: ClientSkill, limit: _Limit = 20, page: _Page = None) -> dict[str, Any]:
    """The versions of a skill, the newest first."""
    versions = usable_versions(service, skill.skill_id)
    last = decode_cursor(page, MOMENT_KEY) if page else ""
    listed, more = paginate(versions, (lambda one: f"{one.epoch:020}" < last) if last else None, limit)
    shapes = [_version(service, skill, one) for one in listed]
    return _paged(shapes, encode_cursor(f"{listed[-1].epoch:020}") if more else None)


@routes.get("/{skill_id}/versions/{version}")
def retrieve_version(service: CurrentServices, skill: ClientSkill, version: VersionPath) -> dict[str, Any]:
    """One version, by its id or time; `latest` is the current one."""
    return _version(service, skill, _find_version(service, skill, version))


@routes.delete("/{skill_id}/versions/{version}", dependencies=[_WRITE])
def delete_version(service: CurrentServices, skill: ClientSkill, version: VersionPath) -> dict[str, Any]:
    """Delete a version for good; the newest other one becomes current, and with the last one the skill is uninstalled."""
    one = _find_version(service, skill, version)
    remove_version(service, one)
    return {"id": version, "type": "skill_version_deleted"}


@routes.get("/{skill_id}/versions/{version}/content", responses=ZIP_RESPONSES, response_class=Response)
def download(service: CurrentServices, skill: ClientSkill, version: VersionPath) -> Response:
    """The files of a version as a zip archive, in one folder."""
    one = _find_version(service, skill, version)
    return zip_response(bundle_bytes(service, one.version), f"{skill.skill_id}.zip")


def _install_named(service: OrganisationServices, incoming: IncomingSkill, consent: str | None) -> InstalledSkill:
    """Install a new skill under the name it is sent with; a name that cannot be kept is refused before."""
    given = incoming.fields.get("display_name") or incoming.fields.get("display_title") or None
    check_edits({"display_name": given})
    skill_id = install_skill(service, incoming, consent=consent).skill_id
    service.registry.edit(skill_id, display_name=given)
    return offered_skill(service, skill_id)


def _find_version(service: OrganisationServices, skill: InstalledSkill, version: str) -> NumberedVersion:
    def fits(one: NumberedVersion) -> bool:
        return one.version.current if version == "latest" else version in (str(one.epoch), _version_id(one))

    return find_version(service, skill.skill_id, fits, version)


def _version_id(one: NumberedVersion) -> str:
    return f"skillver_{one.version.skill_id}_{one.epoch}"


def _skill(service: OrganisationServices, skill: InstalledSkill, *, old_form: bool) -> dict[str, Any]:
    newest = current_version(service, skill.skill_id)
    label = display_name(skill)
    return {
        "id": client_skill_id(skill),
        "type": "skill",
        "source": "custom" if old_form else {"type": "custom"},
        "display_name": label,
        "display_title": label,
        "latest_version_id": _version_id(newest),
        "latest_version": str(newest.epoch),
        "created_at": _time(skill.created_at),
        "updated_at": _time(skill.updated_at),
    }


def _version(service: OrganisationServices, skill: InstalledSkill, one: NumberedVersion) -> dict[str, Any]:
    return {
        "id": _version_id(one),
        "type": "skill_version",
        "skill_id": client_skill_id(skill),
        "version": str(one.epoch),
        "name": skill.skill_id,
        "description": metadata_of(service, one.version).description,
        "directory": skill.skill_id,
        "created_at": _time(one.version.installed_at),
    }


def _time(moment: datetime | None) -> str:
    return (moment or datetime.fromtimestamp(0, UTC)).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _paged(data: list[dict[str, Any]], next_page: str | None) -> dict[str, Any]:
    return {"data": data, "has_more": next_page is not None, "next_page": next_page}
