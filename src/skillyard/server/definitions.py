"""The installed skills over HTTP: list, look at, read, versions, rollback, switch and remove (document 003, chapter 7)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, Field

from skillyard.catalog import read_file
from skillyard.errors import SkillNotFound
from skillyard.packages import Limits
from skillyard.registry import Edited, InstalledSkill
from skillyard.server.callers import needs
from skillyard.server.contents import file_answer
from skillyard.server.install_shapes import InstallLogDetail, InstallResult, log_detail, result_detail
from skillyard.server.problems import READING, WRITING
from skillyard.server.service import Served, Service
from skillyard.server.shapes import Answer, Definition, FileInventory, Listed, Meta, RequestBody

__all__ = ["FILE", "Folder", "definition", "routes"]

routes: Final = APIRouter(prefix="/api/v1/skill-definitions", tags=["skill definitions"], dependencies=[needs("skills:read")])

_WRITE: Final = needs("skills:write")
_Page = Annotated[int, Query(ge=1, le=1_000_000)]
_Limit = Annotated[int, Query(ge=1, le=200)]


_SHOWN: Final = {
    "category": "category",
    "tags": "tags",
    "author": "author",
    "homepageUrl": "homepage_url",
    "documentationUrl": "documentation_url",
    "iconUrl": "icon_url",
}


class DefinitionEdit(RequestBody):
    """What of an installed skill can be changed: whether it serves, and what is shown of it. All else its SKILL.md says.

    What is left out stays as it is; null lets the SKILL.md speak again. Nothing is written into the skill's folder.
    """

    isActive: bool | None = None  # noqa: N815 # document 003 spells it so
    category: str | None = Field(default=None, max_length=1000)
    tags: list[Annotated[str, Field(max_length=1000)]] | None = Field(default=None, max_length=50)
    author: str | None = Field(default=None, max_length=1000)
    homepageUrl: str | None = Field(default=None, max_length=2000)  # noqa: N815
    documentationUrl: str | None = Field(default=None, max_length=2000)  # noqa: N815
    iconUrl: str | None = Field(default=None, max_length=2000)  # noqa: N815

    def edits(self) -> dict[str, Edited]:
        """What is said of the skill, in the words of the registry."""
        said = self.model_dump(include=self.model_fields_set & _SHOWN.keys())
        return {_SHOWN[name]: tuple(value) if isinstance(value, list) else value for name, value in said.items()}


class Preview(BaseModel):
    """The text of SKILL.md and what else the skill holds."""

    skillId: str  # noqa: N815
    skillMdContent: str  # noqa: N815
    fileInventory: FileInventory  # noqa: N815


@dataclass(frozen=True, slots=True)
class Folder:
    """The folder of an installed version."""

    directory: str


def definition(skill: InstalledSkill) -> Definition:
    """The skill as document 003 writes it."""
    return Definition.model_validate({"id": skill.skill_id, **skill.to_dict()})


@routes.get("", responses=READING)
def list_definitions(
    service: Served,
    page: _Page = 1,
    limit: _Limit = 20,
    search: Annotated[str, Query(max_length=200)] = "",
    isActive: bool | None = None,  # noqa: N803 # document 003 spells it so
) -> Listed[Definition]:
    """The skills that were installed, by id; uninstalled ones are not active. `search` looks into name and description."""
    found, total = service.registry.page(text=search, active=isActive, limit=limit, offset=(page - 1) * limit)
    meta = Meta(total=total, page=page, limit=limit, totalPages=-(-total // limit))
    return Listed(data=[definition(skill) for skill in found], meta=meta)


@routes.get("/{id}", responses=READING)
def get_definition(service: Served, id: str) -> Answer[Definition]:  # noqa: A002 # the path of document 003
    """One skill, by its id or name."""
    return Answer(data=definition(service.registry.skill(id, installed=False)))


@routes.put("/{id}", responses=WRITING, dependencies=[_WRITE])
def edit(service: Served, id: str, body: DefinitionEdit) -> Answer[Definition]:  # noqa: A002
    """Say something else of a skill than its SKILL.md, and let it serve or serve no more.

    Its versions stay, and it comes back with the newest one that is usable.
    """
    skill = service.registry.skill(id, installed=False)
    if edits := body.edits():
        skill = service.registry.edit(skill.skill_id, **edits)
    if body.isActive not in (None, skill.active):
        change = service.registry.rollback if body.isActive else service.registry.uninstall
        change(skill.skill_id)
        service.look()
    return Answer(data=definition(service.registry.skill(skill.skill_id, installed=False)))


@routes.delete("/{id}", responses=WRITING, dependencies=[_WRITE])
def uninstall(service: Served, id: str) -> Answer[InstallResult]:  # noqa: A002
    """Let a skill serve no more; its versions stay, and a rollback brings it back."""
    result = service.registry.uninstall(id)
    service.look()
    return Answer(data=result_detail(result))


@routes.get("/{id}/preview", responses=READING)
def preview(service: Served, id: str) -> Answer[Preview]:  # noqa: A002
    """The text of the SKILL.md that serves, as it is written, and the inventory of its files."""
    skill = service.registry.skill(id)
    service.admit_installed(skill)
    shape = {"skillId": skill.skill_id, "skillMdContent": skill.skill_md_content or "", "fileInventory": skill.file_inventory}
    return Answer(data=Preview.model_validate(shape))


FILE: Final[dict[int | str, dict[str, Any]]] = {
    200: {"description": "the file", "content": {"*/*": {}}},
    206: {"description": "the part that `Range` asked for", "content": {"*/*": {}}},
    304: {"description": "it is what `If-None-Match` says"},
    416: {"description": "the file is shorter"},
}


@routes.get("/{id}/files/{path:path}", responses=READING | WRITING | FILE, response_class=Response)
def read_one_file(service: Served, request: Request, id: str, path: str) -> Response:  # noqa: A002
    """One file of the version that serves. `ETag` is its digest; `Range` and `If-None-Match` are answered."""
    return file_answer(request, read_file(_folder(service, id), path, limit=Limits().file))


def _folder(service: Service, name: str) -> Folder:
    skill = service.registry.skill(name)
    service.admit_installed(skill)
    if skill.current_version is None:
        raise SkillNotFound(f"no version of {skill.skill_id} serves", hint="roll back to one")
    return Folder(str(service.registry.versions_folder.path(skill.skill_id, skill.current_version)))


@routes.get("/{id}/install-logs", responses=READING)
def list_logs(
    service: Served,
    id: str,  # noqa: A002
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
) -> Answer[list[InstallLogDetail]]:
    """What was done to a skill, the newest first, each with its steps."""
    return Answer(data=[log_detail(log) for log in service.registry.history(id, limit=limit)])
