"""Files of runs over HTTP: uploads for a run to come, and what a run made, to look at and to take away."""

from __future__ import annotations

import mimetypes
import tempfile
from typing import Annotated, Final

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool

from skillyard.engine import RunFiles
from skillyard.execution import WorkFile
from skillyard.execution.work_files import LARGEST_FILE
from skillyard.server.authorization import CurrentCaller, require_scope
from skillyard.server.folder_responses import FILE_BODY, FOLDER_FILE, Page, Sheet, receive_file, send_bytes, send_preview
from skillyard.server.organisation_services import CurrentServices, OrganisationServices
from skillyard.server.responses import READ_PROBLEMS, WRITE_PROBLEMS
from skillyard.server.shapes import Answer
from skillyard.server.shapes.workspaces import FilePreviewShape

routes: Final = APIRouter(prefix="/api/v1/runs", tags=["runs"], dependencies=[require_scope("skills:read")])


class Upload(BaseModel):
    """A file that waits for a run: its `id` for `files` of the request, its name and size in bytes."""

    id: str
    name: str
    size: int


class MadeFile(BaseModel):
    """A file that a run made: its path in the work folder, its size in bytes and its media type, by its name."""

    name: str
    size: int
    media_type: str


def kept_files(service: OrganisationServices) -> RunFiles:
    """The files of the caller's organisation."""
    return RunFiles(lambda: service.catalog.records().database)


@routes.post(
    "/uploads",
    status_code=201,
    responses=WRITE_PROBLEMS,
    dependencies=[require_scope("runs:execute")],
    openapi_extra=FILE_BODY,
)
async def upload_file(
    service: CurrentServices,
    caller: CurrentCaller,
    request: Request,
    name: Annotated[str, Query(min_length=1, max_length=200, description="its path in the work folder")],
) -> Answer[Upload]:
    """Upload a file for a run to come, at most 20 MiB; it waits for a day, and nobody else can use it."""
    file = WorkFile(name, await receive_file(request, limit=LARGEST_FILE))
    upload = await run_in_threadpool(kept_files(service).upload, caller.name, file)
    return Answer(data=Upload(id=upload, name=file.name, size=len(file.data)))


@routes.get("/{run_id}/files", responses=READ_PROBLEMS)
def list_made_files(service: CurrentServices, run_id: str) -> Answer[list[MadeFile]]:
    """What a run made in its work folder, by name; it is kept for seven days."""
    record = service.catalog.records().journal.get(run_id)
    made = kept_files(service).made(record.id)
    return Answer(data=[MadeFile(name=file.name, size=file.size, media_type=_media_type(file.name)) for file in made])


@routes.get("/{run_id}/files/{path:path}", responses=READ_PROBLEMS | FOLDER_FILE, response_class=Response)
async def get_made_file(service: CurrentServices, run_id: str, path: str, request: Request) -> Response:
    """The bytes of a file that a run made, or a part; text is plain text, nothing is shown as a page."""
    record = await run_in_threadpool(lambda: service.catalog.records().journal.get(run_id))
    data = await run_in_threadpool(kept_files(service).read, record.id, path)
    return send_bytes(request, data)


@routes.get("/{run_id}/preview/{path:path}", responses=READ_PROBLEMS)
async def preview_made_file(
    service: CurrentServices,
    run_id: str,
    path: str,
    page: Page = 1,
    sheet: Sheet = 0,
) -> Answer[FilePreviewShape]:
    """What a file that a run made looks like, as plain data; documents are read in a sandbox of their own."""
    from skillyard.workspace import WorkspaceFolder

    record = await run_in_threadpool(lambda: service.catalog.records().journal.get(run_id))
    data = await run_in_threadpool(kept_files(service).read, record.id, path)
    with tempfile.TemporaryDirectory(prefix="skillyard-preview-") as folder:
        disk = WorkspaceFolder(folder)
        await run_in_threadpool(disk.put, path, data)
        return Answer(data=await send_preview(service.catalog, disk, path, page, sheet))


def _media_type(name: str) -> str:
    return mimetypes.guess_type(name)[0] or "application/octet-stream"
