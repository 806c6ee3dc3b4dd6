"""Installing an uploaded archive or from an https address, inspecting it before, and following the operation.

More powers are only installed with consent to exactly that.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import re
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Depends, Header, Query, Request, Response
from pydantic import BaseModel, Field, ValidationError
from sse_starlette import ServerSentEvent
from starlette.concurrency import run_in_threadpool

from skillyard.errors import InvalidInput, InvalidSource, RecordNotFound
from skillyard.packages import Source, resolve
from skillyard.plain_json import to_plain_json
from skillyard.registry import InstalledSkill, InstallLog, InstallReport, new_operation_id
from skillyard.server.authorization import UNRECORDED, require_scope
from skillyard.server.background.running_work import InstallFailure
from skillyard.server.clients.published_skills import is_semantic
from skillyard.server.file_transfers import UPLOAD, SentConsent, is_upload, read_body, uploaded
from skillyard.server.organisation_services import CurrentServices, OrganisationServices
from skillyard.server.responses import READ_PROBLEMS, WRITE_PROBLEMS, EventStream, stream_responses
from skillyard.server.shapes import Answer, RequestBody
from skillyard.server.shapes.installation_shapes import (
    Definition,
    InspectedSkill,
    InstallEnded,
    InstallError,
    InstallEvent,
    InstallLogDetail,
    InstallProgressed,
    InstallResult,
    InstallSummary,
    OperationDetail,
    OperationStarted,
)

_PREFIX: Final = "/api/v1/skill-definitions"
routes: Final = APIRouter(prefix=_PREFIX, tags=["installing"], dependencies=[require_scope("skills:write"), UNRECORDED])

_HTTPS: Final = re.compile(r"(?:git\+)?https://", re.IGNORECASE)
_HTTP: Final = re.compile(r"(?:git\+)?https?://", re.IGNORECASE)
_LARGEST: Final = 64 * 1024  # bytes of a request that is no upload
_Consent = Annotated[
    str | None,
    Query(
        description="the `consent` of each change or replacement that is agreed to, as an inspection or a refusal names it,"
        " joined by commas",
        max_length=8000,
    ),
]
_Force = Annotated[bool, Query(description="also over versions that were changed by hand, and content that was yanked")]
_Signer = Annotated[bool, Query(description="also when somebody else signed it than before, or nobody")]
_Source = Annotated[bool, Query(description="also when it comes from another source than the current version")]
_Accept = Annotated[list[str], Query(description="the rules of the scanner whose findings do not stop it", max_length=100)]
_Dependencies = Annotated[
    bool,
    Query(description="false installs without the skills that it requires, and whatever others require of it"),
]
_PublishedVersion = Annotated[
    str,
    Query(description="publishes it as this semantic version; one that has other content already is refused", max_length=100),
]
_Notes = Annotated[str, Query(description="what is new in it, for who reads its list of versions", max_length=4000)]
_Wait = Annotated[bool, Query(description="false answers 202 at once: follow the operation's events")]
_ACCEPTED: Final[dict[int | str, dict[str, Any]]] = {
    202: {"model": Answer[OperationStarted], "description": "it continues in the server: `wait` was false"}
}


class InstallAddress(RequestBody):
    """Where to fetch from: the https address of an archive, a SKILL.md, a manifest, a catalog or a git repository.

    `skills` are those wanted of a source with several; all when empty.
    """

    address: str = Field(min_length=1, max_length=2000)
    skills: list[str] = Field(default=[], max_length=100)


class _InstallOptions(BaseModel):
    """How an install is meant."""

    consent: str | None
    force: bool
    accept_signer: bool
    accept_source: bool
    accept: list[str]
    dependencies: bool
    wait: bool


def _install_options(
    consent: _Consent = None,
    force: _Force = False,
    accept_signer: _Signer = False,
    accept_source: _Source = False,
    accept: _Accept = [],  # noqa: B006 # what a query without it means
    dependencies: _Dependencies = True,
    wait: _Wait = True,
) -> _InstallOptions:
    return _InstallOptions(
        consent=consent,
        force=force,
        accept_signer=accept_signer,
        accept_source=accept_source,
        accept=accept,
        dependencies=dependencies,
        wait=wait,
    )


_SentOptions = Annotated[_InstallOptions, Depends(_install_options)]
_EITHER: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "content": {
            **UPLOAD["requestBody"]["content"],
            "application/json": {"schema": {"$ref": "#/components/schemas/InstallAddress"}},
        },
    }
}


@routes.post("/inspect", responses=WRITE_PROBLEMS, openapi_extra=_EITHER, response_model=Answer[list[InspectedSkill]])
async def inspect(service: CurrentServices, request: Request, version: _PublishedVersion = "") -> Response:
    """Inspect an archive or an address like an install, without installing anything.

    Gives of each skill its front matter, files, findings, the clients that can load it, what it may do, what is different from
    the current version, what would refuse it, and the `consent` that its install needs.
    """
    async with contextlib.AsyncExitStack() as held:
        if is_upload(request):
            archive = await held.enter_async_context(uploaded(request, service.registry))
            source, skills = _upload(archive, version), []
        else:
            body = await _address(request)
            source, skills = await run_in_threadpool(_source, service, body), body.skills
        data = await run_in_threadpool(_inspection, service, source, skills)
        return Response(data, media_type="application/json")


def _upload(archive: Path, version: str, notes: str = "") -> Source:
    if version and not is_semantic(version):
        raise InvalidInput(f"{version!r} is not a semantic version", hint="as in 1.4.0")
    return Source("upload", str(archive), version=version, notes=notes)


def _inspection(service: OrganisationServices, source: Source, skills: Sequence[str]) -> bytes:
    """The JSON of what an inspection finds; that of a thousand skills takes too long for the event loop."""
    shapes = [InspectedSkill.of(skill).to_dict() for skill in service.registry.inspect(source, skills=skills)]
    answer = Answer[list[InspectedSkill]].model_validate({"data": to_plain_json(shapes)})
    return answer.model_dump_json(warnings=False).encode()  # the version in it is plain data already, which pydantic would note


@routes.post("/upload-create", status_code=201, responses=WRITE_PROBLEMS | _ACCEPTED, openapi_extra=UPLOAD)
async def upload_create(
    service: CurrentServices,
    request: Request,
    response: Response,
    options: _SentOptions,
    skills: Annotated[list[str], Query(max_length=100, description="only these of the archive")] = [],  # noqa: B006
    version: _PublishedVersion = "",
    notes: _Notes = "",
) -> Answer[InstallSummary] | Answer[OperationStarted]:
    """Install every skill of an uploaded archive, or those that are named.

    The first key that uploads a skill owns its name: other members of the organisation change nothing of it.
    """
    async with contextlib.AsyncExitStack() as held:
        archive = await held.enter_async_context(uploaded(request, service.registry))
        install = partial(service.registry.install, _upload(archive, version, notes), skills=skills)
        return await _execute(service, response, options, install, held)


@routes.post("/{id}/upload-install", status_code=201, responses=WRITE_PROBLEMS | _ACCEPTED, openapi_extra=UPLOAD)
async def upload_install(
    service: CurrentServices,
    request: Request,
    response: Response,
    id: str,  # noqa: A002 # as in the path
    options: _SentOptions,
) -> Answer[InstallSummary] | Answer[OperationStarted]:
    """Install another version of one skill from an uploaded archive; other skills in it are ignored."""
    skill = await run_in_threadpool(service.registry.installed.skill, id, installed=False)
    async with contextlib.AsyncExitStack() as held:
        archive = await held.enter_async_context(uploaded(request, service.registry))
        install = partial(service.registry.install, Source("upload", str(archive)), only=(skill.skill_id,))
        return await _execute(service, response, options, install, held)


@routes.post("/install/address", status_code=201, responses=WRITE_PROBLEMS | _ACCEPTED)
async def install_address(
    service: CurrentServices, response: Response, body: InstallAddress, options: _SentOptions
) -> Answer[InstallSummary] | Answer[OperationStarted]:
    """Install from an https address: an archive, a SKILL.md, a manifest, a catalog, a site's index, or a git repository.

    Loopback and private addresses are not contacted.
    """
    source = await run_in_threadpool(_source, service, body)
    install = partial(service.registry.install, source, skills=body.skills)
    return await _execute(service, response, options, install, contextlib.AsyncExitStack())


class AvailableUpdate(BaseModel):
    """A skill of which there is something newer where it came from; its versions are the declared ones."""

    skill_id: str
    declared_version: str | None
    available: str | None


@routes.post("/updates", responses=WRITE_PROBLEMS)
def look_for_updates(service: CurrentServices) -> Answer[list[AvailableUpdate]]:
    """Check the source of each installed skill for updates, without installing anything."""
    found = map(service.registry.pending_update, service.registry.installed.serving())
    return Answer(
        data=[
            AvailableUpdate(skill_id=one.skill_id, declared_version=one.declared_version, available=one.available)
            for one in found
            if one.state == "update"
        ]
    )


@routes.post("/{id}/update", status_code=201, responses=WRITE_PROBLEMS | _ACCEPTED)
async def update(
    service: CurrentServices,
    response: Response,
    id: str,  # noqa: A002 # as above
    options: _SentOptions,
    theirs: Annotated[bool, Query(description="what the source has, over an edit that was adopted")] = False,
) -> Answer[InstallSummary] | Answer[OperationStarted]:
    """Fetch a skill again from its source, and install it if it has changed."""
    skill = await run_in_threadpool(service.registry.installed.skill, id)
    install = partial(service.registry.update, skill.skill_id, theirs=theirs)
    return await _execute(service, response, options, install, contextlib.AsyncExitStack())


async def _address(request: Request) -> InstallAddress:
    """The JSON of a request that is no upload."""
    hint = "send an address, or an archive as multipart/form-data"
    body = await read_body(request, _LARGEST, InvalidInput("the request is too large", hint=hint))
    try:
        return InstallAddress.model_validate_json(body)
    except ValidationError as error:
        fault = error.errors()[0]
        where = ".".join(str(part) for part in fault["loc"])
        raise InvalidInput(f"{where or 'body'}: {fault['msg']}", hint="/openapi.json describes every request") from None


def _source(service: OrganisationServices, body: InstallAddress) -> Source:
    """What an address names; never anything of this machine, and nothing that would be asked with its user's keys."""
    allowed = _HTTP if service.catalog.configuration.private_hosts else _HTTPS
    if not allowed.match(body.address.strip()):
        raise InvalidSource("only https addresses are fetched for a request", hint="upload an archive instead")
    return resolve(body.address, names=tuple(body.skills))


