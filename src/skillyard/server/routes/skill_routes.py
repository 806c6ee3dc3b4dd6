"""One skill of the catalog: shown with its files, scanned, made, switched and deleted; what models and clients make of it."""

from __future__ import annotations

import contextlib
import time
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from skillyard.access import set_audit_subject
from skillyard.catalog import Skill, SkillState, load_withdrawn, withdrawal
from skillyard.catalog.user_changes import has_desktop, open_folder
from skillyard.errors import InvalidInput, PermissionDenied, SkillyardError
from skillyard.interop import ClientCompatibility, check_clients
from skillyard.packages import PackageLimits
from skillyard.plain_json import to_plain_json
from skillyard.prompt import count_tokens
from skillyard.server.authorization import UNRECORDED, CurrentCaller, require_scope, sits_here
from skillyard.server.organisation_services import CurrentServices
from skillyard.server.responses import FILE_RESPONSES, READ_PROBLEMS, WRITE_PROBLEMS, file_response
from skillyard.server.shapes import Answer, RequestBody
from skillyard.server.shapes.catalog_shapes import (
    DetailedSkill,
    ListedSkill,
    ModelText,
    ScanReportShape,
    SkillName,
    SkillReference,
    SkillRisk,
    SkillsOfScreen,
)
from skillyard.skill_detail import model_text, read_skill_detail

routes: Final = APIRouter(prefix="/api/v1/catalog", tags=["catalog"], dependencies=[require_scope("skills:read")])
_WRITE: Final = require_scope("skills:write")
_EXECUTE: Final = require_scope("runs:execute")
_Again = Annotated[bool, Query(description="run it also when the same content was watched before")]
_VERDICTS_S: Final = 3.0  # a request waits no longer for the next scan


class NewSkill(RequestBody):
    """The content of a new skill, and whether it is one of the user or of the project."""

    name: str = Field(max_length=64)
    description: str = Field(max_length=1024)
    instructions: str = Field(default="", max_length=1_000_000)
    source: Literal["user", "project"] = "user"


class StateOfSkill(SkillReference):
    """Which skill is meant, and its new state."""

    state: SkillState


@routes.get("/file", responses=READ_PROBLEMS | WRITE_PROBLEMS | FILE_RESPONSES, response_class=Response)
def read_one_file(
    service: CurrentServices,
    request: Request,
    skill: SkillName,
    path: Annotated[str, Query(min_length=1, max_length=1024)] = "SKILL.md",
) -> Response:
    """One file of a skill, independent of the rules for agents: a person reads a skill before approving it."""
    return file_response(request, service.catalog.get(skill).read_file(path, limit=PackageLimits().file))


@routes.get("/folder", responses=READ_PROBLEMS)
def folder(service: CurrentServices, skill: SkillName) -> Answer[str]:
    """The folder of a skill on the server's machine, for a file manager; of an unknown one, where the user's skills are.

    An organisation is shown where that is in its own home, `~`, or in which of the shared folders, never a path of the machine.
    """
    return Answer[str].model_validate({"data": to_plain_json(service.catalog.directory_to_open(skill))})


@routes.get("/opening", responses=READ_PROBLEMS)
def can_open(request: Request, caller: CurrentCaller) -> Answer[bool]:
    """Whether the caller may have a skill's folder opened: at this machine, without a key, where there is a desktop."""
    return Answer(data=sits_here(request, caller) and has_desktop())


@routes.post("/open", responses=WRITE_PROBLEMS, dependencies=[_WRITE, UNRECORDED])
def open_on_desktop(service: CurrentServices, request: Request, caller: CurrentCaller, body: SkillReference) -> Answer[bool]:
    """Open a skill's folder in the file manager of this machine; false where there is no desktop."""
    if not sits_here(request, caller):
        raise PermissionDenied(
            "a folder is opened only for who sits at the server's machine", hint="`skillyard open NAME` opens it on your own"
        )
    return Answer(data=open_folder(service.catalog.get(body.skill).directory))


@routes.post("", status_code=201, responses=WRITE_PROBLEMS, dependencies=[_WRITE])
def create(service: CurrentServices, body: NewSkill) -> Answer[ListedSkill]:
    """Create a skill of the user, or of the project."""
    if "\0" in body.instructions:
        raise InvalidInput("the instructions have a NUL character", hint="take it out")
    set_audit_subject(body.name)
    with service.change_lock:
        made = service.catalog.create(body.name, body.description, body.instructions, source=body.source)
        return Answer(data=ListedSkill.of(made, service.catalog.rules()))


@routes.delete("", responses=WRITE_PROBLEMS, dependencies=[_WRITE])
def delete(service: CurrentServices, skill: SkillName) -> Answer[None]:
    """Delete a skill of the user, with its folder."""
    with service.change_lock:
        service.catalog.delete(skill)
    return Answer(data=None)


