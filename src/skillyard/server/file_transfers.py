"""Files over HTTP: those of a folder, whole or in part, looked at, sent, all as one archive; and an uploaded archive of skills.

The files of conversations, of workspaces and of runs are served by these functions; each router says whose folder it is. An
uploaded archive is counted while it streams in and deleted after its install. It lies in the folder of an operation that holds
a lock as long as its process lives, so that what a killed server leaves is deleted at the next start.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, Final

from fastapi import Query, Request, Response
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from skillyard.errors import ArchiveRefused, ArchiveTooLarge, FileTooLarge, InvalidInput, SkillyardError
from skillyard.packages import PackageLimits
from skillyard.packages.archive_entries import safe_name
from skillyard.paths import slug
from skillyard.registry import PowerChange, SourceReplacement
from skillyard.server.responses import attachment, bytes_response
from skillyard.text import is_text, limit_words

if TYPE_CHECKING:
    from starlette.types import Message

    from skillyard.library import Catalog
    from skillyard.registry import Registry
    from skillyard.workspace import FilePreview, WorkspaceFolder

LARGEST_FILE: Final = 50 * 1024 * 1024
"""The bytes of a file that can be put into a folder, and of one that is sent in parts; a larger one is sent whole."""
_LARGEST_ARCHIVE: Final = 500 * 1024 * 1024
_PIECE: Final = 1 << 20
_UNGUESSED: Final = {"X-Content-Type-Options": "nosniff"}
_BYTES: Final = {"application/octet-stream": {"schema": {"type": "string"}}}
FOLDER_FILE: Final[dict[int | str, dict[str, Any]]] = {
    200: {"description": "the bytes of the file", "content": _BYTES},
    206: {"description": "the part that was asked for", "content": _BYTES},
    304: {"description": "it has not changed"},
    416: {"description": "there is no such part"},
}
"""The OpenAPI description of `send_file`."""
FOLDER_ARCHIVE: Final[dict[int | str, dict[str, Any]]] = {
    200: {"description": "all files", "content": {"application/zip": {"schema": {"type": "string"}}}}
}
"""The OpenAPI description of `send_archive`."""
FILE_BODY: Final[dict[str, Any]] = {"requestBody": {"content": _BYTES, "required": True}}
"""The OpenAPI description of a request whose body is a file."""
Hidden = Annotated[bool, Query(description="also what begins with a dot, and folders such as node_modules")]
Page = Annotated[int, Query(ge=1, le=1_000_000, description="of a PDF")]
Sheet = Annotated[int, Query(ge=0, le=1000, description="of a workbook, counted from 0")]


async def send_file(request: Request, folder: WorkspaceFolder, path: str) -> Response:
    """The bytes of a file, or the part that is asked for; one over 50 MiB whole, piece by piece.

    Raises:
        PathRefused, FileMissing: there is no such file.
    """
    try:
        data = await run_in_threadpool(lambda: folder.read(path, limit=LARGEST_FILE))
    except FileTooLarge:
        file = os.fdopen(await run_in_threadpool(folder.open, path), "rb")
        size = os.fstat(file.fileno()).st_size
        headers = {"Content-Length": str(size), "Cache-Control": "private, no-cache"} | _UNGUESSED
        return StreamingResponse(_pieces(file, size), headers=headers, media_type="application/octet-stream")
    return send_bytes(request, data)


def send_bytes(request: Request, data: bytes) -> Response:
    """The bytes of a file that somebody has made: text is plain text, nothing is shown as a page."""
    sent = bytes_response(request, data, "text/plain; charset=utf-8" if is_text(data) else "application/octet-stream")
    sent.headers.update(_UNGUESSED)
    return sent


async def send_archive(folder: WorkspaceFolder, name: str, *, hidden: bool) -> Response:
    """All files of a folder as a ZIP archive of that name.

    Raises:
        FileTooLarge: they have over 500 MiB together.
        DiskFull: there is no room for the archive.
    """
    packed = await run_in_threadpool(lambda: folder.pack(limit=_LARGEST_ARCHIVE, hidden=hidden))
    headers = attachment(f"{name}.zip") | {"Cache-Control": "private, no-store"}
    return StreamingResponse(_pieces(packed), headers=headers, media_type="application/zip")


async def send_preview(catalog: Catalog, folder: WorkspaceFolder, path: str, page: int, sheet: int) -> FilePreview:
    """What a file looks like; documents are read in a sandbox, as the catalog's configuration says.

    Raises:
        PathRefused, FileMissing: there is no such file.
    """
    from skillyard.workspace import options_from_settings, preview_file

    options = options_from_settings(catalog.configuration.workspace, home=catalog.data_directory)
    return await preview_file(folder, path, page=page, sheet=sheet, options=options)


async def receive_file(request: Request, *, limit: int = LARGEST_FILE, hint: str = "give a smaller one") -> bytes:
    """The bytes that a request brings.

    Raises:
        FileTooLarge: they are over `limit`; `hint` says what to do then.
    """
    return await read_body(request, limit, FileTooLarge(f"the file is over {limit} bytes", hint=hint))


def _pieces(file: IO[bytes], size: int | None = None) -> Iterator[bytes]:
    """What a file holds, at most `size` bytes of it: it may grow while it is sent."""
    left = size
    with file:
        while piece := file.read(_PIECE if left is None else min(_PIECE, left)):
            yield piece
            left = None if left is None else left - len(piece)


_FORM: Final = 64 * 1024  # what the form itself may take beside the files, in bytes
_PART: Final = 1024  # the same for each file: its name and its type
_HOW: Final = "send one archive as the field `file` of multipart/form-data"
_SUFFIXES: Final = (".zip", ".skill", ".tar.gz", ".tgz", ".tar")
_NAME: Final = 120  # characters of a name that is kept
_MULTIPART: Final = "multipart/form-data"
UPLOAD: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "content": {
            _MULTIPART: {
                "schema": {
                    "type": "object",
                    "required": ["file"],
                    "properties": {"file": {"type": "string", "format": "binary", "description": "a .zip or .tar.gz"}},
                }
            }
        },
    }
}

FILES: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["files"],
                    "properties": {"files": {"type": "array", "items": {"type": "string", "format": "binary"}}},
                }
            }
        },
    }
}


def is_upload(request: Request) -> bool:
    """Whether the request brings a form with a file, and no JSON."""
    return request.headers.get("content-type", "").lower().startswith(_MULTIPART)


async def body_pieces(request: Request, most: int, too_large: SkillyardError) -> AsyncIterator[bytes]:
    """The body of a request as it comes in; `too_large` is raised when it is over `most` bytes."""
    received = 0
    async for piece in request.stream():
        received += len(piece)
        if received > most:
            raise too_large
        yield piece


async def read_body(request: Request, most: int, too_large: SkillyardError) -> bytes:
    """The whole body of a request; `too_large` is raised when it is over `most` bytes."""
    return b"".join([piece async for piece in body_pieces(request, most, too_large)])


@contextlib.asynccontextmanager
async def uploaded(request: Request, registry: Registry, limit: int = PackageLimits().archive) -> AsyncIterator[Path]:
    """The one archive of a multipart request as a file, under its own name, for as long as the block lasts.

    Raises:
        ArchiveTooLarge: more than `limit` bytes came, or are announced; the rest is not read.
        InvalidInput: there is not exactly one file, or its name is no archive's.
    """
    async with scratch(registry) as folder:
        async with read_form(request, limit) as form:
            files = [value for value in form.values() if isinstance(value, UploadFile)]
            if len(files) != 1:
                raise InvalidInput("there is no file", hint=_HOW)
            target = folder / _storage_name(files[0].filename or "")
            await run_in_threadpool(_write, files[0], target)
        if target.stat().st_size > limit:
            raise _too_large(limit)
        yield target


@contextlib.asynccontextmanager
async def scratch(registry: Registry) -> AsyncIterator[Path]:
    """A folder for an upload, deleted after the block; that of a killed server is deleted by the next one."""
    with contextlib.ExitStack() as held:
        operation = await run_in_threadpool(held.enter_context, registry.storage.operations.begin())
        operation.settled = True  # it opens no log: what is left is only to be deleted
        yield operation.folder


@contextlib.asynccontextmanager
async def read_form(request: Request, limit: int, *, files: int = 1, fields: int = 8) -> AsyncIterator[FormData]:
    """A multipart form of at most so many files and other fields, whose files are together not over `limit` bytes.

    Raises:
        ArchiveTooLarge: more came, or is announced; the rest is not read.
        InvalidInput: it is no such form.
    """
    most = limit + _FORM + _PART * (files - 1)
    announced = request.headers.get("content-length", "0")
    if announced.isdecimal() and int(announced) > most:
        raise _too_large(limit)
    try:
        form = await Request(request.scope, _counted(request, limit, most)).form(max_files=files, max_fields=fields)
    except HTTPException as error:
        raise InvalidInput(str(error.detail), hint=_HOW) from None
    except ClientDisconnect:
        raise InvalidInput("the upload broke off", hint="send it again") from None
    try:
        yield form
    finally:
        await form.close()


def _counted(request: Request, limit: int, most: int) -> Any:
    taken = 0

    async def receive() -> Message:
        nonlocal taken
        message = await request.receive()
        taken += len(message.get("body", b""))
        if taken > most:
            raise _too_large(limit)
        return message

    return receive


def _write(file: UploadFile, target: Path) -> None:
    file.file.seek(0)
    with target.open("xb") as stream:
        shutil.copyfileobj(file.file, stream)


def _storage_name(name: str) -> str:
    """The name it is kept and remembered under: its own where that is safe on every machine, else one of ours."""
    suffix = next((suffix for suffix in _SUFFIXES if name.lower().endswith(suffix)), None)
    if suffix is None:
        raise InvalidInput("the name of the file is not that of an archive", hint=f"send one of {', '.join(_SUFFIXES)}")
    if "/" not in name and len(name) <= _NAME and len(name) > len(suffix):
        with contextlib.suppress(ArchiveRefused):
            return safe_name(name, PackageLimits())
    return slug(name[: -len(suffix)][-80:], "upload") + suffix


def _too_large(limit: int) -> ArchiveTooLarge:
    return ArchiveTooLarge(
        f"the upload is over {limit_words(limit)}", hint="leave out what the skill does not need", limit=limit
    )


class SentConsent:
    """Consent over two requests: the first is refused, or only looked, and names each change; the second names the same."""

    def __init__(self, given: str | None) -> None:
        self._given = frozenset((given or "").split(","))

    def __call__(self, changes: Sequence[PowerChange] | Sequence[SourceReplacement]) -> bool:
        """Whether exactly these changes were agreed to."""
        return self._given.issuperset(change.consent for change in changes)
