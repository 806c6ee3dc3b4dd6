"""The versions of installed skills over HTTP: looked at, compared, withdrawn, brought back, and downloaded."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from skillyard.catalog import read_file
from skillyard.errors import VersionUnusable
from skillyard.packages import Limits, compare_trees
from skillyard.registry import SkillVersion
from skillyard.server.callers import needs
from skillyard.server.contents import bytes_answer, file_answer
from skillyard.server.definitions import FILE, Folder
from skillyard.server.inspection_shapes import ClientLoading, TreeDifference
from skillyard.server.install_shapes import InstallResult, VersionDetail, result_detail
from skillyard.server.packaged import package_of
from skillyard.server.portraits import ScanOf
from skillyard.server.problems import READING, WRITING
from skillyard.server.service import Served, Service
from skillyard.server.shapes import Answer, Listed, RequestBody, listed

__all__ = ["routes"]

routes: Final = APIRouter(prefix="/api/v1/skill-definitions", tags=["versions"], dependencies=[needs("skills:read")])

_WRITE: Final = needs("skills:write")
_Version = Annotated[str | None, Query(max_length=100, description="absent: the version that serves")]
CURRENT: Final = "current"
"""The name that stands for the version that serves, where a path names one."""


class Rollback(RequestBody):
    """Which version shall serve; without one the newest usable one before the current.

    `accept_signer` and `accept_source` take one that another key signed than the version that serves, or from elsewhere.
    """

    version: str | None = None
    force: bool = False
    accept_signer: bool = False
    accept_source: bool = False


class Withdrawal(RequestBody):
    """Why a version is withdrawn; `undo` takes that back."""

    reason: str = Field(default="", max_length=500)
    undo: bool = False


@routes.get("/{id}/versions", responses=READING)
def list_versions(
    service: Served,
    id: str,  # noqa: A002 # the path of document 003
    page: Annotated[int, Query(ge=1, le=1_000_000)] = 1,
    limit: Annotated[int, Query(ge=1, le=200)] = 20,
) -> Listed[VersionDetail]:
    """Every version of a skill, the newest first."""
    found = listed(service.registry.versions(id), page, limit)
    return Listed(data=[_detail(version) for version in found.data], meta=found.meta)


@routes.get("/{id}/versions/{version}", responses=READING)
def get_version(service: Served, id: str, version: str) -> Answer[VersionDetail]:  # noqa: A002
    """One version, by its own name or the one its SKILL.md declares; `current` is the one that serves."""
    return Answer(data=_detail(_named(service, id, version)))


@routes.get("/{id}/versions/{before}/diff/{after}", responses=READING | WRITING)
def compare(service: Served, id: str, before: str, after: str) -> Answer[TreeDifference]:  # noqa: A002
    """What became of the files of one version in another, with the lines of those that are text."""
    old, new = (_readable(service, _named(service, id, name)) for name in (before, after))
    return Answer(data=TreeDifference.model_validate(compare_trees(old, new).to_dict()))


@routes.get("/{id}/versions/{version}/files/{path:path}", responses=READING | WRITING | FILE, response_class=Response)
def read_version_file(service: Served, request: Request, id: str, version: str, path: str) -> Response:  # noqa: A002
    """One file of a version; `ETag` is its digest, `Range` and `If-None-Match` are answered."""
    folder = _readable(service, _named(service, id, version))
    return file_answer(request, read_file(Folder(str(folder)), path, limit=Limits().file))


@routes.get("/{id}/archive", responses=READING | WRITING | FILE, response_class=Response)
def download(service: Served, request: Request, id: str, version: _Version = None) -> Response:  # noqa: A002
    """A version as a .zip with its SKILL.md in the root: the same bytes for the same content."""
    found = _named(service, id, version or CURRENT)
    name = f"{found.skill_id}-{found.version}.zip"
    _readable(service, found)
    answer = bytes_answer(request, package_of(service, found), "application/zip")
    answer.headers["Content-Disposition"] = f'attachment; filename="{name}"'
    return answer


@routes.get("/{id}/scan", responses=READING | WRITING)
def scan(service: Served, id: str, version: _Version = None) -> Answer[ScanOf]:  # noqa: A002
    """What the scanner says of a version now; nothing of it is run. Only the operator's own file suppresses findings."""
    from skillyard.scanner import scan_skill

    folder = _readable(service, _named(service, id, version or CURRENT))
    report = scan_skill(folder, suppressions=service.catalog.suppressions(user_only=True))
    return Answer(data=ScanOf.model_validate(report.to_dict()))


