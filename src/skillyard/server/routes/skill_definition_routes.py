"""Installed skills and their versions: listed, read, compared, edited, rolled back, withdrawn, downloaded and removed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, Field

from skillyard.access import EVERYBODY
from skillyard.catalog import Inventory
from skillyard.document import DOCUMENT_LIMIT, parse_document
from skillyard.errors import FileProblem, InvalidInput, SkillNotFound, VersionNotFound
from skillyard.interop import ClientCompatibility, check_clients
from skillyard.paths import read_inside
from skillyard.prompt import count_tokens
from skillyard.registry import DependencyTree, EditValue, Powers, SkillVersion, compare_skills
from skillyard.server.authorization import CurrentCaller, require_scope
from skillyard.server.clients.published_skills import package_bytes, version_folder
from skillyard.server.organisation_services import CurrentServices, OrganisationServices
from skillyard.server.responses import (
    FILE_RESPONSES,
    READ_PROBLEMS,
    WRITE_PROBLEMS,
    attachment,
    bytes_response,
    version_file_response,
)
from skillyard.server.server_state import CurrentState
from skillyard.server.shapes import Answer, Listed, Meta, RequestBody, listed
from skillyard.server.shapes.catalog_shapes import ScanReportShape
from skillyard.server.shapes.installation_shapes import (
    Definition,
    InstallLogDetail,
    InstallResult,
    VersionComparison,
    VersionContent,
    VersionDetail,
)
from skillyard.text import single_line

routes: Final = APIRouter(
    prefix="/api/v1/skill-definitions", tags=["skill definitions"], dependencies=[require_scope("skills:read")]
)

_WRITE: Final = require_scope("skills:write")
_Page = Annotated[int, Query(ge=1, le=1_000_000)]
_Limit = Annotated[int, Query(ge=1, le=200)]
_SHOWN: Final = {
    "displayName": "display_name",
    "category": "category",
    "tags": "tags",
    "author": "author",
    "homepageUrl": "homepage_url",
    "documentationUrl": "documentation_url",
    "iconUrl": "icon_url",
}


class DefinitionEdit(RequestBody):
    """What of an installed skill can be changed: whether it is active, and what is shown of it. All else is in its SKILL.md.

    What is left out stays as it is; null lets the SKILL.md speak again. Nothing is written into the skill's folder.
    """

    isActive: bool | None = None  # noqa: N815 # the API's own spelling
    displayName: str | None = Field(default=None, max_length=1000)  # noqa: N815
    category: str | None = Field(default=None, max_length=1000)
    tags: list[Annotated[str, Field(max_length=1000)]] | None = Field(default=None, max_length=50)
    author: str | None = Field(default=None, max_length=1000)
    homepageUrl: str | None = Field(default=None, max_length=2000)  # noqa: N815
    documentationUrl: str | None = Field(default=None, max_length=2000)  # noqa: N815
    iconUrl: str | None = Field(default=None, max_length=2000)  # noqa: N815

    def edits(self) -> dict[str, EditValue]:
        """The edited values, under the registry's names."""
        edited = self.model_dump(include=self.model_fields_set & _SHOWN.keys())
        return {_SHOWN[name]: tuple(value) if isinstance(value, list) else value for name, value in edited.items()}


class Preview(BaseModel):
    """The text of SKILL.md and what else the skill holds."""

    skillId: str  # noqa: N815
    skillMdContent: str  # noqa: N815
    fileInventory: Inventory  # noqa: N815


class OwnersChange(RequestBody):
    """Owners to `add` and to `remove`, in one step: names of keys of the organisation, or `*` for all its members."""

    add: list[Annotated[str, Field(min_length=1, max_length=80)]] = Field(default=[], max_length=50)
    remove: list[Annotated[str, Field(min_length=1, max_length=80)]] = Field(default=[], max_length=50)


class Owners(BaseModel):
    """Who owns the name of a skill: the names of keys, or `*`; none where it is nobody's."""

    skillId: str  # noqa: N815 # the API's own spelling
    owners: list[str]


