"""Installing over HTTP: an uploaded archive, or what an https address names; more power only with consent to exactly that."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import BaseModel, Field, ValidationError
from starlette.concurrency import run_in_threadpool

from skillyard.errors import InvalidInput, InvalidSource
from skillyard.packages import Source, resolve
from skillyard.registry import InstallReport, PowerChange, Replacement, new_operation_id
from skillyard.server.callers import UNRECORDED, needs
from skillyard.server.definitions import definition
from skillyard.server.inspection_shapes import InspectedSkill, inspected
from skillyard.server.install_shapes import Installed, OperationStarted, result_detail
from skillyard.server.problems import WRITING
from skillyard.server.service import Served, Service
from skillyard.server.shapes import Answer, RequestBody
from skillyard.server.uploads import UPLOAD, is_upload, uploaded

__all__ = ["routes"]

_PREFIX: Final = "/api/v1/skill-definitions"
routes: Final = APIRouter(prefix=_PREFIX, tags=["installing"], dependencies=[needs("skills:write"), UNRECORDED])

_HTTPS: Final = re.compile(r"(?:git\+)?https://", re.IGNORECASE)
_HTTP: Final = re.compile(r"(?:git\+)?https?://", re.IGNORECASE)
_LARGEST: Final = 64 * 1024  # bytes of a request that is no upload
_Consent = Annotated[
    str | None,
    Query(
        description="the `consent` of each change or replacement that is agreed to, as an inspection or a refusal tells it,"
        " joined by commas",
        max_length=8000,
    ),
]
_Force = Annotated[bool, Query(description="also over versions that were changed by hand, and content that was yanked")]
_Signer = Annotated[bool, Query(description="also when somebody else signed it than before, or nobody")]
_Source = Annotated[bool, Query(description="also when it comes from another source than the version that serves")]
_Wait = Annotated[bool, Query(description="false answers 202 at once: follow the operation's events")]
_ACCEPTED: Final[dict[int | str, dict[str, Any]]] = {
    202: {"model": Answer[OperationStarted], "description": "it goes on in the server: `wait` was false"}
}


class InstallAddress(RequestBody):
    """Where to fetch from: the https address of an archive, a SKILL.md, a manifest, a catalog or a git repository.

    `skills` are those wanted of a source with several; all when empty.
    """

    address: str = Field(min_length=1, max_length=2000)
    skills: list[str] = Field(default=[], max_length=100)


class Agreement:
    """Consent over two requests: the first is refused, or only looked, and names each change; the second names the same."""

    def __init__(self, given: str | None) -> None:
        self._given = frozenset((given or "").split(","))

    def __call__(self, changes: Sequence[PowerChange] | Sequence[Replacement]) -> bool:
        """Whether exactly these changes were agreed to."""
        return self._given.issuperset(change.consent for change in changes)


class _Wish(BaseModel):
    """How an install is meant."""

    consent: str | None
    force: bool
    accept_signer: bool
    accept_source: bool
    wait: bool


def _wish(
    consent: _Consent = None,
    force: _Force = False,
    accept_signer: _Signer = False,
    accept_source: _Source = False,
    wait: _Wait = True,
) -> _Wish:
    return _Wish(consent=consent, force=force, accept_signer=accept_signer, accept_source=accept_source, wait=wait)


_Wished = Annotated[_Wish, Depends(_wish)]
_EITHER: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "content": {
            **UPLOAD["requestBody"]["content"],
            "application/json": {"schema": {"$ref": "#/components/schemas/InstallAddress"}},
        },
    }
}


@routes.post("/inspect", responses=WRITING, openapi_extra=_EITHER, response_model=Answer[list[InspectedSkill]])
async def inspect(service: Served, request: Request) -> Response:
    """Look at an archive or at what an address names, as closely as an install does; nothing is installed.

    Tells of each skill its front matter, files, findings, the clients that can load it, what it may do, what is different from
    the version that serves, what would refuse it, and the `consent` that its install needs.
    """
    async with contextlib.AsyncExitStack() as held:
        if is_upload(request):
            source, skills = Source("upload", str(await held.enter_async_context(uploaded(request, service.registry)))), []
        else:
            body = await _address(request)
            source, skills = await run_in_threadpool(_source, service, body), body.skills
        data = await run_in_threadpool(_inspection, service, source, skills)
        return Response(data, media_type="application/json")


def _inspection(service: Service, source: Source, skills: Sequence[str]) -> bytes:
    """The JSON of what an inspection finds; that of a thousand skills takes too long for the event loop."""
    shapes = [inspected(skill) for skill in service.registry.inspect(source, skills=skills)]
    return Answer[list[InspectedSkill]](data=shapes).model_dump_json().encode()


@routes.post("/upload-create", status_code=201, responses=WRITING | _ACCEPTED, openapi_extra=UPLOAD)
async def upload_create(
    service: Served,
    request: Request,
    response: Response,
    wish: _Wished,
    skills: Annotated[list[str], Query(max_length=100, description="only these of the archive")] = [],  # noqa: B006
) -> Answer[Installed] | Answer[OperationStarted]:
    """Install every skill of an uploaded archive, or those that are named."""
    async with contextlib.AsyncExitStack() as held:
        archive = await held.enter_async_context(uploaded(request, service.registry))
        install = partial(service.registry.install, Source("upload", str(archive)), skills=skills)
        return await _carried(service, response, wish, install, held)


@routes.post("/{id}/upload-install", status_code=201, responses=WRITING | _ACCEPTED, openapi_extra=UPLOAD)
async def upload_install(
    service: Served,
    request: Request,
    response: Response,
    id: str,  # noqa: A002 # the path of document 003
    wish: _Wished,
) -> Answer[Installed] | Answer[OperationStarted]:
    """Install another version of one skill from an uploaded archive; what else the archive holds is left alone."""
    skill = await run_in_threadpool(service.registry.skill, id, installed=False)
    async with contextlib.AsyncExitStack() as held:
        archive = await held.enter_async_context(uploaded(request, service.registry))
        install = partial(service.registry.install, Source("upload", str(archive)), only=(skill.skill_id,))
        return await _carried(service, response, wish, install, held)


@routes.post("/install/address", status_code=201, responses=WRITING | _ACCEPTED)
async def install_address(
    service: Served, response: Response, body: InstallAddress, wish: _Wished
) -> Answer[Installed] | Answer[OperationStarted]:
    """Install from an https address: an archive, a SKILL.md, a manifest, a catalog, a site's index, or a git repository.

    Addresses of this machine and of private networks are not asked.
    """
    source = await run_in_threadpool(_source, service, body)
    install = partial(service.registry.install, source, skills=body.skills)
    return await _carried(service, response, wish, install, contextlib.AsyncExitStack())


@routes.post("/{id}/update", status_code=201, responses=WRITING | _ACCEPTED)
async def update(
    service: Served,
    response: Response,
    id: str,  # noqa: A002 # as above
    wish: _Wished,
) -> Answer[Installed] | Answer[OperationStarted]:
    """Fetch a skill again from where it came from, and install what is there when it is something else."""
    skill = await run_in_threadpool(service.registry.skill, id)
    install = partial(service.registry.update, skill.skill_id)
    return await _carried(service, response, wish, install, contextlib.AsyncExitStack())


async def _address(request: Request) -> InstallAddress:
    """The JSON of a request that is no upload."""
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > _LARGEST:
            raise InvalidInput("the request is too large", hint="send an address, or an archive as multipart/form-data")
    try:
        return InstallAddress.model_validate_json(body)
    except ValidationError as error:
        fault = error.errors()[0]
        where = ".".join(str(part) for part in fault["loc"])
        raise InvalidInput(f"{where or 'body'}: {fault['msg']}", hint="/openapi.json describes every request") from None


def _source(service: Service, body: InstallAddress) -> Source:
    """What an address names; never anything of this machine, and nothing that would be asked with its user's keys."""
    allowed = _HTTP if service.catalog.configuration.private_hosts else _HTTPS
    if not allowed.match(body.address.strip()):
        raise InvalidSource("only https addresses are fetched for a request", hint="upload an archive instead")
    return resolve(body.address, names=tuple(body.skills))


async def _carried(
    service: Service,
    response: Response,
    wish: _Wish,
    install: Callable[..., InstallReport],
    held: contextlib.AsyncExitStack,
) -> Answer[Installed] | Answer[OperationStarted]:
    """Carry an install out now, or let it go on with what it needs `held`."""
    operation_id = new_operation_id()
    work = partial(
        _install,
        service,
        partial(
            install,
            consent=Agreement(wish.consent),
            force=wish.force,
            accept_signer=wish.accept_signer,
            accept_source=wish.accept_source,
            replacing=Agreement(wish.consent),
            operation_id=operation_id,
        ),
    )
    if wish.wait:
        async with held:
            return Answer(data=await run_in_threadpool(work))
    await service.installs.begin(operation_id, work, held.pop_all())
    response.status_code = 202
    return Answer(data=OperationStarted(operation_id=operation_id, events=f"{_PREFIX}/operations/{operation_id}/events"))


def _install(service: Service, install: Callable[[], InstallReport]) -> Installed:
    report = install()
    service.look()
    return Installed(
        operation_id=report.operation_id,
        definitions=[definition(service.registry.skill(result.skill_id)) for result in report.results],
        results=[result_detail(result) for result in report.results],
    )
