"""Files of runs over HTTP: uploads for a run to come, and what a run made, to look at and to take away."""

from __future__ import annotations

import mimetypes
import tempfile
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool

from skillyard.engine import RunFiles
from skillyard.errors import FileTooLarge
from skillyard.execution import WorkFile
from skillyard.execution.work_files import LARGEST_FILE
from skillyard.server.authorization import CurrentCaller, require_scope
from skillyard.server.organisation_services import CurrentServices, OrganisationServices
from skillyard.server.responses import READ_PROBLEMS, WRITE_PROBLEMS, bytes_response
from skillyard.server.shapes import Answer
from skillyard.server.shapes.chat import FilePreviewShape
from skillyard.server.uploads import read_body

routes: Final = APIRouter(prefix="/api/v1/runs", tags=["runs"], dependencies=[require_scope("skills:read")])

_BYTES: Final = {"application/octet-stream": {"schema": {"type": "string"}}}
_FILE: Final[dict[int | str, dict[str, Any]]] = {
    200: {"description": "the bytes of the file", "content": _BYTES},
    206: {"description": "the part that was asked for", "content": _BYTES},
    304: {"description": "it has not changed"},
    416: {"description": "there is no such part"},
}


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
    openapi_extra={"requestBody": {"content": _BYTES, "required": True}},
)
async def upload_file(
    service: CurrentServices,
    caller: CurrentCaller,
    request: Request,
    name: Annotated[str, Query(min_length=1, max_length=200, description="its path in the work folder")],
) -> Answer[Upload]:
    """Upload a file for a run to come, at most 20 MiB; it waits for a day, and nobody else can use it."""
    too_large = FileTooLarge(f"the file is over {LARGEST_FILE} bytes", hint="give a smaller one")
    file = WorkFile(name, await read_body(request, LARGEST_FILE, too_large))
    upload = await run_in_threadpool(kept_files(service).upload, caller.name, file)
    return Answer(data=Upload(id=upload, name=file.name, size=len(file.data)))


@routes.get("/{run_id}/files", responses=READ_PROBLEMS)
def list_made_files(service: CurrentServices, run_id: str) -> Answer[list[MadeFile]]:
    """What a run made in its work folder, by name; it is kept for seven days."""
    record = service.catalog.records().journal.get(run_id)
    made = kept_files(service).made(record.id)
    return Answer(data=[MadeFile(name=file.name, size=file.size, media_type=_media_type(file.name)) for file in made])


@routes.get("/{run_id}/files/{path:path}", responses=READ_PROBLEMS | _FILE, response_class=Response)
async def get_made_file(service: CurrentServices, run_id: str, path: str, request: Request) -> Response:
    """The bytes of a file that a run made, or a part; text is plain text, nothing is shown as a page."""
    record = await run_in_threadpool(lambda: service.catalog.records().journal.get(run_id))
    data = await run_in_threadpool(kept_files(service).read, record.id, path)
    plain = b"\0" not in data[:80_000] and _is_text(data[:80_000])
    sent = bytes_response(request, data, "text/plain; charset=utf-8" if plain else "application/octet-stream")
    sent.headers["X-Content-Type-Options"] = "nosniff"
    return sent


@routes.get("/{run_id}/preview/{path:path}", responses=READ_PROBLEMS)
async def preview_made_file(
    service: CurrentServices,
    run_id: str,
    path: str,
    page: Annotated[int, Query(ge=1, le=1_000_000, description="of a PDF")] = 1,
    sheet: Annotated[int, Query(ge=0, le=1000, description="of a workbook, counted from 0")] = 0,
) -> Answer[FilePreviewShape]:
    """What a file that a run made looks like, as plain data; documents are read in a sandbox of their own."""
    from skillyard.workspace import WorkspaceFolder, options_from_settings, preview_file

    record = await run_in_threadpool(lambda: service.catalog.records().journal.get(run_id))
    data = await run_in_threadpool(kept_files(service).read, record.id, path)
    options = options_from_settings(service.catalog.configuration.workspace)
    with tempfile.TemporaryDirectory(prefix="skillyard-preview-") as folder:
        disk = WorkspaceFolder(folder)
        await run_in_threadpool(disk.put, path, data)
        return Answer(data=FilePreviewShape.of(await preview_file(disk, path, page=page, sheet=sheet, options=options)))


def _is_text(beginning: bytes) -> bool:
    text = beginning.decode("utf-8", "replace")
    return text.count("\ufffd") <= max(1, len(text) // 100)


def _media_type(name: str) -> str:
    return mimetypes.guess_type(name)[0] or "application/octet-stream"
