"""What ClawHub's client changes: `clawhub publish`, `delete` and `undelete`.

The client sends each file to an address of its own and then says what they are; older ones send one form. Either way it is one
installation, with all its rules.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Final

from fastapi import APIRouter, Request
from fastapi import Path as InPath
from pydantic import BaseModel, Field, ValidationError
from starlette.concurrency import run_in_threadpool

from skillyard.errors import ArchiveTooLarge, InvalidInput, VersionNotFound, VersionUnusable
from skillyard.packages import Limits
from skillyard.paths import slug as slug_of
from skillyard.registry import LATEST, check_tag
from skillyard.server.callers import Asking, needs
from skillyard.server.clawhub_shapes import labelled, of_owner
from skillyard.server.dialects import CLAWHUB
from skillyard.server.incoming import Incoming, files_of, gathered, looked_into, publish
from skillyard.server.numbering import is_semantic, numbered
from skillyard.server.service import Served, Service
from skillyard.server.staging import TICKET, new_ticket, staged, take_in
from skillyard.server.uploads import is_upload, read_form, scratch

__all__ = ["routes"]

routes: Final = APIRouter(
    prefix="/api/v1/skills", tags=["clients: ClawHub"], dependencies=[needs("skills:write")], responses=CLAWHUB
)

_Slug = Annotated[str, InPath(max_length=200)]
_Label = Annotated[str, InPath(max_length=100)]
_CONSENT: Final = "consent:"
_LARGEST_ORDER: Final = 4 * 1024 * 1024


class Announced(BaseModel):
    """A file that is about to be sent."""

    path: str = Field(max_length=1024)
    size: int = Field(ge=0)
    sha256: str = Field(max_length=64)


class Sent(Announced):
    """A file that was sent."""

    storageId: str = Field(pattern=TICKET)  # noqa: N815


class Order(BaseModel):
    """What is published; the fields that are about accounts and licences of a public hub are not looked at."""

    slug: str = Field(max_length=200)
    version: str = Field(max_length=100)
    changelog: str = Field(default="", max_length=100_000)
    ownerHandle: str | None = Field(default=None, max_length=200)  # noqa: N815
    tags: list[str] = Field(default=[], max_length=100)
    files: list[Sent] = Field(default=[], max_length=Limits().entries)


class Owned(BaseModel):
    """Whose skill is meant."""

    ownerHandle: str | None = Field(default=None, max_length=200)  # noqa: N815


_ORDER: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": Order.model_json_schema(ref_template="#/components/schemas/{model}")}},
    }
}
_FILE: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}


@routes.post("/-/upload-url")
def upload_url(request: Request, body: Announced) -> dict[str, Any]:
    """Where one file of a skill is sent."""
    if body.size > Limits().file:
        raise ArchiveTooLarge(f"{body.path!r} is over {Limits().file >> 20} MB", hint="keep large data out of the skill")
    ticket = new_ticket()
    return {"uploadUrl": str(request.url_for("upload", ticket=ticket)), "uploadTicket": ticket}


@routes.post("/-/uploads/{ticket}", openapi_extra=_FILE)
async def upload(service: Served, request: Request, ticket: Annotated[str, InPath(pattern=TICKET)]) -> dict[str, Any]:
    """Take one file in, until it is published."""
    await take_in(service, request, ticket)
    return {"storageId": ticket}


@routes.post("", openapi_extra=_ORDER)
async def publish_skill(service: Served, caller: Asking, request: Request) -> dict[str, Any]:
    """Install a skill, or another version of one, from files that were sent."""
    async with scratch(service.registry) as folder:
        archive = folder / "upload.zip"
        if is_upload(request):
            order = await _from_form(request, archive)
        else:
            order = await _from_order(service, request, archive)
        return await run_in_threadpool(_publish, service, caller, order, archive)


@routes.delete("/{slug}")
def delete(service: Served, caller: Asking, slug: _Slug, body: Owned | None = None) -> dict[str, Any]:
    """Uninstall a skill; `undelete` brings it back."""
    skill = of_owner(service, caller, slug, _handle(body))
    service.registry.uninstall(skill.skill_id)
    service.refresh()
    return {"ok": True}


@routes.post("/{slug}/undelete")
def undelete(service: Served, caller: Asking, slug: _Slug, body: Owned | None = None) -> dict[str, Any]:
    """Let the newest version of an uninstalled skill serve again."""
    skill = of_owner(service, caller, slug, _handle(body), installed=False)
    if skill.active:
        raise VersionUnusable(f"{skill.skill_id} is not deleted", hint="nothing is to be done")
    service.registry.rollback(skill.skill_id)
    service.refresh()
    return {"ok": True}


@routes.delete("/{slug}/versions/{version}")
def withdraw(service: Served, caller: Asking, slug: _Slug, version: _Label, body: Owned | None = None) -> dict[str, Any]:
    """Yank a version: nobody gets it any more; `restore` takes that back."""
    skill = of_owner(service, caller, slug, _handle(body))
    one = labelled(service, skill, version)
    if one.version.current:
        raise VersionUnusable(f"{skill.skill_id} {version} serves", hint="publish a later version first, or delete the skill")
    service.registry.yank(skill.skill_id, one.version.version, reason="deleted by its publisher")
    return {"ok": True}


@routes.post("/{slug}/versions/{version}/restore")
def restore(service: Served, caller: Asking, slug: _Slug, version: _Label, body: Owned | None = None) -> dict[str, Any]:
    """Take a yank back."""
    skill = of_owner(service, caller, slug, _handle(body))
    found = [one for one in numbered(service.registry.versions(skill.skill_id)) if one.label == version and one.version.yanked]
    if not found:
        raise VersionNotFound(f"{skill.skill_id} has no deleted version {version}", hint="check its number")
    service.registry.yank(skill.skill_id, found[0].version.version, undo=True)
    return {"ok": True}


def _handle(body: Owned | None) -> str | None:
    return body.ownerHandle if body else None


async def _from_order(service: Service, request: Request, archive: Path) -> Order:
    """The order in the body; its files go into the archive."""
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > _LARGEST_ORDER:
            raise ArchiveTooLarge("the request is too long", hint="publish fewer files", limit=_LARGEST_ORDER)
    order = _read(bytes(body))
    await run_in_threadpool(_gather_staged, service, order, archive)
    return order


def _gather_staged(service: Service, order: Order, archive: Path) -> None:
    wanted = {file.path: (file.storageId, file.sha256) for file in order.files}
    if len(wanted) < len(order.files):
        raise InvalidInput("two files have the same path", hint="send each file once")
    with staged(service, wanted) as files, contextlib.ExitStack() as opened:
        _gather(order, ((path, opened.enter_context(file.open("rb"))) for path, file in files.items()), archive)


async def _from_form(request: Request, archive: Path) -> Order:
    """The order in the field `payload` of a form; its files go into the archive."""
    async with _form(request) as (payload, files):
        order = _read(payload.encode())
        await run_in_threadpool(_gather, order, files, archive)
        return order


@contextlib.asynccontextmanager
async def _form(request: Request) -> AsyncIterator[tuple[str, list[tuple[str, BinaryIO]]]]:
    async with read_form(request, Limits().archive, files=Limits().entries, fields=20) as form:
        payload = form.get("payload")
        if not isinstance(payload, str):
            raise InvalidInput("the form has no field payload", hint="update the client")
        yield payload, [(file.filename or "", file.file) for file in files_of(form)]


def _read(body: bytes) -> Order:
    try:
        return Order.model_validate(json.loads(body))
    except (ValueError, RecursionError) as error:
        first = error.errors()[0] if isinstance(error, ValidationError) else {"loc": (), "msg": "it is not JSON"}
        at = ".".join(str(part) for part in first["loc"])
        raise InvalidInput(f"the request cannot be understood: {at} {first['msg']}", hint="update the client") from None


def _gather(order: Order, files: Iterable[tuple[str, BinaryIO]], archive: Path) -> None:
    """Put the files below a folder with the name of the skill."""
    if slug_of(order.slug) != order.slug:
        raise InvalidInput(f"{order.slug!r} is no slug", hint="lower-case letters, digits and hyphens, as in --slug my-skill")
    gathered(((f"{order.slug}/{path}", file) for path, file in files), archive)


def _publish(service: Service, caller: Asking, order: Order, archive: Path) -> dict[str, Any]:
    if not is_semantic(order.version):
        raise InvalidInput(f"{order.version!r} is no semantic version", hint="as in 1.4.0")
    known = service.registry.ledger.skill(order.slug)
    if known is not None:
        of_owner(service, caller, order.slug, order.ownerHandle, installed=False)
        _refuse_taken(service, order)
    active = known is not None and known.active
    skill = looked_into(archive, archive.parent, one_folder=True)
    if skill.skill_id != order.slug:
        raise InvalidInput(f"its SKILL.md calls it {skill.name!r}", hint=f"publish it with --slug {skill.skill_id}")
    tags = [tag for tag in order.tags if tag != LATEST and not tag.startswith(_CONSENT)]
    for tag in tags:
        check_tag(tag)
    consent = next((tag.removeprefix(_CONSENT) for tag in order.tags if tag.startswith(_CONSENT)), None)
    result = publish(
        service,
        Incoming(archive, skill, {}),
        into=order.slug if active else None,
        consent=consent,
        version=order.version,
        notes=order.changelog,
    )
    if result.status == "unchanged":
        raise VersionUnusable("exactly this is published already", hint="`clawhub inspect` shows as which version")
    for tag in tags:
        service.registry.tags.put(result.skill_id, tag, str(result.version))
    told = {"slug": order.slug, "version": order.version, "status": "published", "publicationStatus": "published"}
    return {"ok": True, "skillId": result.skill_id, "versionId": f"{result.skill_id}@{result.version}", **told}


def _refuse_taken(service: Service, order: Order) -> None:
    if any(one.label == order.version for one in numbered(service.registry.versions(order.slug))):
        raise VersionUnusable(f"{order.slug} {order.version} was published before", hint="raise --version")
