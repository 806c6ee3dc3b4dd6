"""What holds for this server and its machine, to be read: the settings, and whether everything that is needed is there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal

from fastapi import APIRouter
from pydantic import BaseModel

from skillyard import __version__
from skillyard.examination import examine
from skillyard.server.callers import SERVER_ADMIN, needs
from skillyard.server.problems import READING
from skillyard.server.service import Served
from skillyard.server.shapes import Answer

__all__ = ["routes"]

routes: Final = APIRouter(prefix="/api/v1", tags=["this machine"], dependencies=[needs("admin"), SERVER_ADMIN])


class RootDetail(BaseModel):
    """A folder that is looked at for skills, and how many it has."""

    path: str
    source: str
    status: str
    reason: str | None
    skills: int


class RuleDetail(BaseModel):
    """One permission rule; the first or the last that fits decides, as `permission_match` says."""

    pattern: str
    permission: str


class SettingsDetail(BaseModel):
    """What the settings files come to; `sandbox` is the user's table, with the names of what it grants and no value of them."""

    version: str
    project_root: str
    data_directory: str
    files: list[str]
    database: str
    package_store: str | None
    private_hosts: bool
    profile: str
    allowed_tools: Literal["off", "advise", "enforce"]
    allow_external_paths: bool
    permission_match: Literal["first", "last"]
    permissions: list[RuleDetail]
    roots: list[RootDetail]
    servers: list[str]
    sandbox: dict[str, Any]


class CheckDetail(BaseModel):
    """One thing that was looked at: `error` is something needed that is broken, `warning` something optional."""

    name: str
    status: Literal["ok", "warning", "error"]
    detail: str
    fix: str | None


class Examination(BaseModel):
    """Whether nothing that is needed is broken, and every check."""

    ok: bool
    checks: list[CheckDetail]


@routes.get("/settings", responses=READING)
def settings(service: Served) -> Answer[SettingsDetail]:
    """What holds here; it is changed in the settings files, not over HTTP. No password and no key is in it."""
    catalog = service.catalog
    configuration = catalog.configuration
    files = (configuration.file, configuration.user_file)
    counts: dict[str, int] = {}
    for skill in catalog.all():
        counts[skill.root.path] = counts.get(skill.root.path, 0) + 1
    return Answer(
        data=SettingsDetail(
            version=__version__,
            project_root=catalog.project_root,
            data_directory=catalog.data_directory,
            files=[file for file in files if file and Path(file).is_file()],
            database=catalog.records().database.name,
            package_store=configuration.package_store,
            private_hosts=configuration.private_hosts,
            profile=configuration.profile,
            allowed_tools=configuration.allowed_tools,
            allow_external_paths=configuration.allow_external_paths,
            permission_match=configuration.permission_match,
            permissions=[RuleDetail(pattern=name, permission=word) for name, word in configuration.permissions.items()],
            roots=[
                RootDetail(
                    path=root.path,
                    source=root.source,
                    status=root.status,
                    reason=root.reason,
                    skills=counts.get(root.path, 0),
                )
                for root in catalog.roots
            ],
            servers=sorted(configuration.servers),
            sandbox=_without_values(configuration.sandbox),
        )
    )


@routes.get("/doctor", responses=READING)
def doctor(service: Served) -> Answer[Examination]:
    """Look at everything that is needed on this machine, and say how to fix what is missing; takes a second or two."""
    checks = [CheckDetail.model_validate(check.to_dict()) for check in examine(lambda: service.catalog)]
    return Answer(data=Examination(ok=all(check.status != "error" for check in checks), checks=checks))


def _without_values(table: Mapping[str, object]) -> dict[str, Any]:
    """The table; of variables that are granted only the names."""
    return {name: sorted(map(str, value)) if isinstance(value, Mapping) else value for name, value in table.items()}