@routes.post("/toggle", responses=WRITE_PROBLEMS, dependencies=[_WRITE])
def toggle(service: CurrentServices, body: SkillReference) -> Answer[ListedSkill]:
    """Enable a disabled skill, or disable an enabled one."""
    set_audit_subject(body.skill)
    with service.change_lock:
        return _switched(service, service.catalog.toggle(body.skill))


@routes.put("/state", responses=WRITE_PROBLEMS, dependencies=[_WRITE])
def set_state(service: CurrentServices, body: StateOfSkill) -> Answer[ListedSkill]:
    """Set the state of a skill: pinned, automatic, name-only, manual or off."""
    set_audit_subject(body.skill)
    with service.change_lock:
        return _switched(service, service.catalog.set_state(body.skill, body.state))


def _switched(service: CurrentServices, skill: Skill) -> Answer[ListedSkill]:
    """The skill as it is now, after the folders of coding agents were updated."""
    service.registry.agent_folders.follow_skill(skill)
    return Answer(data=ListedSkill.of(skill, service.catalog.rules()))


@routes.get("/skill", responses=READ_PROBLEMS)
def look_at(service: CurrentServices, skill: SkillName) -> Answer[DetailedSkill]:
    """Everything about one skill, whatever its status: its front matter, its files, what it may do, whether it can run."""
    known = service.catalog.get(skill)
    shape = DetailedSkill(ListedSkill.of(known, service.catalog.rules()), read_skill_detail(service.catalog, known))
    return Answer[DetailedSkill].model_validate({"data": to_plain_json(shape.to_dict())})


@routes.get("/scan", responses=READ_PROBLEMS | WRITE_PROBLEMS)
def scan(service: CurrentServices, skill: SkillName) -> Answer[ScanReportShape]:
    """Scan the files of a skill now, without running anything."""
    report = service.scans.report(service.catalog.get(skill), service.catalog.suppressions())
    return Answer(data=ScanReportShape.model_validate(to_plain_json(report.to_dict())))


@routes.post("/scan", responses=WRITE_PROBLEMS, dependencies=[_EXECUTE])
def watch(service: CurrentServices, skill: SkillName, again: _Again = False) -> Answer[ScanReportShape]:
    """Run the scripts of a skill in a sandbox with fake secrets and a fake network, and scan it; takes some 10 seconds.

    What it did is among the findings and in `watched`, and stays there in later scans of the same content.
    """
    report = service.scans.watch(service.catalog.get(skill), service.catalog.suppressions(), again=again)
    return Answer(data=ScanReportShape.model_validate(to_plain_json(report.to_dict())))


@routes.get("/verdicts", responses=READ_PROBLEMS)
def verdicts(service: CurrentServices, skill: SkillsOfScreen) -> Answer[list[SkillRisk]]:
    """The scanner's verdict on several skills, and whether they were withdrawn.

    Those it had no time for are not `scanned`: ask again.
    """
    suppressions, until = service.catalog.suppressions(), time.monotonic() + _VERDICTS_S
    found, withdrawn = [], load_withdrawn(service.catalog.data_directory)
    for name in dict.fromkeys(skill):
        verdict = SkillRisk(skill=name, scanned=False, worst=None, findings=0)
        with contextlib.suppress(SkillyardError, OSError):
            known = service.catalog.get(name)
            if known.source == "installed" and (why := withdrawn.get(known.slug)):
                verdict = verdict.model_copy(update={"withdrawal": withdrawal(why), "withdrawn": why})
            if time.monotonic() < until:
                report = service.scans.report(known, suppressions)
                verdict = verdict.model_copy(update={"scanned": True, "worst": report.worst, "findings": len(report.open)})
        found.append(verdict)
    return Answer(data=found)


@routes.get("/model-text", responses=READ_PROBLEMS)
def get_model_text(service: CurrentServices, skill: SkillName) -> Answer[ModelText]:
    """The exact text that a model reads when it loads the skill, and its tokens."""
    known = service.catalog.get(skill)
    text = model_text(service.catalog, known)
    return Answer(data=ModelText(text=text, tokens=count_tokens(text), description_tokens=count_tokens(known.description)))


@routes.get("/clients", responses=READ_PROBLEMS | WRITE_PROBLEMS)
def loading(service: CurrentServices, skill: SkillName) -> Answer[list[ClientCompatibility]]:
    """Which clients load a skill, under which name and description, and why one does not."""
    known = service.catalog.get(skill)
    clients = check_clients(known.directory, name=known.slug if known.source == "installed" else None)
    return Answer[list[ClientCompatibility]].model_validate({"data": to_plain_json([client.to_dict() for client in clients])})
