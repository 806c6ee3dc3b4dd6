"""Work folders over HTTP: workspaces that a caller works in with commands, code and files, and the files of runs.

A workspace has a sandboxed session of its own. Files of runs are uploads for a run to come, and what a run made, to look at and
to take away.
"""

from __future__ import annotations

import asyncio
import base64
import mimetypes
import os
import tempfile
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from fastapi import APIRouter, Depends, Header, Query, Request, Response
from pydantic import BaseModel, Field
from sse_starlette import ServerSentEvent
from starlette.concurrency import run_in_threadpool

from skillyard.access import set_audit_subject
from skillyard.engine import RunFiles
from skillyard.errors import FileMissing, RecordNotFound
from skillyard.execution import WorkFile
from skillyard.execution.run_inputs import LARGEST_FILE
from skillyard.permissions import WorkspaceToolName, tool_kind
from skillyard.server.authorization import CurrentCaller, require_scope
from skillyard.server.file_transfers import (
    FILE_BODY,
    FOLDER_ARCHIVE,
    FOLDER_FILE,
    Hidden,
    Page,
    Sheet,
    receive_file,
    send_archive,
    send_bytes,
    send_file,
    send_preview,
)
from skillyard.server.organisation_services import CurrentServices, OrganisationServices
from skillyard.server.responses import READ_PROBLEMS, WRITE_PROBLEMS, EventStream, stream_responses
from skillyard.server.shapes import Answer, RequestBody, ResponseShape
from skillyard.wire import WireForm, wire
from skillyard.workspace import BackgroundProcess, FilePreview, WorkspaceFile, WorkspaceRecord

if TYPE_CHECKING:
    from skillyard.server.background.caller_sessions import BegunCall
    from skillyard.workspace import WorkspaceAnswer


class NewWorkspace(RequestBody):
    """A workspace to create, under an `id` of the caller's choice or, without one, a new one."""

    id: str | None = Field(default=None, min_length=1, max_length=128)


@dataclass(frozen=True, slots=True)
class WorkspaceDetail(WireForm):
    """One workspace with its session: whether one is open, its folder as commands see it, and its background processes."""

    record: WorkspaceRecord = field(metadata=wire(inline=True))
    open: bool
    working_folder: str | None
    processes: tuple[BackgroundProcess, ...]


class WorkspaceCall(RequestBody):
    """A tool to call, with the arguments of its schema: `bash` with a `command`, `file_read` with a `file_path`."""

    tool: WorkspaceToolName
    arguments: dict[str, Any] = Field(default={})


class WorkspacePicture(ResponseShape):
    """A picture that a tool gives: its media type, and its bytes as base64."""

    media_type: str
    data: str


class WorkspaceCallAnswer(ResponseShape):
    """What a tool answers: `text` is for a model, `data` the same for programs.

    When it was not done `ok` is false and `code` says why. `exit_code` and `signal` are a command's; `fresh` says that an
    earlier shell of the workspace is gone; `output_file` is the path of the whole output where `text` is cut; `process` is the
    id of a background process.
    """

    tool: str
    text: str
    ok: bool
    code: str | None
    exit_code: int | None
    signal: int | None
    duration_ms: int
    fresh: bool
    output_file: str | None
    process: str | None
    data: dict[str, Any]
    images: list[WorkspacePicture]

    @classmethod
    def made_of(cls, answer: WorkspaceAnswer) -> WorkspaceCallAnswer:
        """An answer in this shape."""
        images = [
            {"media_type": image.media_type, "data": base64.b64encode(image.data).decode("ascii")} for image in answer.images
        ]
        return cls.model_validate({**answer.to_dict(), "images": images})


class WorkspaceOutput(ResponseShape):
    """A piece of what a command writes."""

    event: Literal["output"] = "output"
    stream: Literal["stdout", "stderr"]
    text: str


class WorkspaceCallEnded(ResponseShape):
    """The call has ended: its answer."""

    event: Literal["end"] = "end"
    answer: WorkspaceCallAnswer


WorkspaceCallEvent = Annotated[WorkspaceOutput | WorkspaceCallEnded, Field(discriminator="event")]


routes: Final = APIRouter(prefix="/api/v1/workspaces", tags=["workspaces"], dependencies=[require_scope("workspaces:use")])

_CLIENT_LEFT: Final = 499  # nobody gets it; it is for the log


async def _own(service: CurrentServices, caller: CurrentCaller, workspace: str) -> WorkspaceRecord:
    return await service.workspaces.own(workspace, service.owner(caller), everybody=caller.may("admin"))


