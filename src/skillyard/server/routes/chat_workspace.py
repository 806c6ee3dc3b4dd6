"""The files of a conversation and its workspace: given and taken, listed with a preview, all as one archive; its state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

from fastapi import APIRouter, Query, Request, Response
from starlette.concurrency import run_in_threadpool

from skillyard.server.authorization import require_scope
from skillyard.server.folder_responses import (
    FILE_BODY,
    FOLDER_ARCHIVE,
    FOLDER_FILE,
    Hidden,
    Page,
    Sheet,
    receive_file,
    send_archive,
    send_file,
    send_preview,
)
from skillyard.server.organisation_services import CurrentServices
from skillyard.server.responses import READ_PROBLEMS, WRITE_PROBLEMS
from skillyard.server.routes.chat import OwnConversation
from skillyard.server.shapes import Answer
from skillyard.server.shapes.chat import ChatFile
from skillyard.server.shapes.workspaces import FilePreviewShape, WorkspaceEntryShape, WorkspaceFiles, WorkspaceStateShape

if TYPE_CHECKING:
    from skillyard.conversations.work_folder import WorkFolder
    from skillyard.workspace import WorkspaceFolder

routes: Final = APIRouter(
    prefix="/api/v1/chat/conversations/{conversation}",
    tags=["chat"],
    dependencies=[require_scope("runs:execute")],
)


@routes.get("/files", responses=READ_PROBLEMS)
async def list_files(own: OwnConversation) -> Answer[list[ChatFile]]:
    """The files of a conversation, by name."""
    chat, chosen = own
    return Answer(data=[ChatFile.of(file) for file in await run_in_threadpool(chat.folder(chosen).list)])


@routes.put(
    "/files/{path:path}",
    status_code=201,
    responses=WRITE_PROBLEMS,
    openapi_extra=FILE_BODY,
)
async def put_file(own: OwnConversation, path: str, request: Request) -> Answer[ChatFile]:
    """Add a file to the conversation, replacing one of that name; at most 50 MiB."""
    chat, chosen = own
    data = await receive_file(request)
    return Answer(data=ChatFile.of(await run_in_threadpool(chat.folder(chosen).put, path, data)))


@routes.get("/files/{path:path}", responses=READ_PROBLEMS | FOLDER_FILE, response_class=Response)
async def get_file(own: OwnConversation, path: str, request: Request) -> Response:
    """The bytes of a file, or a part; text is plain text, nothing is shown as a page."""
    return await send_file(request, await _folder(own), path)


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
    own: OwnConversation, hidden: Hidden = False, limit: Annotated[int, Query(ge=1, le=5000)] = 2000
) -> Answer[WorkspaceFiles]:
    """Everything that lies in the folder of the conversation, recorded or not, with the folders, by path."""
    chat, chosen = own
    return Answer(data=await run_in_threadpool(_listing, chat.folder(chosen), hidden, limit))


@routes.get("/workspace/preview/{path:path}", responses=READ_PROBLEMS)
async def preview_workspace_file(
    service: CurrentServices,
    own: OwnConversation,
    path: str,
    page: Page = 1,
    sheet: Sheet = 0,
) -> Answer[FilePreviewShape]:
    """What a file looks like, as plain data: text, a picture, a page of a PDF as a picture, a sheet as rows of texts."""
    return Answer(data=await send_preview(service.catalog, await _folder(own), path, page, sheet))


@routes.get("/workspace/archive", responses=READ_PROBLEMS | FOLDER_ARCHIVE, response_class=Response)
async def download_workspace(own: OwnConversation, hidden: Hidden = False) -> Response:
    """All files as one ZIP archive, at most 500 MiB."""
    return await send_archive(await _folder(own), own[1].id, hidden=hidden)


@routes.delete("/workspace/session", status_code=204, responses=WRITE_PROBLEMS)
async def end_session(own: OwnConversation) -> None:
    """End the session with all that runs in it; the files stay, and the next call of the model begins a fresh one."""
    chat, chosen = own
    await chat.end_session(chosen)


async def _folder(own: OwnConversation) -> WorkspaceFolder:
    """What lies in the folder of a conversation, after what was saved elsewhere was brought."""
    chat, chosen = own
    return await run_in_threadpool(lambda: chat.folder(chosen).brought())


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