async def _execute(
    service: OrganisationServices,
    response: Response,
    options: _InstallOptions,
    install: Callable[..., InstallReport],
    held: contextlib.AsyncExitStack,
) -> Answer[InstallSummary] | Answer[OperationStarted]:
    """Execute an install now, or continue it in the background with what it needs `held`."""
    operation_id = new_operation_id()
    work = partial(
        _install,
        service,
        partial(
            install,
            consent=SentConsent(options.consent),
            force=options.force,
            accept_signer=options.accept_signer,
            accept_source=options.accept_source,
            accept=options.accept,
            dependencies=options.dependencies,
            replacing=SentConsent(options.consent),
            operation_id=operation_id,
        ),
    )
    if options.wait:
        async with held:
            return Answer(data=await run_in_threadpool(work))
    await service.installs.begin(operation_id, work, held.pop_all())
    response.status_code = 202
    return Answer(data=OperationStarted(operation_id=operation_id, events=f"{_PREFIX}/operations/{operation_id}/events"))


def _install(service: OrganisationServices, install: Callable[[], InstallReport]) -> InstallSummary:
    report = install()
    service.refresh_after_change()
    return InstallSummary(
        operation_id=report.operation_id,
        definitions=[
            Definition.of(service.registry.installed.skill(result.skill_id, installed=False)) for result in report.results
        ],
        results=[InstallResult.of(result) for result in report.results],
    )


