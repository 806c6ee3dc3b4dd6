"""Workspaces over HTTP: folders that a caller works in with commands, code and files, in a sandboxed session of its own."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Annotated, Any, Final

from fastapi import APIRouter, Depends, Header, Query, Request, Response
from sse_starlette import ServerSentEvent
from starlette.concurrency import run_in_threadpool

from skillyard.access import set_audit_subject
from skillyard.errors import FileMissing, RecordNotFound
from skillyard.permissions import tool_kind
from skillyard.server.authorization import CurrentCaller, require_scope
from skillyard.server.folder_responses import (
    FILE_BODY,
    FOLDER_ARCHIVE,
    FOLDER_FILE,
    Hidden,
    receive_file,
    send_archive,
    send_file,
)
from skillyard.server.organisation_services import CurrentServices
from skillyard.server.responses import READ_PROBLEMS, WRITE_PROBLEMS, EventStream, stream_responses
from skillyard.server.shapes import Answer
from skillyard.server.shapes.workspaces import (
    CallerWorkspace,
    CallerWorkspaceDetail,
    NewWorkspace,
    WorkspaceCall,
    WorkspaceCallAnswer,
    WorkspaceCallEnded,
    WorkspaceCallEvent,
    WorkspaceFileShape,
    WorkspaceOutput,
)

if TYPE_CHECKING:
    from skillyard.server.background.caller_workspaces import BegunCall
    from skillyard.workspace import WorkspaceRecord

routes: Final = APIRouter(prefix="/api/v1/workspaces", tags=["workspaces"], dependencies=[require_scope("workspaces:use")])

_CLIENT_LEFT: Final = 499  # nobody gets it; it is for the log


async def _own(service: CurrentServices, caller: CurrentCaller, workspace: str) -> WorkspaceRecord:
    return await service.workspaces.own(workspace, service.owner(caller), everybody=caller.may("admin"))


_Own = Annotated["WorkspaceRecord", Depends(_own)]


@routes.get("", responses=READ_PROBLEMS)
async def list_workspaces(service: CurrentServices, caller: CurrentCaller) -> Answer[list[CallerWorkspace]]:
    """The caller's workspaces, by id."""
    records = await service.workspaces.records(service.owner(caller))
    return Answer(data=[CallerWorkspace.of(record) for record in records])


@routes.post("", status_code=201, responses=WRITE_PROBLEMS)
async def create_workspace(service: CurrentServices, caller: CurrentCaller, body: NewWorkspace) -> Answer[CallerWorkspace]:
    """Create an empty workspace."""
    workspace_id = body.id if body.id is not None else f"ws-{os.urandom(9).hex()}"
    set_audit_subject(workspace_id)
    return Answer(data=CallerWorkspace.of(await service.workspaces.create(workspace_id, service.owner(caller))))


@routes.get("/{workspace}", responses=READ_PROBLEMS)
async def get_workspace(service: CurrentServices, record: _Own) -> Answer[CallerWorkspaceDetail]:
    """One workspace with its session."""
    found = await service.workspaces.find(record)
    stands = found is not None and found.is_open
    processes = [process.to_dict() for process in found.processes()] if found is not None else []
    folder = found.working_folder if found is not None and stands else None
    more = {"open": stands, "working_folder": folder, "processes": processes}
    return Answer(data=CallerWorkspaceDetail.model_validate({**record.to_dict(), **more}))


@routes.delete("/{workspace}", status_code=204, responses=WRITE_PROBLEMS)
async def delete_workspace(service: CurrentServices, caller: CurrentCaller, workspace: str) -> None:
    """Delete a workspace with its files, and end its session; one that is not there stays so."""
    try:
        record = await _own(service, caller, workspace)
    except RecordNotFound:
        return
    await service.workspaces.remove(record)


@routes.delete("/{workspace}/session", status_code=204, responses=WRITE_PROBLEMS)
async def end_workspace_session(service: CurrentServices, record: _Own) -> None:
    """End the session with all that runs in it; the files stay, and the next call begins a fresh one."""
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
) -> Answer[list[WorkspaceFileShape]]:
    """The files of a workspace, by path, at most `limit`."""
    folder = await service.workspaces.folder(record)
    files = await run_in_threadpool(lambda: folder.files(limit=limit, hidden=hidden))
    return Answer(data=[WorkspaceFileShape.of(file) for file in files])


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
async def put_workspace_file(service: CurrentServices, record: _Own, path: str, request: Request) -> Answer[WorkspaceFileShape]:
    """Put a file there, in place of one of that name; at most 50 MiB, and as much as the workspace takes."""
    from skillyard.workspace import options_from_settings

    folder = await service.workspaces.folder(record)
    data = await receive_file(request, hint="send it in parts, and join them with bash")
    quota = options_from_settings(service.catalog.configuration.workspace).quota_mb
    await run_in_threadpool(lambda: folder.put(path, data, quota_mb=quota))
    return Answer(data=WorkspaceFileShape.of(await run_in_threadpool(folder.file, path)))


@routes.delete("/{workspace}/files/{path:path}", status_code=204, responses=WRITE_PROBLEMS)
async def delete_workspace_file(service: CurrentServices, record: _Own, path: str) -> None:
    """Delete a file; one that is not there stays so."""
    folder = await service.workspaces.folder(record)
    try:
        await run_in_threadpool(folder.remove, path)
    except FileMissing:
        return