@routes.get("", responses=READ_PROBLEMS)
def list_definitions(
    service: CurrentServices,
    page: _Page = 1,
    limit: _Limit = 20,
    search: Annotated[str, Query(max_length=200)] = "",
    isActive: bool | None = None,  # noqa: N803 # the API's own spelling
) -> Listed[Definition]:
    """The skills that were installed, by id; uninstalled ones are not active. `search` looks into name and description."""
    skills, total = service.registry.installed.page(text=search, active=isActive, limit=limit, offset=(page - 1) * limit)
    meta = Meta.of(total, page, limit)
    return Listed(data=[Definition.of(skill) for skill in skills], meta=meta)


@routes.get("/{id}", responses=READ_PROBLEMS)
def get_definition(service: CurrentServices, id: str) -> Answer[Definition]:  # noqa: A002 # as in the path
    """One skill, by its id or name."""
    return Answer(data=Definition.of(service.registry.installed.skill(id, installed=False)))


@routes.put("/{id}", responses=WRITE_PROBLEMS, dependencies=[_WRITE])
def edit(service: CurrentServices, id: str, body: DefinitionEdit) -> Answer[Definition]:  # noqa: A002
    """Edit the shown values of a skill, and activate or deactivate it.

    Its versions stay, and it comes back with the newest one that is usable.
    """
    skill = service.registry.installed.skill(id, installed=False)
    if edits := body.edits():
        skill = service.registry.edit(skill.skill_id, **edits)
    if body.isActive not in (None, skill.active):
        change = service.registry.rollback if body.isActive else service.registry.uninstall
        change(skill.skill_id)
        service.refresh_after_change()
    return Answer(data=Definition.of(service.registry.installed.skill(skill.skill_id, installed=False)))


_Dependencies = Annotated[bool, Query(description="false: also when other skills require it")]


@routes.delete("/{id}", responses=WRITE_PROBLEMS, dependencies=[_WRITE])
def uninstall(service: CurrentServices, id: str, dependencies: _Dependencies = True) -> Answer[InstallResult]:  # noqa: A002
    """Uninstall a skill, unless others require it; its versions stay, and a rollback brings it back."""
    result = service.registry.uninstall(id, dependencies=dependencies)
    service.refresh_after_change()
    return Answer(data=InstallResult.of(result))


@routes.get("/{id}/dependencies", responses=READ_PROBLEMS)
def dependencies(service: CurrentServices, id: str) -> Answer[DependencyTree]:  # noqa: A002
    """The dependency tree of a skill, with what is missing and what requires the skill."""
    return Answer(data=service.registry.dependencies.tree(id))


@routes.get("/{id}/preview", responses=READ_PROBLEMS)
def preview(service: CurrentServices, id: str) -> Answer[Preview]:  # noqa: A002
    """The text of the current version's SKILL.md, as it is written, and the inventory of its files."""
    skill = service.registry.installed.skill(id)
    shape = {"skillId": skill.skill_id, "skillMdContent": skill.skill_md_content or "", "fileInventory": skill.file_inventory}
    return Answer(data=Preview.model_validate(shape))


@routes.get("/{id}/files/{path:path}", responses=READ_PROBLEMS | WRITE_PROBLEMS | FILE_RESPONSES, response_class=Response)
def read_one_file(service: CurrentServices, request: Request, id: str, path: str) -> Response:  # noqa: A002
    """One file of the current version. `ETag` is its digest; `Range` and `If-None-Match` are answered."""
    return version_file_response(request, _current_folder(service, id), path)


def _current_folder(service: OrganisationServices, name: str) -> Path:
    skill = service.registry.installed.skill(name)
    if skill.current_version is None:
        raise SkillNotFound(f"no version of {skill.skill_id} is active", hint="roll back to one")
    return service.registry.storage.versions.path(skill.skill_id, skill.current_version)


