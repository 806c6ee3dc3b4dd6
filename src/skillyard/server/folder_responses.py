"""The files of a folder over HTTP: whole or in part, looked at, sent, all as one archive.

The files of conversations, of workspaces and of runs are served by these functions; each router says whose folder it is.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING, Annotated, Any, Final

from fastapi import Query, Request, Response
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

from skillyard.errors import FileTooLarge
from skillyard.server.responses import attachment, bytes_response
from skillyard.server.shapes.workspaces import FilePreviewShape
from skillyard.server.uploads import read_body
from skillyard.text import is_text

if TYPE_CHECKING:
    from skillyard.library import Catalog
    from skillyard.workspace import WorkspaceFolder

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


async def send_preview(catalog: Catalog, folder: WorkspaceFolder, path: str, page: int, sheet: int) -> FilePreviewShape:
    """What a file looks like; documents are read in a sandbox, as the catalog's configuration says.

    Raises:
        PathRefused, FileMissing: there is no such file.
    """
    from skillyard.workspace import options_from_settings, preview_file

    options = options_from_settings(catalog.configuration.workspace)
    return FilePreviewShape.of(await preview_file(folder, path, page=page, sheet=sheet, options=options))


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
