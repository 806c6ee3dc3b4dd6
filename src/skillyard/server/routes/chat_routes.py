"""Conversations: begin one, send a message, follow the turn, answer its questions, stop it; files, workspace, skill usage.

Everything belongs to the caller who began it. A turn goes on whether or not somebody listens; its events are sent from the
beginning to each client that asks. The files of a conversation are given and taken, listed with a preview, or taken all as one
archive.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Annotated, Any, Final

from fastapi import APIRouter, Depends, Header, Query, Request, Response
from pydantic import AwareDatetime
from sse_starlette import ServerSentEvent
from starlette.concurrency import run_in_threadpool

from skillyard.conversations import Attachment, SkillUsageEvent, TurnFilter, TurnSummary
from skillyard.conversations.conversation import InvocableSkill, WorkspaceState
from skillyard.conversations.models import AvailableModels
from skillyard.conversations.skill_usage import UsageStage
from skillyard.errors import PermissionDenied, RecordNotFound
from skillyard.insights import InsightSettings, Timeline, runs_of, turn_timeline
from skillyard.server.authorization import CurrentCaller, folder_here, require_scope
from skillyard.server.file_transfers import (
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
from skillyard.server.organisation_services import CurrentServices, OrganisationServices
from skillyard.server.responses import READ_PROBLEMS, WRITE_PROBLEMS, EventStream, stream_responses
from skillyard.server.shapes import Answer, Listed, Meta, to_utc
from skillyard.server.shapes.chat_shapes import (
    ChatEvent,
    ConversationChange,
    ConversationDetail,
    ConversationQuestion,
    ConversationSettings,
    ConversationShape,
    NewConversation,
    NewMessage,
    QuestionAnswer,
    SkillUsageReportShape,
    TurnShape,
    WorkspaceEntryShape,
    WorkspaceFiles,
)
from skillyard.workspace import FilePreview

if TYPE_CHECKING:
    from skillyard.conversations import Chat, Conversation, Turn
    from skillyard.conversations.work_folder import WorkFolder
    from skillyard.library import Catalog
    from skillyard.workspace import WorkspaceFolder

routes: Final = APIRouter(prefix="/api/v1/chat", tags=["chat"], dependencies=[require_scope("runs:execute")])


async def _chat(service: OrganisationServices) -> Chat:
    return await run_in_threadpool(service.chat.of, service.catalog)


async def own_conversation(service: CurrentServices, caller: CurrentCaller, conversation: str) -> tuple[Chat, Conversation]:
    """The chat, and the caller's conversation with that id."""
    chat = await _chat(service)
    return chat, await chat.get(conversation, service.owner(caller))


OwnConversation = Annotated[tuple["Chat", "Conversation"], Depends(own_conversation)]
"""The chat of the caller's organisation, and the caller's conversation that the address names."""


@routes.get("/conversations", responses=READ_PROBLEMS)
async def list_conversations(
    service: CurrentServices,
    caller: CurrentCaller,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    text: Annotated[str, Query(max_length=200, description="what the title, or what was said, holds")] = "",
) -> Answer[list[ConversationShape]]:
    """Your conversations, most recently used first."""
    conversations = await (await _chat(service)).list(service.owner(caller), limit=limit, text=text)
    return Answer(data=[ConversationShape.of(conversation) for conversation in conversations])


@routes.post("/conversations", status_code=201, responses=WRITE_PROBLEMS)
async def begin(
    service: CurrentServices, request: Request, caller: CurrentCaller, body: NewConversation
) -> Answer[ConversationShape]:
    """Create a conversation without a message."""
    from skillyard.conversations import ChatSettings

    folder = folder_here(request, caller, body.folder)
    settings = ChatSettings.read(_given(body.settings)) if body.settings else None
    conversation = await (await _chat(service)).begin(
        service.owner(caller), agent=body.agent, model=body.model, settings=settings, title=body.title, folder=folder
    )
    return Answer(data=ConversationShape.of(conversation))


@routes.get("/conversations/{conversation}", responses=READ_PROBLEMS)
async def get_conversation(
    own: OwnConversation, last: Annotated[int, Query(ge=1, le=1000)] = 200
) -> Answer[ConversationDetail]:
    """A conversation with its `last` turns, those that were replaced left out, and its files."""
    chat, chosen = own
    turns = await chat.turns(chosen)
    shown = [TurnShape.of(turn) for turn in turns[-last:]]
    files = list(await run_in_threadpool(chat.folder(chosen).list))
    shape = ConversationShape.of(chosen).model_dump()
    return Answer(data=ConversationDetail(**shape, turns=shown, earlier=len(turns) - len(shown), files=files))


