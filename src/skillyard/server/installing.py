"""Installing over HTTP: an uploaded archive, or what an https address names; more power only with consent to exactly that."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool

from skillyard.errors import ConsentRequired, InvalidSource
from skillyard.packages import Source, resolve
from skillyard.registry import InstallReport, PowerChange
from skillyard.server.callers import needs
from skillyard.server.definitions import definition
from skillyard.server.problems import WRITING
from skillyard.server.service import Served, Service
from skillyard.server.shapes import Answer, Definition
from skillyard.server.uploads import UPLOAD, uploaded

__all__ = ["routes"]

routes: Final = APIRouter(prefix="/api/v1/skill-definitions", tags=["installing"], dependencies=[needs("skills:write")])

_Consent = Annotated[
    str | None, Query(description="the `consent` of the refusal that said what the skill would be allowed", max_length=100)
]


class Installed(BaseModel):
    """What an install came to: the skills as they are now, and what became of each."""

    definitions: list[Definition]
    results: list[dict[str, Any]]


class Address(BaseModel):
    """Where to fetch from: the https address of an archive or of a SKILL.md."""

    model_config = ConfigDict(extra="forbid")

    address: str = Field(max_length=2000)
    skills: list[str] = Field(default=[], max_length=100)


class Agreement:
    """Consent over two requests: the first is refused and names what it is about, the second must name the same."""

    def __init__(self, given: str | None) -> None:
        self._given = given
        self.wanted: str | None = None

    def __call__(self, changes: Sequence[PowerChange]) -> bool:
        """Whether exactly these changes were agreed to."""
        text = json.dumps([change.to_dict() for change in changes], sort_keys=True, default=str)
        self.wanted = "sha256:" + hashlib.sha256(text.encode()).hexdigest()
        return self._given == self.wanted


@routes.post("/upload-create", status_code=201, responses=WRITING, openapi_extra=UPLOAD)
async def upload_create(service: Served, request: Request, consent: _Consent = None, force: bool = False) -> Answer[Installed]:
    """Install every skill of an uploaded archive."""
    async with uploaded(request) as archive:
        source = Source("archive", str(archive))
        return await run_in_threadpool(_install, service, source, consent=consent, force=force)


@routes.post("/{id}/upload-install", status_code=201, responses=WRITING, openapi_extra=UPLOAD)
async def upload_install(
    service: Served,
    request: Request,
    id: str,  # noqa: A002 # the path of document 003
    consent: _Consent = None,
    force: bool = False,
) -> Answer[Installed]:
    """Install another version of one skill from an uploaded archive; what else the archive holds is left alone."""
    skill = await run_in_threadpool(service.registry.skill, id, installed=False)
    async with uploaded(request) as archive:
        source = Source("archive", str(archive))
        return await run_in_threadpool(_install, service, source, only=(skill.skill_id,), consent=consent, force=force)


@routes.post("/install/address", status_code=201, responses=WRITING)
def install_address(service: Served, body: Address, consent: _Consent = None, force: bool = False) -> Answer[Installed]:
    """Install from an https address; addresses of this machine and of private networks are not asked."""
    if not body.address.lower().startswith("https://"):
        raise InvalidSource("only https addresses are fetched for a request", hint="upload an archive instead")
    source = resolve(body.address)
    if source.kind != "address":
        raise InvalidSource("repositories are not fetched for a request", hint="name the address of an archive, or upload one")
    return _install(service, source, skills=body.skills, consent=consent, force=force)


def _install(
    service: Service,
    source: Source,
    *,
    skills: Sequence[str] = (),
    only: Sequence[str] = (),
    consent: str | None,
    force: bool,
) -> Answer[Installed]:
    agreement = Agreement(consent)
    try:
        report = service.registry.install(source, skills=skills, only=only, consent=agreement, force=force)
    except ConsentRequired as error:
        error.details["consent"] = agreement.wanted
        raise
    service.refresh()
    return Answer(data=_told(service, report))


def _told(service: Service, report: InstallReport) -> Installed:
    definitions = [definition(service.registry.skill(result.skill_id)) for result in report.results]
    return Installed(definitions=definitions, results=[result.to_dict() for result in report.results])
