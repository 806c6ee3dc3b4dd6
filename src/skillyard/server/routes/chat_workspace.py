"""The files of a conversation and its workspace: given and taken, listed with a preview, all as one archive; its state."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING, Annotated, Any, Final

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

from skillyard.errors import FileTooLarge
from skillyard.server.authorization import require_scope
from skillyard.server.organisation_services import CurrentServices
from skillyard.server.responses import READ_PROBLEMS, WRITE_PROBLEMS, bytes_response
from skillyard.server.routes.chat import OwnConversation
from skillyard.server.shapes import Answer
from skillyard.server.shapes.chat import ChatFile, FilePreviewShape, WorkspaceEntryShape, WorkspaceFiles, WorkspaceStateShape
from skillyard.server.uploads import read_body

if TYPE_CHECKING:
    from skillyard.conversations.work_folder import WorkFolder

routes: Final = APIRouter(
    prefix="/api/v1/chat/conversations/{conversation}",
    tags=["chat"],
    dependencies=[require_scope("runs:execute")],
)
_LARGEST_ARCHIVE: Final = 500 * 1024 * 1024
_PIECE: Final = 1 << 20
_FILE: Final[dict[int | str, dict[str, Any]]] = {
    200: {"description": "the bytes of the file", "content": {"application/octet-stream": {"schema": {"type": "string"}}}},
    206: {
        "description": "the part that was asked for",
        "content": {"application/octet-stream": {"schema": {"type": "string"}}},
    },
    304: {"description": "it has not changed"},
    416: {"description": "there is no such part"},
}
_ARCHIVE: Final[dict[int | str, dict[str, Any]]] = {
    200: {"description": "all files", "content": {"application/zip": {"schema": {"type": "string"}}}}
}
_Hidden = Annotated[bool, Query(description="also what begins with a dot, and folders such as node_modules")]


@routes.get("/files", responses=READ_PROBLEMS)
async def list_files(own: OwnConversation) -> Answer[list[ChatFile]]:
    """The files of a conversation, by name."""
    chat, chosen = own
    return Answer(data=[ChatFile.of(file) for file in await run_in_threadpool(chat.folder(chosen).list)])


@routes.put(
    "/files/{path:path}",
    status_code=201,
    responses=WRITE_PROBLEMS,
    openapi_extra={"requestBody": {"content": {"application/octet-stream": {"schema": {"type": "string"}}}, "required": True}},
)
async def put_file(own: OwnConversation, path: str, request: Request) -> Answer[ChatFile]:
    """Add a file to the conversation, replacing one of that name; at most 50 MiB."""
    from skillyard.conversations.work_folder import MAX_FILE_BYTES

    chat, chosen = own
    too_large = FileTooLarge(f"the file is over {MAX_FILE_BYTES} bytes", hint="give a smaller one")
    data = await read_body(request, MAX_FILE_BYTES, too_large)
    return Answer(data=ChatFile.of(await run_in_threadpool(chat.folder(chosen).put, path, data)))


@routes.get("/files/{path:path}", responses=READ_PROBLEMS | _FILE, response_class=Response)
async def get_file(own: OwnConversation, path: str, request: Request) -> Response:
    """The bytes of a file, or a part; text is plain text, nothing is shown as a page."""
    from skillyard.conversations.work_folder import MAX_FILE_BYTES

    chat, chosen = own
    folder = chat.folder(chosen)
    data = await run_in_threadpool(folder.read, path)
    if len(data) > MAX_FILE_BYTES:
        return await run_in_threadpool(_whole_file, folder, path)
    plain = await run_in_threadpool(folder.preview, path) is not None
    sent = bytes_response(request, data, "text/plain; charset=utf-8" if plain else "application/octet-stream")
    sent.headers["X-Content-Type-Options"] = "nosniff"
    return sent


@routes.delete("/files/{path:path}", status_code=204, responses=WRITE_PROBLEMS)
async def delete_file(own: OwnConversation, path: str) -> None:
    """Delete a file of the conversation, recorded or not, or a folder with all that is in it."""
    chat, chosen = own
    await run_in_threadpool(chat.folder(chosen).drop, path)


@routes.get("/workspace", responses=READ_PROBLEMS)
async def get_workspace(own: OwnConversation) -> Answer[WorkspaceStateShape]:
    """Whether the conversation has a workspace, and what goes on in its session."""
    chat, chosen = own
    return Answer(data=WorkspaceStateShape.of(await chat.workspace(chosen)))


@routes.get("/workspace/files", responses=READ_PROBLEMS)
async def list_workspace_files(
    own: OwnConversation, hidden: _Hidden = False, limit: Annotated[int, Query(ge=1, le=5000)] = 2000
) -> Answer[WorkspaceFiles]:
    """Everything that lies in the folder of the conversation, recorded or not, with the folders, by path."""
    chat, chosen = own
    return Answer(data=await run_in_threadpool(_listing, chat.folder(chosen), hidden, limit))


@routes.get("/workspace/preview/{path:path}", responses=READ_PROBLEMS)
async def preview_workspace_file(
    service: CurrentServices,
    own: OwnConversation,
    path: str,
    page: Annotated[int, Query(ge=1, le=1_000_000, description="of a PDF")] = 1,
    sheet: Annotated[int, Query(ge=0, le=1000, description="of a workbook, counted from 0")] = 0,
) -> Answer[FilePreviewShape]:
    """What a file looks like, as plain data: text, a picture, a page of a PDF as a picture, a sheet as rows of texts."""
    from skillyard.workspace import options_from_settings, preview_file

    chat, chosen = own
    options = options_from_settings(service.catalog.configuration.workspace)
    disk = await run_in_threadpool(lambda: chat.folder(chosen).brought())
    return Answer(data=FilePreviewShape.of(await preview_file(disk, path, page=page, sheet=sheet, options=options)))


@routes.get("/workspace/archive", responses=READ_PROBLEMS | _ARCHIVE, response_class=Response)
async def download_workspace(own: OwnConversation, hidden: _Hidden = False) -> Response:
    """All files as one ZIP archive, at most 500 MiB."""
    chat, chosen = own
    packed = await run_in_threadpool(lambda: chat.folder(chosen).brought().pack(limit=_LARGEST_ARCHIVE, hidden=hidden))
    headers = {"Content-Disposition": f'attachment; filename="{chosen.id}.zip"', "Cache-Control": "private, no-store"}
    return StreamingResponse(_pieces(packed), headers=headers, media_type="application/zip")


@routes.delete("/workspace/session", status_code=204, responses=WRITE_PROBLEMS)
async def end_session(own: OwnConversation) -> None:
    """End the session with all that runs in it; the files stay, and the next call of the model begins a fresh one."""
    chat, chosen = own
    await chat.end_session(chosen)


def _whole_file(folder: WorkFolder, path: str) -> Response:
    """A file that is too large to be held, piece by piece."""
    file = os.fdopen(folder.brought().open(path), "rb")
    size = os.fstat(file.fileno()).st_size

    def pieces() -> Iterator[bytes]:
        with file:
            left = size
            while left > 0 and (piece := file.read(min(_PIECE, left))):
                left -= len(piece)
                yield piece

    headers = {"Content-Length": str(size), "X-Content-Type-Options": "nosniff", "Cache-Control": "private, no-cache"}
    return StreamingResponse(pieces(), headers=headers, media_type="application/octet-stream")


def _listing(folder: WorkFolder, hidden: bool, limit: int) -> WorkspaceFiles:
    listing = folder.brought().listing(limit=limit, hidden=hidden)
    origins = {file.name: file.origin for file in folder.list()}
    entries = [
        WorkspaceEntryShape(
            path=entry.path, kind=entry.kind, size=entry.size, modified=entry.modified, media_type=entry.media_type,
            origin=origins.get(entry.path),
        )
        for entry in listing.entries
    ]  # fmt: skip
    return WorkspaceFiles(entries=entries, truncated=listing.truncated, size=listing.size)


def _pieces(file: IO[bytes]) -> Iterator[bytes]:
    with file:
        while piece := file.read(_PIECE):
            yield piece