operation_routes: Final = APIRouter(
    prefix="/api/v1/skill-definitions/operations", tags=["installing"], dependencies=[require_scope("skills:read")]
)

_LOOK_S: Final = 0.2


@operation_routes.get("/{operation_id}", responses=READ_PROBLEMS)
def get_operation(service: CurrentServices, operation_id: str) -> Answer[OperationDetail]:
    """The current state of an operation: the log of each skill, and at the end the result."""
    return Answer(data=_operation_detail(service, operation_id))


@operation_routes.get(
    "/{operation_id}/events",
    response_class=EventStream,
    responses=READ_PROBLEMS | stream_responses(InstallEvent, "InstallEvent", "progress, end"),
)
async def follow_operation(
    service: CurrentServices, operation_id: str, last_event_id: Annotated[str | None, Header(max_length=100)] = None
) -> EventStream:
    """The progress of an operation as server-sent events; each has the whole operation.

    The id of an event stands for what it said: a client that comes back with `Last-Event-ID`, to whichever process, is sent it
    again only when something is different.
    """
    first = await run_in_threadpool(_operation_detail, service, operation_id)
    return EventStream(_events(service, operation_id, first, last_event_id))


async def _events(
    service: OrganisationServices, operation_id: str, operation: OperationDetail, shown: str | None
) -> AsyncGenerator[ServerSentEvent, None]:
    while operation.state == "running":
        event = _event(InstallProgressed(operation=operation))
        if event.id != shown:
            yield event
            shown = event.id
        await asyncio.sleep(_LOOK_S)
        operation = await run_in_threadpool(_operation_detail, service, operation_id)
    yield _event(InstallEnded(operation=operation))


