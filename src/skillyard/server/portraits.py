"""One skill looked at closely: everything about it, what a scanner says, and what other clients make of it."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Query
from pydantic import BaseModel

from skillyard.catalog import Skill, Status
from skillyard.engine.plain import plain
from skillyard.portrait import take_portrait
from skillyard.server.callers import needs
from skillyard.server.entries import Entry, entry
from skillyard.server.inspection_shapes import ClientLoading
from skillyard.server.install_shapes import PowersShape, ScanFinding
from skillyard.server.problems import READING, WRITING
from skillyard.server.service import Served, Service
from skillyard.server.shapes import Answer

__all__ = ["routes"]

routes: Final = APIRouter(prefix="/api/v1/catalog", tags=["catalog"], dependencies=[needs("skills:read")])

_Name = Annotated[str, Query(min_length=1, max_length=300, description="an id, a name, or a unique part of a name")]


class RootOf(BaseModel):
    """The folder that a skill was found below."""

    path: str
    source: str
    status: str
    reason: str | None = None


class FileOf(BaseModel):
    """One file of a skill; `size` in bytes."""

    name: str
    type: Literal["markdown", "script", "template", "other"]
    size: int


class Namesake(BaseModel):
    """Another skill of the same name."""

    id: str
    status: Status
    directory: str


class RulingOf(BaseModel):
    """What the rules say about a skill, and the pattern of the one that decides."""

    decision: Literal["allow", "ask", "deny"]
    pattern: str | None


class RunOf(BaseModel):
    """Whether a skill can run, by which script, and one sentence about it."""

    possible: bool
    entry: str | None
    story: str


class PortraitOf(Entry):
    """Everything about one skill."""

    path: str
    root: RootOf
    allowed_tools: list[str]
    front_matter: dict[str, Any]
    input_schema: dict[str, Any] | None
    files: list[FileOf]
    inventory: dict[str, Any]
    digest: str
    namesakes: list[Namesake]
    permission: RulingOf
    run: RunOf
    powers: PowersShape | None


class NotScanned(BaseModel):
    """A file that was not read, and why."""

    file: str
    reason: str


class ScanOf(BaseModel):
    """What the scanner found, the gravest first: advice, nothing is blocked or allowed by it."""

    worst: Literal["high", "medium", "low", "info"] | None
    findings: list[ScanFinding]
    files: list[str]
    skipped: list[NotScanned]


@routes.get("/skill", responses=READING)
def look_at(service: Served, skill: _Name) -> Answer[PortraitOf]:
    """Everything about one skill, whatever its status: what its header says, its files, what it may do, whether it can run."""
    portrait = take_portrait(service.catalog, service.catalog.get(skill))
    powers, schema = portrait.powers, portrait.input_schema
    told = portrait.to_dict() | entry(portrait.skill).model_dump()
    told |= {"input_schema": schema and dict(schema), "powers": powers and powers.to_dict()}
    return Answer(data=PortraitOf.model_validate(plain(told)))


@routes.get("/scan", responses=READING | WRITING)
def scan(service: Served, skill: _Name) -> Answer[ScanOf]:
    """Look for harm in the files of a skill now; nothing of it is run."""
    from skillyard.scanner import scan_skill

    found = _readable(service, skill)
    report = scan_skill(found.directory, suppressions=service.catalog.suppressions())
    return Answer(data=ScanOf.model_validate(plain(report.to_dict())))


@routes.get("/clients", responses=READING | WRITING)
def loading(service: Served, skill: _Name) -> Answer[list[ClientLoading]]:
    """Which clients load a skill, under which name and description, and why one does not."""
    from skillyard.interop import check_clients

    found = _readable(service, skill)
    return Answer(data=[ClientLoading.model_validate(plain(client.to_dict())) for client in check_clients(found.directory)])


def _readable(service: Service, name: str) -> Skill:
    found = service.catalog.get(name)
    service.admit(found)
    return found
