"""The workspace of a conversation: its state, every file on its disk with a preview, all of them as one archive."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, TYPE_CHECKING, Annotated, Any, Final

from fastapi import APIRouter, Query, Response
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

from skillyard.server.authorization import require_scope
from skillyard.server.organisation_services import CurrentServices
from skillyard.server.problems import READ_PROBLEMS, WRITE_PROBLEMS
from skillyard.server.routes.chat import OwnConversation
from skillyard.server.shapes import Answer
from skillyard.server.shapes.chat import FilePreviewShape, WorkspaceEntryShape, WorkspaceFiles, WorkspaceStateShape

if TYPE_CHECKING:
    from skillyard.conversations.work_folder import WorkFolder

routes: Final = APIRouter(
    prefix="/api/v1/chat/conversations/{conversation}/workspace",
    tags=["chat"],
    dependencies=[require_scope("runs:execute")],
)
_LARGEST_ARCHIVE: Final = 500 * 1024 * 1024
_PIECE: Final = 1 << 20
_ARCHIVE: Final[dict[int | str, dict[str, Any]]] = {
    200: {"description": "all files", "content": {"application/zip": {"schema": {"type": "string"}}}}
}
_Hidden = Annotated[bool, Query(description="also what begins with a dot, and folders such as node_modules")]


@routes.get("", responses=READ_PROBLEMS)
async def get_workspace(own: OwnConversation) -> Answer[WorkspaceStateShape]:
    """Whether the conversation has a workspace, and what goes on in its session."""
    chat, chosen = own
    return Answer(data=WorkspaceStateShape.of(await chat.workspace(chosen)))


@routes.get("/files", responses=READ_PROBLEMS)
async def list_workspace_files(
    own: OwnConversation, hidden: _Hidden = False, limit: Annotated[int, Query(ge=1, le=5000)] = 2000
) -> Answer[WorkspaceFiles]:
    """Everything that lies in the folder of the conversation, recorded or not, with the folders, by path."""
    chat, chosen = own
    return Answer(data=await run_in_threadpool(_listing, chat.folder(chosen), hidden, limit))


@routes.get("/preview/{path:path}", responses=READ_PROBLEMS)
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
    disk = await run_in_threadpool(lambda: chat.folder(chosen).disk)
    return Answer(data=FilePreviewShape.of(await preview_file(disk, path, page=page, sheet=sheet, options=options)))


@routes.get("/archive", responses=READ_PROBLEMS | _ARCHIVE, response_class=Response)
async def download_workspace(own: OwnConversation, hidden: _Hidden = False) -> Response:
    """All files as one ZIP archive, at most 500 MiB."""
    chat, chosen = own
    packed = await run_in_threadpool(lambda: chat.folder(chosen).disk.pack(limit=_LARGEST_ARCHIVE, hidden=hidden))
    headers = {"Content-Disposition": f'attachment; filename="{chosen.id}.zip"', "Cache-Control": "private, no-store"}
    return StreamingResponse(_pieces(packed), headers=headers, media_type="application/zip")


@routes.delete("/session", status_code=204, responses=WRITE_PROBLEMS)
async def end_session(own: OwnConversation) -> None:
    """End the session with all that runs in it; the files stay, and the next call of the model begins a fresh one."""
    chat, chosen = own
    await chat.end_session(chosen)


def _listing(folder: WorkFolder, hidden: bool, limit: int) -> WorkspaceFiles:
    listing = folder.disk.listing(limit=limit, hidden=hidden)
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