@routes.patch("/conversations/{conversation}", responses=WRITE_PROBLEMS)
async def change(own: OwnConversation, body: ConversationChange) -> Answer[ConversationShape]:
    """Change the title of a conversation, or the model of its next turns."""
    chat, chosen = own
    return Answer(data=ConversationShape.of(await chat.change(chosen, title=body.title, model=body.model)))


@routes.delete("/conversations/{conversation}", status_code=204, responses=WRITE_PROBLEMS)
async def delete(own: OwnConversation) -> None:
    """Delete a conversation with its turns and files; a running turn is stopped."""
    chat, chosen = own
    await chat.delete(chosen)


@routes.post("/conversations/{conversation}/messages", status_code=201, responses=WRITE_PROBLEMS)
async def say(own: OwnConversation, body: NewMessage) -> Answer[TurnShape]:
    """Send a message; the turn runs in the background and reports its events. `/name …` starts a skill."""
    chat, chosen = own
    replacing = (await chat.turn(chosen, body.replaces)).number if body.replaces else None
    return Answer(data=TurnShape.of(await chat.send(chosen, body.text, replacing=replacing, files=body.files)))


@routes.post("/conversations/{conversation}/retry", status_code=201, responses=WRITE_PROBLEMS)
async def retry(own: OwnConversation) -> Answer[TurnShape]:
    """Retry the newest turn, replacing it."""
    chat, chosen = own
    return Answer(data=TurnShape.of(await chat.retry(chosen)))


@routes.get(
    "/conversations/{conversation}/turns/{turn}/events",
    response_class=EventStream,
    responses=READ_PROBLEMS
    | stream_responses(
        ChatEvent, "ChatEvent", "begin, text, call, ask, log, step, result, file, file_removed, notice, usage, error, end"
    ),
)
async def follow(
    own: OwnConversation,
    turn: str,
    last_event_id: Annotated[str | None, Header(max_length=100)] = None,
) -> EventStream:
    """The events of a turn as server-sent events, until it has ended or waits for an answer.

    A client that comes back with `Last-Event-ID`, to any process, gets the rest; with an invalid id, a `begin`
    means that all events are sent again.
    """
    chat, chosen = own
    return EventStream(_turn_events(chat, await chat.turn(chosen, turn), last_event_id))


@routes.get("/conversations/{conversation}/turns/{turn}/timeline", responses=READ_PROBLEMS)
async def get_timeline(service: CurrentServices, own: OwnConversation, turn: str) -> Answer[Timeline]:
    """When a turn asked the model, called tools, waited for answers and ran scripts, with tokens and money."""
    chat, chosen = own
    found = await chat.turn(chosen, turn)
    return Answer(data=await run_in_threadpool(_timeline, service.catalog, found))


def _timeline(catalog: Catalog, turn: Turn) -> Timeline:
    journal, runs = catalog.records().journal, {}
    for run_id in runs_of(turn.events):
        with suppress(RecordNotFound):  # deleted since
            runs[run_id] = journal.get(run_id)
    return turn_timeline(turn, runs, InsightSettings.of(catalog.configuration))


@routes.post("/conversations/{conversation}/turns/{turn}/answers", responses=WRITE_PROBLEMS)
async def answer(caller: CurrentCaller, own: OwnConversation, turn: str, body: QuestionAnswer) -> Answer[TurnShape]:
    """Answer a request for approval, and all others of the turn about the same content; after the last one the turn continues.

    To agree for the whole workspace needs the scope `admin`; a call of a tool is agreed to once, or for the session.
    """
    from skillyard.permissions import ApprovalAnswer

    if body.decision == "workspace" and not caller.may("admin"):
        raise PermissionDenied("to agree for the workspace needs the scope admin", hint="agree once, or for this session")
    chat, chosen = own
    answered = await chat.answer(await chat.turn(chosen, turn), body.call, ApprovalAnswer(body.decision, body.reason))
    return Answer(data=TurnShape.of(answered))


