"""An uploaded archive: counted while it streams in, kept on the disk until it is installed, and gone after that."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fastapi import Request
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from skillyard.errors import ArchiveTooLarge, InvalidInput
from skillyard.packages import Limits
from skillyard.paths import slug

if TYPE_CHECKING:
    from starlette.types import Message

__all__ = ["FILES", "UPLOAD", "read_form", "uploaded"]

_FORM: Final = 64 * 1024  # what the form itself may take beside the files, in bytes
_PART: Final = 1024  # the same for each file: its name and its type
_HOW: Final = "send one archive as the field `file` of multipart/form-data"
_SUFFIXES: Final = (".zip", ".skill", ".tar.gz", ".tgz", ".tar")
UPLOAD: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
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


@contextlib.asynccontextmanager
async def uploaded(request: Request, limit: int = Limits().archive) -> AsyncIterator[Path]:
    """The one archive of a multipart request as a file, for as long as the block lasts.

    Raises:
        ArchiveTooLarge: more than `limit` bytes came, or are announced; the rest is not read.
        InvalidInput: there is not exactly one file, or its name is no archive's.
    """
    with tempfile.TemporaryDirectory(prefix="skillyard-upload-") as folder:
        async with read_form(request, limit) as form:
            files = [value for value in form.values() if isinstance(value, UploadFile)]
            if len(files) != 1:
                raise InvalidInput("there is no file", hint=_HOW)
            target = Path(folder) / _storage_name(files[0].filename or "")
            await run_in_threadpool(_write, files[0], target)
        if target.stat().st_size > limit:
            raise _too_large(limit)
        yield target


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
    with target.open("wb") as stream:
        shutil.copyfileobj(file.file, stream)


def _storage_name(name: str) -> str:
    """A name of ours for the file: a skill without a Latin name takes its id from it."""
    found = next((suffix for suffix in _SUFFIXES if name.lower().endswith(suffix)), None)
    if found is None:
        raise InvalidInput("the file is no archive by its name", hint=f"send one of {', '.join(_SUFFIXES)}")
    return slug(name[: -len(found)][-80:], "upload") + found


def _too_large(limit: int) -> ArchiveTooLarge:
    return ArchiveTooLarge(f"the upload is over {limit >> 20} MB", hint="leave out what the skill does not need", limit=limit)
