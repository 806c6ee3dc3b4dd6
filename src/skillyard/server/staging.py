"""Files that were sent before the request that is about them: kept for an hour, then gone, and never too many."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Final

from fastapi import Request
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect

from skillyard.errors import ArchiveTooLarge, DigestMismatch, FileMissing, InvalidInput
from skillyard.packages import Limits
from skillyard.server.service import Service

__all__ = ["TICKET", "new_ticket", "staged", "take_in"]

TICKET: Final = "^[0-9a-f]{32}$"
_KEPT_S: Final = 3600
_MOST: Final = 4 * Limits().archive


def new_ticket() -> str:
    """The name under which one file may be sent; nobody can guess it."""
    return secrets.token_hex(16)


async def take_in(service: Service, request: Request, ticket: str) -> None:
    """Keep the body of a request as the file of a ticket.

    Raises:
        ArchiveTooLarge: it is over the size of one file, or too much waits already.
        InvalidInput: it broke off.
    """
    folder = _folder(service)
    await run_in_threadpool(_sweep, folder)
    part = folder / f"{ticket}-{secrets.token_hex(4)}.part"
    try:
        with part.open("xb") as file:
            async for piece in _counted(request):
                await run_in_threadpool(file.write, piece)
        part.replace(folder / ticket)
    except ClientDisconnect:
        raise InvalidInput("the upload broke off", hint="send it again") from None
    finally:
        part.unlink(missing_ok=True)


async def _counted(request: Request) -> AsyncIterator[bytes]:
    taken, limit = 0, Limits().file
    async for piece in request.stream():
        taken += len(piece)
        if taken > limit:
            raise ArchiveTooLarge(f"the file is over {limit >> 20} MB", hint="keep large data out of the skill", limit=limit)
        yield piece


@contextlib.contextmanager
def staged(service: Service, wanted: dict[str, tuple[str, str]]) -> Iterator[dict[str, Path]]:
    """The files of some tickets, by the path each is to have; they are gone after the block, whatever became of it.

    `wanted` has ticket and SHA-256 by path.

    Raises:
        FileMissing: one was not sent, or too long ago.
        DigestMismatch: one is not what it is said to be.
    """
    folder = _folder(service)
    files = {path: folder / ticket for path, (ticket, _) in wanted.items()}
    try:
        for path, (_, sha256) in wanted.items():
            _check(path, files[path], sha256)
        yield files
    finally:
        for file in files.values():
            file.unlink(missing_ok=True)


def _check(path: str, file: Path, sha256: str) -> None:
    try:
        with file.open("rb") as stream:
            found = hashlib.file_digest(stream, "sha256").hexdigest()
    except FileNotFoundError:
        raise FileMissing(f"{path!r} was not uploaded, or over an hour ago", hint="publish again") from None
    if found != sha256.lower():
        raise DigestMismatch(f"{path!r} is not what was announced", hint="publish again", expected=sha256, found=found)


def _folder(service: Service) -> Path:
    folder = Path(service.catalog.data_directory, "cache/uploads")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def _sweep(folder: Path) -> None:
    """Delete what nobody came back for, and refuse more when much waits."""
    size = 0
    oldest = time.time() - _KEPT_S
    with os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(FileNotFoundError):
                found = entry.stat(follow_symlinks=False)
                size += found.st_size
                if found.st_mtime < oldest:
                    Path(entry.path).unlink()
    if size > _MOST:
        raise ArchiveTooLarge("too many files wait to be published", hint="publish them, or try again in an hour", limit=_MOST)