_Own = Annotated["WorkspaceRecord", Depends(_own)]


@routes.get("", responses=READ_PROBLEMS)
async def list_workspaces(service: CurrentServices, caller: CurrentCaller) -> Answer[list[WorkspaceRecord]]:
    """The caller's workspaces, by id."""
    records = await service.workspaces.records(service.owner(caller))
    return Answer(data=list(records))


@routes.post("", status_code=201, responses=WRITE_PROBLEMS)
async def create_workspace(service: CurrentServices, caller: CurrentCaller, body: NewWorkspace) -> Answer[WorkspaceRecord]:
    """Create an empty workspace."""
    workspace_id = body.id if body.id is not None else f"ws-{os.urandom(9).hex()}"
    set_audit_subject(workspace_id)
    return Answer(data=await service.workspaces.create(workspace_id, service.owner(caller)))


@routes.get("/{workspace}", responses=READ_PROBLEMS)
async def get_workspace(service: CurrentServices, record: _Own) -> Answer[WorkspaceDetail]:
    """One workspace with its session."""
    found = await service.workspaces.find(record)
    stands = found is not None and found.is_open
    processes = tuple(found.processes()) if found is not None else ()
    folder = found.working_folder if found is not None and stands else None
    return Answer(data=WorkspaceDetail(record, stands, folder, processes))


@routes.delete("/{workspace}", status_code=204, responses=WRITE_PROBLEMS)
async def delete_workspace(service: CurrentServices, caller: CurrentCaller, workspace: str) -> None:
    """Delete a workspace with its files, and end its session; an unknown one is ignored."""
    try:
        record = await _own(service, caller, workspace)
    except RecordNotFound:
        return
    await service.workspaces.remove(record)


@routes.delete("/{workspace}/session", status_code=204, responses=WRITE_PROBLEMS)
async def end_workspace_session(service: CurrentServices, record: _Own) -> None:
    """End the session with all its processes; the files stay, and the next call starts a new one."""
    await service.workspaces.end(record)


@routes.post(
    "/{workspace}/calls",
    responses=WRITE_PROBLEMS
    | stream_responses(WorkspaceCallEvent, "WorkspaceCallEvent", "output, end")
    | {200: {"model": Answer[WorkspaceCallAnswer]}},
)
async def call_workspace_tool(
    service: CurrentServices,
    record: _Own,
    request: Request,
    body: WorkspaceCall,
    accept: Annotated[str | None, Header(max_length=1000)] = None,
) -> Any:
    """Call a tool. One that refuses, or a command that fails, is no error: `ok` is false and `code` says why.

    With `Accept: text/event-stream` the output comes while it is written, and the answer as the last event. A client that
    leaves ends the command.
    """
    request.state.unrecorded = tool_kind(body.tool) == "read"
    set_audit_subject(f"{record.id}: {body.tool}")
    call = await service.workspaces.begin_call(record, body.tool, body.arguments)
    if "text/event-stream" in (accept or "").lower():
        return EventStream(_events(call))
    if not await _has_ended(call, request):
        return Response(status_code=_CLIENT_LEFT)
    return Answer(data=WorkspaceCallAnswer.made_of(call.task.result()))


async def _has_ended(call: BegunCall, request: Request) -> bool:
    """Wait for the end of a call; False when its client has left before, and it was ended for that."""
    leaving = asyncio.create_task(_left(request))
    waited: set[asyncio.Task[Any]] = {call.task, leaving}
    try:
        await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
    finally:
        leaving.cancel()
        ended = call.task.done()
        if not ended:
            await call.cancel()
    return ended