@routes.get("/{id}/install-logs", responses=READ_PROBLEMS)
def list_logs(
    service: CurrentServices,
    id: str,  # noqa: A002
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
) -> Answer[list[InstallLogDetail]]:
    """The install log of a skill, newest first, with the steps of each operation."""
    return Answer(data=[InstallLogDetail.of(log) for log in service.registry.installed.history(id, limit=limit)])


@routes.get("/{id}/owners", responses=READ_PROBLEMS)
def list_owners(service: CurrentServices, id: str) -> Answer[Owners]:  # noqa: A002
    """Who owns the name of a skill, the first owner first."""
    skill_id = service.registry.installed.skill(id, installed=False).skill_id
    return Answer(data=Owners(skillId=skill_id, owners=list(service.registry.owners.of(skill_id))))


@routes.post("/{id}/owners", responses=WRITE_PROBLEMS, dependencies=[_WRITE])
def change_owners(
    service: CurrentServices,
    state: CurrentState,
    caller: CurrentCaller,
    id: str,  # noqa: A002
    body: OwnersChange,
) -> Answer[Owners]:
    """Add and take away owners; to transfer a name is both in one step. A name that has owners keeps at least one."""
    skill_id = service.registry.installed.skill(id, installed=False).skill_id
    keys = {key.name for key in state.credentials.keys.all(caller.organisation) if key.state == "usable"}
    if unknown := [name for name in body.add if name not in keys | {EVERYBODY}]:
        raise InvalidInput(
            f"no key of {caller.organisation} is called {single_line(unknown[0])!r}",
            hint=f"an owner is the name of a key, or {EVERYBODY} for everybody who may publish here",
        )
    owners = service.registry.owners.change(skill_id, add=body.add, remove=body.remove)
    return Answer(data=Owners(skillId=skill_id, owners=list(owners)))


version_routes: Final = APIRouter(
    prefix="/api/v1/skill-definitions", tags=["versions"], dependencies=[require_scope("skills:read")]
)

_Version = Annotated[str | None, Query(max_length=100, description="default: the current version")]
CURRENT: Final = "current"
"""The name for the current version, where a path names a version."""
WAITING: Final = "waiting"
"""The name for the newest version that waits for approval."""


class Rollback(RequestBody):
    """Which version becomes current; without one the newest usable one before the current.

    `accept_signer` and `accept_source` accept one with another signer or source than the current version; without
    `dependencies` it may be one that other skills cannot use.
    """

    version: str | None = None
    force: bool = False
    accept_signer: bool = False
    accept_source: bool = False
    dependencies: bool = True


class Withdrawal(RequestBody):
    """Why a version is withdrawn; `undo` takes that back."""

    reason: str = Field(default="", max_length=500)
    undo: bool = False


class Yank(Withdrawal):
    """The same; with `stop_serving` the current version is replaced by the newest usable one before it, or by none."""

    stop_serving: bool = False


class VersionVerdict(Withdrawal):
    """Why a version is approved, or with `undo` its approval withdrawn; with a `digest` only if that is its content."""

    digest: str = Field(default="", max_length=100)


@version_routes.get("/{id}/versions", responses=READ_PROBLEMS)
def list_versions(
    service: CurrentServices,
    id: str,  # noqa: A002 # as in the path
    page: Annotated[int, Query(ge=1, le=1_000_000)] = 1,
    limit: Annotated[int, Query(ge=1, le=200)] = 20,
) -> Listed[VersionDetail]:
    """Every version of a skill, the newest first."""
    listed_page = listed(service.registry.installed.versions(id), page, limit)
    return Listed(data=[VersionDetail.of(version) for version in listed_page.data], meta=listed_page.meta)


@version_routes.get("/{id}/versions/{version}", responses=READ_PROBLEMS)
def get_version(service: CurrentServices, id: str, version: str) -> Answer[VersionDetail]:  # noqa: A002
    """One version, by its own name or the one its SKILL.md declares; `current` is the current one."""
    return Answer(data=VersionDetail.of(_find_version(service, id, version)))