@routes.get("/questions", responses=READ_PROBLEMS)
async def list_questions(service: CurrentServices, caller: CurrentCaller) -> Answer[list[ConversationQuestion]]:
    """What your conversations wait for, the oldest first: `POST …/turns/{turn}/answers` with its `call` answers it."""
    waiting = await (await _chat(service)).waiting(service.owner(caller))
    return Answer(data=[ConversationQuestion.of(question) for question in waiting])


@routes.post("/conversations/{conversation}/turns/{turn}/stop", responses=WRITE_PROBLEMS)
async def stop(own: OwnConversation, turn: str) -> Answer[TurnShape]:
    """Stop a turn; what the model wrote so far stays. One that is over stays as it is."""
    chat, chosen = own
    await chat.stop(await chat.turn(chosen, turn))
    return Answer(data=TurnShape.of(await chat.turn(chosen, turn)))


@routes.get("/models", responses=READ_PROBLEMS)
async def list_models(service: CurrentServices) -> Answer[AvailableModels]:
    """The models that can be chosen: those of services that a key is set for, and what is missing for others."""
    await _chat(service)
    from skillyard.conversations import available_models

    return Answer(data=await run_in_threadpool(available_models))


@routes.get("/commands", responses=READ_PROBLEMS)
async def list_commands(
    service: CurrentServices,
    caller: CurrentCaller,
    text: Annotated[str, Query(max_length=200, description="what the name holds")] = "",
    conversation: Annotated[str | None, Query(max_length=100)] = None,
    limit: Annotated[int, Query(ge=1, le=50)] = 20,
) -> Answer[list[InvocableSkill]]:
    """The skills that a person may start with `/name`, here or in a conversation, those that begin with the text first."""
    chat = await _chat(service)
    chosen = await chat.get(conversation, service.owner(caller)) if conversation else None
    commands = await run_in_threadpool(lambda: chat.commands(chosen, text, limit=limit))
    return Answer(data=list(commands))


@routes.get("/trail", responses=READ_PROBLEMS)
async def trail(
    service: CurrentServices,
    caller: CurrentCaller,
    conversation: Annotated[str, Query(min_length=1, max_length=100)],
    skill: Annotated[str | None, Query(max_length=300)] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 200,
) -> Answer[list[SkillUsageEvent]]:
    """How skills were used in a conversation: offered, loaded, read, run, and how the turn ended."""
    chat, chosen = await own_conversation(service, caller, conversation)
    steps = await run_in_threadpool(lambda: chat.usage_log.of(conversation=chosen.id, skill=skill, limit=limit))
    return Answer(data=list(steps))


@routes.get("/turns", responses=READ_PROBLEMS)
async def list_turns(
    service: CurrentServices,
    caller: CurrentCaller,
    skill: Annotated[str | None, Query(max_length=300, description="the id of a skill")] = None,
    stage: Annotated[UsageStage | None, Query(description="where the skill got to this stage first, or was refused")] = None,
    agent: Annotated[str | None, Query(max_length=200)] = None,
    model: Annotated[str | None, Query(max_length=200)] = None,
    failed: Annotated[bool, Query(description="only those that ended badly")] = False,
    since: Annotated[AwareDatetime | None, Query(description="at that time or later")] = None,
    until: Annotated[AwareDatetime | None, Query(description="before that time")] = None,
    page: Annotated[int, Query(ge=1, le=1_000_000)] = 1,
    limit: Annotated[int, Query(ge=1, le=200)] = 20,
) -> Listed[TurnSummary]:
    """The turns of your conversations that figures of insights count, the newest first."""
    chat = await _chat(service)
    only = TurnFilter(
        service.owner(caller), skill, stage, agent, model, failed,
        since=to_utc(since) if since else None, until=to_utc(until) if until else None,
    )  # fmt: skip
    total, found = await run_in_threadpool(chat.usage_log.turns, only, limit=limit, offset=(page - 1) * limit)
    return Listed(data=list(found), meta=Meta.of(total, page, limit))


@routes.get("/trail/report", responses=READ_PROBLEMS)
async def trail_report(service: CurrentServices) -> Answer[SkillUsageReportShape]:
    """Every skill in all conversations, in numbers: which are never used, not followed, or fail often."""
    chat = await _chat(service)
    report = await run_in_threadpool(chat.usage_log.report)
    loaded = {use.skill_id for use in report.skills if use.unfollowed}
    more = await run_in_threadpool(
        lambda: {skill.id for skill in service.catalog.all() if skill.id in loaded and skill.status == "ok" and skill.files()}
    )
    shape = SkillUsageReportShape(
        skills=list(report.skills),
        never_used=list(report.never_used),
        not_followed=list(report.not_followed(more)),
        fails_often=list(report.fails_often),
    )
    return Answer(data=shape)