async def _left(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _events(call: BegunCall) -> AsyncGenerator[ServerSentEvent, None]:
    try:
        while (piece := await call.output.get()) is not None:
            yield _event(WorkspaceOutput(stream=piece[0], text=piece[1]))
        yield _event(WorkspaceCallEnded(answer=WorkspaceCallAnswer.made_of(await call.task)))
    finally:
        await call.cancel()


def _event(event: WorkspaceOutput | WorkspaceCallEnded) -> ServerSentEvent:
    return ServerSentEvent(event.model_dump_json(), event=event.event)


@routes.get("/{workspace}/files", responses=READ_PROBLEMS)
async def list_workspace_files(
    service: CurrentServices,
    record: _Own,
    hidden: Hidden = False,
    limit: Annotated[int, Query(ge=1, le=5000)] = 2000,
) -> Answer[list[WorkspaceFile]]:
    """The files of a workspace, by path, at most `limit`."""
    folder = await service.workspaces.folder(record)
    files = await run_in_threadpool(lambda: folder.files(limit=limit, hidden=hidden))
    return Answer(data=list(files))


@routes.get("/{workspace}/archive", responses=READ_PROBLEMS | FOLDER_ARCHIVE, response_class=Response)
async def download_workspace(service: CurrentServices, record: _Own, hidden: Hidden = False) -> Response:
    """All files as one ZIP archive, of at most 500 MiB of files."""
    folder = await service.workspaces.folder(record)
    return await send_archive(folder, record.id, hidden=hidden)


@routes.get("/{workspace}/files/{path:path}", responses=READ_PROBLEMS | FOLDER_FILE, response_class=Response)
async def get_workspace_file(service: CurrentServices, record: _Own, path: str, request: Request) -> Response:
    """The bytes of a file, or a part; text is plain text, nothing is shown as a page. One over 50 MiB comes whole."""
    return await send_file(request, await service.workspaces.folder(record), path)


@routes.put(
    "/{workspace}/files/{path:path}",
    status_code=201,
    responses=WRITE_PROBLEMS,
    openapi_extra=FILE_BODY,
)
async def put_workspace_file(service: CurrentServices, record: _Own, path: str, request: Request) -> Answer[WorkspaceFile]:
    """Upload a file, replacing one with that name; at most 50 MiB, and within the quota of the workspace."""
    from skillyard.workspace import options_from_settings

    folder = await service.workspaces.folder(record)
    data = await receive_file(request, hint="send it in parts, and join them with bash")
    quota = options_from_settings(service.catalog.configuration.workspace).quota_mb
    await run_in_threadpool(lambda: folder.put(path, data, quota_mb=quota))
    return Answer(data=await run_in_threadpool(folder.file, path))


@routes.delete("/{workspace}/files/{path:path}", status_code=204, responses=WRITE_PROBLEMS)
async def delete_workspace_file(service: CurrentServices, record: _Own, path: str) -> None:
    """Delete a file; an unknown one is ignored."""
    folder = await service.workspaces.folder(record)
    try:
        await run_in_threadpool(folder.remove, path)
    except FileMissing:
        return


run_file_routes: Final = APIRouter(prefix="/api/v1/runs", tags=["runs"], dependencies=[require_scope("skills:read")])


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


@run_file_routes.post(
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
    """Upload a file for a later run, at most 20 MiB; it is kept for a day, for the caller only."""
    file = WorkFile(name, await receive_file(request, limit=LARGEST_FILE))
    upload = await run_in_threadpool(kept_files(service).upload, caller.name, file)
    return Answer(data=Upload(id=upload, name=file.name, size=len(file.data)))


@run_file_routes.get("/{run_id}/files", responses=READ_PROBLEMS)
def list_made_files(service: CurrentServices, run_id: str) -> Answer[list[MadeFile]]:
    """The files that a run made in its work folder, by name; they are kept for seven days."""
    record = service.catalog.records().journal.get(run_id)
    made = kept_files(service).made(record.id)
    return Answer(data=[MadeFile(name=file.name, size=file.size, media_type=_media_type(file.name)) for file in made])


@run_file_routes.get("/{run_id}/files/{path:path}", responses=READ_PROBLEMS | FOLDER_FILE, response_class=Response)
async def get_made_file(service: CurrentServices, run_id: str, path: str, request: Request) -> Response:
    """The bytes of a file that a run made, or a part; text is plain text, nothing is shown as a page."""
    record = await run_in_threadpool(lambda: service.catalog.records().journal.get(run_id))
    data = await run_in_threadpool(kept_files(service).read, record.id, path)
    return send_bytes(request, data)


@run_file_routes.get("/{run_id}/preview/{path:path}", responses=READ_PROBLEMS)
async def preview_made_file(
    service: CurrentServices,
    run_id: str,
    path: str,
    page: Page = 1,
    sheet: Sheet = 0,
) -> Answer[FilePreview]:
    """A preview of a file that a run made, as plain data; documents are read in a separate sandbox."""
    from skillyard.workspace import WorkspaceFolder

    record = await run_in_threadpool(lambda: service.catalog.records().journal.get(run_id))
    data = await run_in_threadpool(kept_files(service).read, record.id, path)
    with tempfile.TemporaryDirectory(prefix="skillyard-preview-") as folder:
        disk = WorkspaceFolder(folder)
        await run_in_threadpool(disk.put, path, data)
        return Answer(data=await send_preview(service.catalog, disk, path, page, sheet))


def _media_type(name: str) -> str:
    return mimetypes.guess_type(name)[0] or "application/octet-stream"