def _event(moved: InstallProgressed | InstallEnded) -> ServerSentEvent:
    text = moved.model_dump_json()
    return ServerSentEvent(text, event=moved.event, id=hashlib.sha256(text.encode()).hexdigest()[:20])


def _operation_detail(service: OrganisationServices, operation_id: str) -> OperationDetail:
    """The operation, from its logs and from what the process that works on it has reported."""
    going, error = service.installs.progress(operation_id)
    logs = service.registry.installed.operation(operation_id)
    if not logs and not going and error is None:
        raise RecordNotFound(f"there is no operation {operation_id!r}", hint="every requested install has one")
    failed = next((log for log in logs if log.status == "failed"), None)
    state: Literal["running", "success", "failed"] = "success"
    if going or any(log.status in ("pending", "in_progress") for log in logs):
        state = "running"
    elif failed is not None or error is not None:
        state = "failed"
    return OperationDetail(
        operation_id=operation_id,
        state=state,
        logs=[InstallLogDetail.of(log) for log in reversed(logs)],
        definitions=[Definition.of(skill) for skill in _skills(service, logs)] if state == "success" else [],
        error=_error(failed, error) if state == "failed" else None,
    )


def _skills(service: OrganisationServices, logs: Sequence[InstallLog]) -> Iterator[InstalledSkill]:
    """The skills that were installed, as they are now."""
    for skill_id in sorted({log.skill_id for log in logs if log.skill_id}):
        yield service.registry.installed.skill(skill_id, installed=False)


def _error(failed: InstallLog | None, error: InstallFailure | None) -> InstallError:
    if failed is not None:
        details = dict(failed.details or {})
        return InstallError(code=failed.error_code or "", message=failed.error_message or "", details=details)
    return InstallError(code=error.code if error else "", message=error.message if error else "")