def _given(settings: ConversationSettings) -> dict[str, Any]:
    return settings.model_dump() | {"commands": settings.commands.model_dump(exclude_none=True)}


async def _turn_events(chat: Chat, turn: Turn, last: str | None) -> AsyncGenerator[ServerSentEvent]:
    """The events of a turn behind the one that the client has seen last, whichever process works on it."""
    from skillyard.conversations.conversation import EventPosition

    async with aclosing(chat.follow(turn, EventPosition.read(last))) as events:
        async for position, event in events:
            yield ServerSentEvent(
                json.dumps(event.to_dict(), ensure_ascii=False, default=str), event=event.kind, id=str(position)
            )


folder_routes: Final = APIRouter(
    prefix="/api/v1/chat/conversations/{conversation}",
    tags=["chat"],
    dependencies=[require_scope("runs:execute")],
)


@folder_routes.get("/files", responses=READ_PROBLEMS)
async def list_files(own: OwnConversation) -> Answer[list[Attachment]]:
    """The files of a conversation, by name."""
    chat, chosen = own
    return Answer(data=list(await run_in_threadpool(chat.folder(chosen).list)))


@folder_routes.put(
    "/files/{path:path}",
    status_code=201,
    responses=WRITE_PROBLEMS,
    openapi_extra=FILE_BODY,
)
async def put_file(own: OwnConversation, path: str, request: Request) -> Answer[Attachment]:
    """Add a file to the conversation, replacing one of that name; at most 50 MiB."""
    chat, chosen = own
    data = await receive_file(request)
    return Answer(data=await run_in_threadpool(chat.folder(chosen).put, path, data))


@folder_routes.get("/files/{path:path}", responses=READ_PROBLEMS | FOLDER_FILE, response_class=Response)
async def get_file(own: OwnConversation, path: str, request: Request) -> Response:
    """The bytes of a file, or a part; text is plain text, nothing is shown as a page."""
    return await send_file(request, await _folder(own), path)


@folder_routes.delete("/files/{path:path}", status_code=204, responses=WRITE_PROBLEMS)
async def delete_file(own: OwnConversation, path: str) -> None:
    """Delete a file of the conversation, recorded or not, or a folder with all that is in it."""
    chat, chosen = own
    await run_in_threadpool(chat.folder(chosen).drop, path)


@folder_routes.get("/workspace", responses=READ_PROBLEMS)
async def get_workspace(own: OwnConversation) -> Answer[WorkspaceState]:
    """Whether the conversation has a workspace, and the state of its session."""
    chat, chosen = own
    return Answer(data=await chat.workspace(chosen))


@folder_routes.get("/workspace/files", responses=READ_PROBLEMS)
async def list_workspace_files(
    own: OwnConversation, hidden: Hidden = False, limit: Annotated[int, Query(ge=1, le=5000)] = 2000
) -> Answer[WorkspaceFiles]:
    """Everything in the folder of the conversation, recorded or not, with the folders, by path."""
    chat, chosen = own
    return Answer(data=await run_in_threadpool(_listing, chat.folder(chosen), hidden, limit))


@folder_routes.get("/workspace/preview/{path:path}", responses=READ_PROBLEMS)
async def preview_workspace_file(
    service: CurrentServices,
    own: OwnConversation,
    path: str,
    page: Page = 1,
    sheet: Sheet = 0,
) -> Answer[FilePreview]:
    """A preview of a file as plain data: text, a picture, a page of a PDF as a picture, a sheet as rows."""
    return Answer(data=await send_preview(service.catalog, await _folder(own), path, page, sheet))


@folder_routes.get("/workspace/archive", responses=READ_PROBLEMS | FOLDER_ARCHIVE, response_class=Response)
async def download_workspace(own: OwnConversation, hidden: Hidden = False) -> Response:
    """All files as one ZIP archive, at most 500 MiB."""
    return await send_archive(await _folder(own), own[1].id, hidden=hidden)


@folder_routes.delete("/workspace/session", status_code=204, responses=WRITE_PROBLEMS)
async def end_session(own: OwnConversation) -> None:
    """End the session with all its processes; the files stay, and the next call of the model starts a new one."""
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
