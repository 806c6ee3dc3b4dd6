"""What ClawHub's client changes: `clawhub publish`, `delete` and `undelete`.

The client uploads each file under a ticket, where it is kept for an hour, and then says what they are; older ones send one
form. Either way it is one installation, with all its rules.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Final

from fastapi import APIRouter, Request
from fastapi import Path as InPath
from pydantic import BaseModel, Field, ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect

from skillyard.errors import ArchiveTooLarge, DigestMismatch, FileMissing, InvalidInput, VersionNotFound, VersionUnusable
from skillyard.packages import PackageLimits
from skillyard.paths import slug as slug_of
from skillyard.registry import LATEST, check_tag
from skillyard.server.authorization import CurrentCaller, require_scope
from skillyard.server.clients.clawhub_skills import SlugPath, owned_skill, version_of_label
from skillyard.server.clients.published_skills import is_semantic, number_versions
from skillyard.server.clients.skill_uploads import IncomingSkill, files_of, inspect_archive, install_skill, write_archive
from skillyard.server.file_transfers import body_pieces, is_upload, read_body, read_form, scratch
from skillyard.server.middleware.error_formats import CLAWHUB
from skillyard.server.organisation_services import CurrentServices, OrganisationServices

TICKET: Final = "^[0-9a-f]{32}$"
_KEPT_S: Final = 3600
_MOST: Final = 4 * PackageLimits().archive


def new_ticket() -> str:
    """The name under which one file may be sent; nobody can guess it."""
    return secrets.token_hex(16)


async def keep_upload(service: OrganisationServices, request: Request, ticket: str) -> None:
    """Keep the body of a request as the file of a ticket.

    Raises:
        ArchiveTooLarge: it is over the size of one file, or too much waits already.
        InvalidInput: it broke off.
    """
    folder, limit = _folder(service), PackageLimits().file
    too_large = ArchiveTooLarge(f"the file is over {limit >> 20} MB", hint="keep large data out of the skill", limit=limit)
    await run_in_threadpool(_delete_expired, folder)
    part = folder / f"{ticket}-{secrets.token_hex(4)}.part"
    try:
        with part.open("xb") as file:
            async for piece in body_pieces(request, limit, too_large):
                await run_in_threadpool(file.write, piece)
        part.replace(folder / ticket)
    except ClientDisconnect:
        raise InvalidInput("the upload broke off", hint="send it again") from None
    finally:
        part.unlink(missing_ok=True)


@contextlib.contextmanager
def staged_files(service: OrganisationServices, tickets: dict[str, tuple[str, str]]) -> Iterator[dict[str, Path]]:
    """The files of some tickets, by the path each is to have; they are deleted after the block in any case.

    `tickets` has ticket and SHA-256 by path.

    Raises:
        FileMissing: one was not sent, or too long ago.
        DigestMismatch: one does not match its announced digest.
    """
    folder = _folder(service)
    files = {path: folder / ticket for path, (ticket, _) in tickets.items()}
    try:
        for path, (_, sha256) in tickets.items():
            _check(path, files[path], sha256)
        yield files
    finally:
        for file in files.values():
            file.unlink(missing_ok=True)


def _check(path: str, file: Path, sha256: str) -> None:
    try:
        with file.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
    except FileNotFoundError:
        raise FileMissing(f"{path!r} was not uploaded, or over an hour ago", hint="publish again") from None
    if digest != sha256.lower():
        raise DigestMismatch(f"{path!r} is not what was announced", hint="publish again", expected=sha256, found=digest)


def _folder(service: OrganisationServices) -> Path:
    folder = Path(service.catalog.data_directory, "cache/uploads")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def _delete_expired(folder: Path) -> None:
    """Delete expired uploads, and refuse more when too many are pending."""
    size = 0
    oldest = time.time() - _KEPT_S
    with os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(FileNotFoundError):
                status = entry.stat(follow_symlinks=False)
                size += status.st_size
                if status.st_mtime < oldest:
                    Path(entry.path).unlink()
    if size > _MOST:
        raise ArchiveTooLarge("too many files wait to be published", hint="publish them, or try again in an hour", limit=_MOST)


routes: Final = APIRouter(
    prefix="/api/v1/skills", tags=["clients: ClawHub"], dependencies=[require_scope("skills:write")], responses=CLAWHUB
)

_Label = Annotated[str, InPath(max_length=100)]
_CONSENT: Final = "consent:"
_LARGEST_REQUEST: Final = 4 * 1024 * 1024


class FileAnnouncement(BaseModel):
    """A file that is about to be sent."""

    path: str = Field(max_length=1024)
    size: int = Field(ge=0)
    sha256: str = Field(max_length=64)


class SentFile(FileAnnouncement):
    """A file that was sent."""

    storageId: str = Field(pattern=TICKET)  # noqa: N815


class PublishRequest(BaseModel):
    """What is published; the fields that are about accounts and licences of a public hub are ignored."""

    slug: str = Field(max_length=200)
    version: str = Field(max_length=100)
    changelog: str = Field(default="", max_length=100_000)
    ownerHandle: str | None = Field(default=None, max_length=200)  # noqa: N815
    tags: list[str] = Field(default=[], max_length=100)
    files: list[SentFile] = Field(default=[], max_length=PackageLimits().entries)


class OwnerReference(BaseModel):
    """Whose skill is meant."""

    ownerHandle: str | None = Field(default=None, max_length=200)  # noqa: N815


_PUBLISH_BODY: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {"schema": PublishRequest.model_json_schema(ref_template="#/components/schemas/{model}")}
        },
    }
}
_FILE_BODY: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}


@routes.post("/-/upload-url")
def upload_url(request: Request, body: FileAnnouncement) -> dict[str, Any]:
    """The address for the upload of one file of a skill."""
    if body.size > PackageLimits().file:
        raise ArchiveTooLarge(f"{body.path!r} is over {PackageLimits().file >> 20} MB", hint="keep large data out of the skill")
    ticket = new_ticket()
    return {"uploadUrl": str(request.url_for("upload", ticket=ticket)), "uploadTicket": ticket}


@routes.post("/-/uploads/{ticket}", openapi_extra=_FILE_BODY)
async def upload(service: CurrentServices, request: Request, ticket: Annotated[str, InPath(pattern=TICKET)]) -> dict[str, Any]:
    """Store one file until it is published."""
    await keep_upload(service, request, ticket)
    return {"storageId": ticket}


@routes.post("", openapi_extra=_PUBLISH_BODY)
async def publish_skill(service: CurrentServices, caller: CurrentCaller, request: Request) -> dict[str, Any]:
    """Install a skill, or another version of one, from files that were sent."""
    async with scratch(service.registry) as folder:
        archive = folder / "upload.zip"
        if is_upload(request):
            sent = await _from_form(request, archive)
        else:
            sent = await _from_json(service, request, archive)
        return await run_in_threadpool(_publish, service, caller, sent, archive)


@routes.delete("/{slug}")
def delete(
    service: CurrentServices, caller: CurrentCaller, slug: SlugPath, body: OwnerReference | None = None
) -> dict[str, Any]:
    """Uninstall a skill; `undelete` brings it back."""
    skill = owned_skill(service, caller, slug, _handle(body))
    service.registry.uninstall(skill.skill_id, dependencies=False)
    service.refresh()
    return {"ok": True}


@routes.post("/{slug}/undelete")
def undelete(
    service: CurrentServices, caller: CurrentCaller, slug: SlugPath, body: OwnerReference | None = None
) -> dict[str, Any]:
    """Make the newest version of an uninstalled skill current again."""
    skill = owned_skill(service, caller, slug, _handle(body), installed=False)
    if skill.active:
        raise VersionUnusable(f"{skill.skill_id} is not deleted", hint="there is nothing to do")
    service.registry.rollback(skill.skill_id, dependencies=False)
    service.refresh()
    return {"ok": True}


@routes.delete("/{slug}/versions/{version}")
def withdraw(
    service: CurrentServices, caller: CurrentCaller, slug: SlugPath, version: _Label, body: OwnerReference | None = None
) -> dict[str, Any]:
    """Yank a version, so that nobody can install it; `restore` reverts that."""
    skill = owned_skill(service, caller, slug, _handle(body))
    one = version_of_label(service, skill, version)
    if one.version.current:
        raise VersionUnusable(
            f"{skill.skill_id} {version} is the current version", hint="publish a later version first, or delete the skill"
        )
    service.registry.versions.yank(skill.skill_id, one.version.version, reason="deleted by its publisher")
    return {"ok": True}


@routes.post("/{slug}/versions/{version}/restore")
def restore(
    service: CurrentServices, caller: CurrentCaller, slug: SlugPath, version: _Label, body: OwnerReference | None = None
) -> dict[str, Any]:
    """Revert a yank."""
    skill = owned_skill(service, caller, slug, _handle(body))
    versions = [
        one
        for one in number_versions(service.registry.installed.versions(skill.skill_id))
        if one.label == version and one.version.yanked
    ]
    if not versions:
        raise VersionNotFound(f"{skill.skill_id} has no deleted version {version}", hint="check its number")
    service.registry.versions.yank(skill.skill_id, versions[0].version.version, undo=True)
    return {"ok": True}


def _handle(body: OwnerReference | None) -> str | None:
    return body.ownerHandle if body else None


async def _from_json(service: OrganisationServices, request: Request, archive: Path) -> PublishRequest:
    """The fields of the body; its files go into the archive."""
    too_large = ArchiveTooLarge("the request is too long", hint="publish fewer files", limit=_LARGEST_REQUEST)
    sent = _read(await read_body(request, _LARGEST_REQUEST, too_large))
    await run_in_threadpool(_gather_staged, service, sent, archive)
    return sent


def _gather_staged(service: OrganisationServices, sent: PublishRequest, archive: Path) -> None:
    tickets = {file.path: (file.storageId, file.sha256) for file in sent.files}
    if len(tickets) < len(sent.files):
        raise InvalidInput("two files have the same path", hint="send each file once")
    with staged_files(service, tickets) as files, contextlib.ExitStack() as opened:
        _gather_files(sent, ((path, opened.enter_context(file.open("rb"))) for path, file in files.items()), archive)


async def _from_form(request: Request, archive: Path) -> PublishRequest:
    """The field `payload` of a form; its files go into the archive."""
    async with _form(request) as (payload, files):
        sent = _read(payload.encode())
        await run_in_threadpool(_gather_files, sent, files, archive)
        return sent


@contextlib.asynccontextmanager
async def _form(request: Request) -> AsyncIterator[tuple[str, list[tuple[str, BinaryIO]]]]:
    async with read_form(request, PackageLimits().archive, files=PackageLimits().entries, fields=20) as form:
        payload = form.get("payload")
        if not isinstance(payload, str):
            raise InvalidInput("the form has no field payload", hint="update the client")
        yield payload, [(file.filename or "", file.file) for file in files_of(form)]


def _read(body: bytes) -> PublishRequest:
    try:
        return PublishRequest.model_validate(json.loads(body))
    except (ValueError, RecursionError) as error:
        first = error.errors()[0] if isinstance(error, ValidationError) else {"loc": (), "msg": "it is not JSON"}
        at = ".".join(str(part) for part in first["loc"])
        raise InvalidInput(f"the request cannot be understood: {at} {first['msg']}", hint="update the client") from None


def _gather_files(sent: PublishRequest, files: Iterable[tuple[str, BinaryIO]], archive: Path) -> None:
    """Put the files below a folder with the name of the skill."""
    if slug_of(sent.slug) != sent.slug:
        raise InvalidInput(
            f"{sent.slug!r} is not a valid slug", hint="lower-case letters, digits and hyphens, as in --slug my-skill"
        )
    write_archive(((f"{sent.slug}/{path}", file) for path, file in files), archive)


def _publish(service: OrganisationServices, caller: CurrentCaller, sent: PublishRequest, archive: Path) -> dict[str, Any]:
    if not is_semantic(sent.version):
        raise InvalidInput(f"{sent.version!r} is not a semantic version", hint="as in 1.4.0")
    existing = service.registry.records.read.skill(sent.slug)
    if existing is not None:
        owned_skill(service, caller, sent.slug, sent.ownerHandle, installed=False)
        _refuse_taken(service, sent)
    active = existing is not None and existing.active
    skill = inspect_archive(archive, archive.parent, one_folder=True)
    if skill.skill_id != sent.slug:
        raise InvalidInput(f"its SKILL.md calls it {skill.name!r}", hint=f"publish it with --slug {skill.skill_id}")
    tags = [tag for tag in sent.tags if tag != LATEST and not tag.startswith(_CONSENT)]
    for tag in tags:
        check_tag(tag)
    consent = next((tag.removeprefix(_CONSENT) for tag in sent.tags if tag.startswith(_CONSENT)), None)
    result = install_skill(
        service,
        IncomingSkill(archive, skill, {}),
        into=sent.slug if active else None,
        consent=consent,
        version=sent.version,
        notes=sent.changelog,
    )
    if result.status == "unchanged":
        raise VersionUnusable("exactly this is published already", hint="`clawhub inspect` shows as which version")
    for tag in tags:
        service.registry.tags.put(result.skill_id, tag, str(result.version))
    published = {"slug": sent.slug, "version": sent.version, "status": "published", "publicationStatus": "published"}
    return {"ok": True, "skillId": result.skill_id, "versionId": f"{result.skill_id}@{result.version}", **published}


def _refuse_taken(service: OrganisationServices, sent: PublishRequest) -> None:
    if any(one.label == sent.version for one in number_versions(service.registry.installed.versions(sent.slug))):
        raise VersionUnusable(f"{sent.slug} {sent.version} was published before", hint="raise --version")