@routes.get("/{id}/compatibility", responses=READING | WRITING)
def compatibility(service: Served, id: str, version: _Version = None) -> Answer[list[ClientLoading]]:  # noqa: A002
    """Which clients load a version, under which name and description, and why one does not."""
    from skillyard.interop import check_clients

    found = _named(service, id, version or CURRENT)
    folder = _readable(service, found)
    return Answer(data=[ClientLoading.model_validate(one.to_dict()) for one in check_clients(folder, name=found.skill_id)])


@routes.post("/{id}/rollback", responses=WRITING, dependencies=[_WRITE])
def rollback(service: Served, id: str, body: Rollback) -> Answer[InstallResult]:  # noqa: A002
    """Let an earlier version serve; an uninstalled skill comes back this way too."""
    return _rolled_back(service, id, body)


@routes.post("/{id}/rollback-previous", responses=WRITING, dependencies=[_WRITE])
def rollback_previous(
    service: Served,
    id: str,  # noqa: A002
    accept_signer: bool = False,
    accept_source: bool = False,
) -> Answer[InstallResult]:
    """Let the newest usable version before the current one serve."""
    return _rolled_back(service, id, Rollback(accept_signer=accept_signer, accept_source=accept_source))


@routes.post("/{id}/versions/{version}/deprecate", responses=WRITING, dependencies=[_WRITE])
def deprecate(service: Served, id: str, version: str, body: Withdrawal) -> Answer[VersionDetail]:  # noqa: A002
    """Mark a version as one to move away from; it goes on serving."""
    found = _named(service, id, version)
    return Answer(data=_detail(service.registry.deprecate(found.skill_id, found.version, reason=body.reason, undo=body.undo)))


@routes.post("/{id}/versions/{version}/yank", responses=WRITING, dependencies=[_WRITE])
def yank(service: Served, id: str, version: str, body: Withdrawal) -> Answer[VersionDetail]:  # noqa: A002
    """Mark a version as one that nobody may install or roll back to; the current one serves on until then."""
    found = _named(service, id, version)
    return Answer(data=_detail(service.registry.yank(found.skill_id, found.version, reason=body.reason, undo=body.undo)))


def _rolled_back(service: Service, name: str, body: Rollback) -> Answer[InstallResult]:
    result = service.registry.rollback(
        name, body.version, force=body.force, accept_signer=body.accept_signer, accept_source=body.accept_source
    )
    service.look()
    return Answer(data=result_detail(result))


def _named(service: Service, name: str, version: str) -> SkillVersion:
    if version == CURRENT:
        return service.registry.current(name)
    return service.registry.version(name, version)


def _readable(service: Service, version: SkillVersion) -> Path:
    """The folder of a version that the rules let anybody read."""
    service.admit_installed(service.registry.skill(version.skill_id, installed=False))
    folder = service.registry.versions_folder.path(version.skill_id, version.version)
    if not folder.is_dir():
        hint = f"POST …/{version.skill_id}/rollback brings back those that are kept in a store"
        raise VersionUnusable(f"the files of {version.skill_id} {version.version} are gone", hint=hint)
    return folder


def _detail(version: SkillVersion) -> VersionDetail:
    return VersionDetail.model_validate(version.to_dict())