@version_routes.get("/{id}/versions/{before}/diff/{after}", responses=READ_PROBLEMS | WRITE_PROBLEMS)
def compare(service: CurrentServices, id: str, before: str, after: str) -> Answer[VersionComparison]:  # noqa: A002
    """The differences between two versions: files, lines of text files, powers and tokens."""
    versions = [_find_version(service, id, name) for name in (before, after)]
    folders = [_folder(service, version) for version in versions]
    found = compare_skills(*folders)
    return Answer(
        data=VersionComparison(
            files=list(found.difference.files),
            unchanged=found.difference.unchanged,
            before=_content(versions[0], folders[0], found.before),
            after=_content(versions[1], folders[1], found.after),
            widened=list(found.widened or ()),
            narrowed=list(found.narrowed or ()),
            added_effects=None if found.added_effects is None else list(found.added_effects),
            removed_effects=None if found.removed_effects is None else list(found.removed_effects),
        )
    )


def _content(version: SkillVersion, folder: Path, powers: Powers | None) -> VersionContent:
    """What a version comes to; without tokens where its SKILL.md cannot be read."""
    content = VersionContent(
        version=version.version, declared_version=version.declared_version, size_bytes=version.size_bytes,
        powers=powers, description_tokens=None, instruction_tokens=None,
    )  # fmt: skip
    try:
        document = parse_document(read_inside(folder, "SKILL.md", limit=DOCUMENT_LIMIT))
    except (FileProblem, OSError):
        return content
    return content.model_copy(
        update={
            "description_tokens": count_tokens(document.metadata.description),
            "instruction_tokens": count_tokens(document.body),
        }
    )


@version_routes.get(
    "/{id}/versions/{version}/files/{path:path}",
    responses=READ_PROBLEMS | WRITE_PROBLEMS | FILE_RESPONSES,
    response_class=Response,
)
def read_version_file(service: CurrentServices, request: Request, id: str, version: str, path: str) -> Response:  # noqa: A002
    """One file of a version; `ETag` is its digest, `Range` and `If-None-Match` are answered."""
    folder = _folder(service, _find_version(service, id, version))
    return version_file_response(request, folder, path)


@version_routes.get("/{id}/archive", responses=READ_PROBLEMS | WRITE_PROBLEMS | FILE_RESPONSES, response_class=Response)
def download(service: CurrentServices, request: Request, id: str, version: _Version = None) -> Response:  # noqa: A002
    """A version as a .zip with its SKILL.md in the root: the same bytes for the same content.

    One that waits for approval is given only to who may approve it.
    """
    chosen = _find_version(service, id, version or CURRENT)
    if chosen.approval == "waiting" and service.registry.approvals.refusal_of_caller(chosen):
        service.registry.approvals.require(chosen)
    name = f"{chosen.skill_id}-{chosen.version}.zip"
    _folder(service, chosen)
    answer = bytes_response(request, package_bytes(service, chosen), "application/zip")
    answer.headers.update(attachment(name))
    return answer


@version_routes.get("/{id}/scan", responses=READ_PROBLEMS | WRITE_PROBLEMS)
def scan(service: CurrentServices, id: str, version: _Version = None) -> Answer[ScanReportShape]:  # noqa: A002
    """The scanner's findings for a version now; nothing of it is run. Only the operator's own file suppresses findings."""
    from skillyard.scanner import scan_skill

    folder = _folder(service, _find_version(service, id, version or CURRENT))
    report = scan_skill(folder, suppressions=service.catalog.suppressions(user_only=True))
    return Answer(data=ScanReportShape.model_validate(report.to_dict()))


@version_routes.get("/{id}/compatibility", responses=READ_PROBLEMS | WRITE_PROBLEMS)
def compatibility(service: CurrentServices, id: str, version: _Version = None) -> Answer[list[ClientCompatibility]]:  # noqa: A002
    """Which clients load a version, under which name and description, and why one does not."""
    chosen = _find_version(service, id, version or CURRENT)
    folder = _folder(service, chosen)
    return Answer(data=list(check_clients(folder, name=chosen.skill_id)))


