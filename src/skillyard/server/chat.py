"""Conversations over HTTP: begin one, say something, follow the turn, answer what it asks, stop it; files; the trail.

Everything belongs to who began it. A turn goes on whoever listens; its events are told from the beginning to each who asks.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Final

from fastapi import APIRouter, Header, Query, Request, Response
from sse_starlette import ServerSentEvent
from starlette.concurrency import run_in_threadpool

from skillyard.errors import FileTooLarge, PermissionDenied
from skillyard.server.callers import Asking, Caller, needs
from skillyard.server.chat_events import ChatEvent
from skillyard.server.chat_shapes import (
    ChatCommand,
    ChatFile,
    ConversationChange,
    ConversationDetail,
    ConversationShape,
    Decision,
    ModelChoices,
    NewConversation,
    NewMessage,
    SkillUseShape,
    TrailReportShape,
    TrailStep,
    TurnShape,
    conversation_shape,
    file_shape,
    turn_shape,
)
from skillyard.server.contents import bytes_answer
from skillyard.server.problems import READING, WRITING
from skillyard.server.service import Served, Service
from skillyard.server.shapes import Answer
from skillyard.server.streams import EventStream, streaming

if TYPE_CHECKING:
    from skillyard.agent import Chat, Conversation, Turn

__all__ = ["routes"]

routes: Final = APIRouter(prefix="/api/v1/chat", tags=["chat"], dependencies=[needs("runs:execute")])
_FILE: Final[dict[int | str, dict[str, Any]]] = {
    200: {"description": "the bytes of the file", "content": {"application/octet-stream": {"schema": {"type": "string"}}}},
    206: {
        "description": "the part that was asked for",
        "content": {"application/octet-stream": {"schema": {"type": "string"}}},
    },
    304: {"description": "it has not changed"},
    416: {"description": "there is no such part"},
}


@routes.get("/conversations", responses=READING)
async def list_conversations(
    service: Served,
    caller: Asking,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    text: Annotated[str, Query(max_length=200, description="what the title, or what was said, holds")] = "",
) -> Answer[list[ConversationShape]]:
    """Your conversations, the one used last first."""
    found = await (await _chat(service)).list(service.owner(caller), limit=limit, text=text)
    return Answer(data=[conversation_shape(conversation) for conversation in found])


@routes.post("/conversations", status_code=201, responses=WRITING)
async def begin(service: Served, caller: Asking, body: NewConversation) -> Answer[ConversationShape]:
    """Begin a conversation: nothing is said yet."""
    from skillyard.agent import ChatSettings

    settings = ChatSettings.read(body.settings.model_dump()) if body.settings else None
    conversation = await (await _chat(service)).begin(
        service.owner(caller), agent=body.agent, model=body.model, settings=settings, title=body.title
    )
    return Answer(data=conversation_shape(conversation))


@routes.get("/conversations/{conversation}", responses=READING)
async def get_conversation(
    service: Served, caller: Asking, conversation: str, last: Annotated[int, Query(ge=1, le=1000)] = 200
) -> Answer[ConversationDetail]:
    """A conversation with its `last` turns, those that were replaced left out, and its files."""
    chat, found = await _mine(service, caller, conversation)
    turns = await chat.turns(found)
    shown = [turn_shape(turn) for turn in turns[-last:]]
    files = [file_shape(file) for file in await run_in_threadpool(chat.folder(found).list)]
    told = conversation_shape(found).model_dump()
    return Answer(data=ConversationDetail(**told, turns=shown, earlier=len(turns) - len(shown), files=files))


@routes.patch("/conversations/{conversation}", responses=WRITING)
async def change(service: Served, caller: Asking, conversation: str, body: ConversationChange) -> Answer[ConversationShape]:
    """Give a conversation another title, or its next turns another model."""
    chat, found = await _mine(service, caller, conversation)
    return Answer(data=conversation_shape(await chat.change(found, title=body.title, model=body.model)))


@routes.delete("/conversations/{conversation}", status_code=204, responses=WRITING)
async def delete(service: Served, caller: Asking, conversation: str) -> None:
    """Delete a conversation with its turns and files; a turn that goes on is stopped."""
    chat, found = await _mine(service, caller, conversation)
    await chat.delete(found)


@routes.post("/conversations/{conversation}/messages", status_code=201, responses=WRITING)
async def say(service: Served, caller: Asking, conversation: str, body: NewMessage) -> Answer[TurnShape]:
    """Say something; the turn goes on by itself, its events tell how. `/name …` starts a skill."""
    chat, found = await _mine(service, caller, conversation)
    replacing = (await chat.turn(found, body.replaces)).number if body.replaces else None
    return Answer(data=turn_shape(await chat.send(found, body.text, replacing=replacing, files=body.files)))


@routes.post("/conversations/{conversation}/retry", status_code=201, responses=WRITING)
async def retry(service: Served, caller: Asking, conversation: str) -> Answer[TurnShape]:
    """Try the newest turn once more, in place of it."""
    chat, found = await _mine(service, caller, conversation)
    return Answer(data=turn_shape(await chat.retry(found)))


@routes.get(
    "/conversations/{conversation}/turns/{turn}/events",
    response_class=EventStream,
    responses=READING
    | streaming(ChatEvent, "ChatEvent", "begin, text, call, ask, log, result, file, notice, usage, error, end"),
)
async def follow(
    service: Served,
    caller: Asking,
    conversation: str,
    turn: str,
    last_event_id: Annotated[str | None, Header(max_length=100)] = None,
) -> EventStream:
    """A turn as it goes on, as server-sent events, until it has ended or waits for an answer.

    A client that comes back with `Last-Event-ID`, to whichever process, is told the rest; with an id that is none, a `begin`
    says that all is told again.
    """
    chat, found = await _mine(service, caller, conversation)
    return EventStream(_told(chat, await chat.turn(found, turn), last_event_id))


@routes.post("/conversations/{conversation}/turns/{turn}/answers", responses=WRITING)
async def answer(service: Served, caller: Asking, conversation: str, turn: str, body: Decision) -> Answer[TurnShape]:
    """Answer a question, and every other one of the turn about the same content; after the last answer the turn goes on.

    To agree for the whole workspace needs the scope `admin`.
    """
    from skillyard.permissions import ApprovalAnswer

    if body.decision == "workspace" and not caller.may("admin"):
        raise PermissionDenied("to agree for the workspace needs the scope admin", hint="agree once, or for this session")
    chat, found = await _mine(service, caller, conversation)
    answered = await chat.answer(await chat.turn(found, turn), body.call, ApprovalAnswer(body.decision, body.reason))
    return Answer(data=turn_shape(answered))


@routes.post("/conversations/{conversation}/turns/{turn}/stop", responses=WRITING)
async def stop(service: Served, caller: Asking, conversation: str, turn: str) -> Answer[TurnShape]:
    """Stop a turn; what the model wrote so far stays. One that is over stays as it is."""
    chat, found = await _mine(service, caller, conversation)
    await chat.stop(await chat.turn(found, turn))
    return Answer(data=turn_shape(await chat.turn(found, turn)))


@routes.get("/conversations/{conversation}/files", responses=READING)
async def list_files(service: Served, caller: Asking, conversation: str) -> Answer[list[ChatFile]]:
    """The files of a conversation, by name."""
    chat, found = await _mine(service, caller, conversation)
    return Answer(data=[file_shape(file) for file in await run_in_threadpool(chat.folder(found).list)])


@routes.put(
    "/conversations/{conversation}/files/{path:path}",
    status_code=201,
    responses=WRITING,
    openapi_extra={"requestBody": {"content": {"application/octet-stream": {"schema": {"type": "string"}}}, "required": True}},
)
async def put_file(service: Served, caller: Asking, conversation: str, path: str, request: Request) -> Answer[ChatFile]:
    """Give the conversation a file, in place of the one of that name; at most 50 MiB."""
    chat, found = await _mine(service, caller, conversation)
    data = await _body(request)
    return Answer(data=file_shape(await run_in_threadpool(chat.folder(found).put, path, data)))


@routes.get("/conversations/{conversation}/files/{path:path}", responses=READING | _FILE, response_class=Response)
async def get_file(service: Served, caller: Asking, conversation: str, path: str, request: Request) -> Response:
    """The bytes of a file, or a part; text is plain text, nothing is shown as a page."""
    chat, found = await _mine(service, caller, conversation)
    folder = chat.folder(found)
    data = await run_in_threadpool(folder.read, path)
    plain = await run_in_threadpool(folder.preview, path) is not None
    sent = bytes_answer(request, data, "text/plain; charset=utf-8" if plain else "application/octet-stream")
    sent.headers["X-Content-Type-Options"] = "nosniff"
    return sent


@routes.delete("/conversations/{conversation}/files/{path:path}", status_code=204, responses=WRITING)
async def delete_file(service: Served, caller: Asking, conversation: str, path: str) -> None:
    """Delete a file of the conversation."""
    chat, found = await _mine(service, caller, conversation)
    await run_in_threadpool(chat.folder(found).drop, path)


@routes.get("/models", responses=READING)
async def list_models(service: Served) -> Answer[ModelChoices]:
    """The models that can be chosen: those of services that a key is set for, and what is missing for others."""
    await _chat(service)
    from skillyard.agent import choices

    return Answer(data=ModelChoices.model_validate(asdict(await run_in_threadpool(choices))))


@routes.get("/commands", responses=READING)
async def list_commands(
    service: Served,
    caller: Asking,
    text: Annotated[str, Query(max_length=200, description="what the name holds")] = "",
    conversation: Annotated[str | None, Query(max_length=100)] = None,
    limit: Annotated[int, Query(ge=1, le=50)] = 20,
) -> Answer[list[ChatCommand]]:
    """The skills that a person may start with `/name`, here or in a conversation, those that begin with the text first."""
    chat = await _chat(service)
    found = await chat.get(conversation, service.owner(caller)) if conversation else None
    commands = await run_in_threadpool(lambda: chat.commands(found, text, limit=limit))
    return Answer(data=[ChatCommand.model_validate(asdict(command)) for command in commands])


@routes.get("/trail", responses=READING)
async def trail(
    service: Served,
    caller: Asking,
    conversation: Annotated[str, Query(min_length=1, max_length=100)],
    skill: Annotated[str | None, Query(max_length=300)] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 200,
) -> Answer[list[TrailStep]]:
    """What became of skills in a conversation: offered, loaded, read, run, and how the turn ended."""
    chat, found = await _mine(service, caller, conversation)
    steps = await run_in_threadpool(lambda: chat.trail.of(conversation=found.id, skill=skill, limit=limit))
    return Answer(data=[TrailStep.model_validate(step.to_dict()) for step in steps])


@routes.get("/trail/report", responses=READING)
async def trail_report(service: Served) -> Answer[TrailReportShape]:
    """Every skill in all conversations, in numbers: which are never used, not followed, or fail often."""
    chat = await _chat(service)
    report = await run_in_threadpool(chat.trail.report)
    more = {skill.id for skill in service.catalog.all() if skill.status == "ok" and skill.files()}
    shape = TrailReportShape(
        skills=[SkillUseShape.model_validate(use.to_dict()) for use in report.skills],
        never_used=list(report.never_used),
        not_followed=list(report.not_followed(more)),
        fails_often=list(report.fails_often),
    )
    return Answer(data=shape)


async def _chat(service: Service) -> Chat:
    return await run_in_threadpool(service.chats.of, service.catalog)


async def _mine(service: Service, caller: Caller, conversation: str) -> tuple[Chat, Conversation]:
    """The chat, and the caller's conversation with that id."""
    chat = await _chat(service)
    return chat, await chat.get(conversation, service.owner(caller))


async def _told(chat: Chat, turn: Turn, last: str | None) -> AsyncGenerator[ServerSentEvent]:
    """The events of a turn behind the one that the client has seen last, whichever process works on it."""
    from skillyard.agent.live import Place

    async with aclosing(chat.told(turn, Place.read(last))) as events:
        async for place, event in events:
            yield ServerSentEvent(_json(event.to_dict()), event=event.kind, id=str(place))


def _json(value: dict[str, Any]) -> str:

    return json.dumps(value, ensure_ascii=False, default=str)


async def _body(request: Request) -> bytes:
    from skillyard.agent.files import LARGEST

    data = bytearray()
    async for piece in request.stream():
        data += piece
        if len(data) > LARGEST:
            raise FileTooLarge(f"the file is over {LARGEST} bytes", hint="give a smaller one")
    return bytes(data)