@version_routes.post("/{id}/rollback", responses=WRITE_PROBLEMS, dependencies=[_WRITE])
def rollback(service: CurrentServices, id: str, body: Rollback) -> Answer[InstallResult]:  # noqa: A002
    """Make an earlier version current; an uninstalled skill comes back this way too."""
    return _rolled_back(service, id, body)


@version_routes.post("/{id}/rollback-previous", responses=WRITE_PROBLEMS, dependencies=[_WRITE])
def rollback_previous(
    service: CurrentServices,
    id: str,  # noqa: A002
    accept_signer: bool = False,
    accept_source: bool = False,
) -> Answer[InstallResult]:
    """Make the newest usable version before the current one current."""
    return _rolled_back(service, id, Rollback(accept_signer=accept_signer, accept_source=accept_source))


@version_routes.post("/{id}/versions/{version}/deprecate", responses=WRITE_PROBLEMS, dependencies=[_WRITE])
def deprecate(service: CurrentServices, id: str, version: str, body: Withdrawal) -> Answer[VersionDetail]:  # noqa: A002
    """Mark a version as deprecated; it stays current."""
    chosen = _find_version(service, id, version)
    return Answer(
        data=VersionDetail.of(
            service.registry.versions.deprecate(chosen.skill_id, chosen.version, reason=body.reason, undo=body.undo)
        )
    )


@version_routes.post("/{id}/versions/{version}/yank", responses=WRITE_PROBLEMS, dependencies=[_WRITE])
def yank(service: CurrentServices, id: str, version: str, body: Yank) -> Answer[VersionDetail]:  # noqa: A002
    """Mark a version as one that nobody may install or roll back to; the current one stays active until then."""
    chosen = _find_version(service, id, version)
    yanked = service.registry.versions.yank(chosen.skill_id, chosen.version, reason=body.reason, undo=body.undo)
    if body.stop_serving and yanked.current and not body.undo:
        try:
            service.registry.rollback(yanked.skill_id, accept_signer=True, accept_source=True, dependencies=False)
        except VersionNotFound:
            service.registry.uninstall(yanked.skill_id, dependencies=False)
        service.refresh_after_change()
        yanked = service.registry.installed.version(yanked.skill_id, yanked.version)
    return Answer(data=VersionDetail.of(yanked))


@version_routes.post("/{id}/versions/{version}/approve", responses=WRITE_PROBLEMS)
def approve(service: CurrentServices, id: str, version: str, body: VersionVerdict) -> Answer[VersionDetail]:  # noqa: A002
    """Approve exactly the content of a version that waits; it becomes current. The newest that waits is `waiting`.

    With `undo` the approval is withdrawn: the version gives way to the one before, or to none; a pinned one stays. Who may
    decide is said by the operator's policy: the scope `skills:approve`, other scopes, or keys of certain names.
    """
    approvals = service.registry.approvals
    chosen = approvals.find(id) if version == WAITING else _find_version(service, id, version)
    if body.undo:
        decided = approvals.withdraw(chosen.skill_id, chosen.version, reason=body.reason)
    else:
        decided = approvals.approve(chosen.skill_id, chosen.version, digest=body.digest, reason=body.reason)
    service.refresh_after_change()
    return Answer(data=VersionDetail.of(decided))


def _rolled_back(service: OrganisationServices, name: str, body: Rollback) -> Answer[InstallResult]:
    result = service.registry.rollback(
        name,
        body.version,
        force=body.force,
        accept_signer=body.accept_signer,
        accept_source=body.accept_source,
        dependencies=body.dependencies,
    )
    service.refresh_after_change()
    return Answer(data=InstallResult.of(result))


def _find_version(service: OrganisationServices, name: str, version: str) -> SkillVersion:
    if version == CURRENT:
        return service.registry.installed.current(name)
    return service.registry.installed.version(name, version)


def _folder(service: OrganisationServices, version: SkillVersion) -> Path:
    """The folder of a version."""
    return version_folder(
        service, version, hint=f"POST …/{version.skill_id}/rollback brings back those that are kept in a store"
    )
