"""Agent2Agent (A2A 1.0): a card for the server itself and for each defined agent, and their tasks over JSON-RPC.

The server itself is an agent without a prompt of its own that has every skill. Its card is at the well-known address; that of a
defined agent below `/a2a/{agent}`. A task is a turn, a context a conversation; both are those that everybody else sees.

A message without a context begins a conversation with the agent of the address, and belongs to the caller like every other. A
task that needs an approval is `TASK_STATE_INPUT_REQUIRED`: a message to it answers. What the model writes and the files that it
makes are the artifacts. What went wrong has the number that the protocol gives it, and our own code in `data`.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from datetime import UTC
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import quote

from fastapi import APIRouter, Body, Request, Response
from fastapi.responses import JSONResponse
from pydantic import ValidationError
from sse_starlette import ServerSentEvent
from starlette.concurrency import run_in_threadpool

from skillyard import __version__
from skillyard.agent_definitions import Agent, AgentDraft, catalog_for_agent
from skillyard.catalog import Skill
from skillyard.errors import ConversationBusy, InvalidInput, RecordNotFound, SkillyardError
from skillyard.server.authorization import CurrentCaller, require_scope
from skillyard.server.clients.agent_messages import (
    TASK_STATES,
    AgentMessage,
    AgentProtocolError,
    ArtifactPieces,
    SendMessageParameters,
    TaskListParameters,
    TaskParameters,
    invalid,
    no_task,
    read_decision,
    read_message,
    task_message,
    task_status,
    unsupported,
)
from skillyard.server.clients.published_skills import decode_cursor, encode_cursor
from skillyard.server.middleware.error_formats import A2A
from skillyard.server.organisation_services import CurrentServices, OrganisationServices
from skillyard.server.responses import READ_PROBLEMS, EventStream, bytes_response
from skillyard.server.server_state import CurrentState
from skillyard.text import single_line

if TYPE_CHECKING:
    from skillyard.conversations import Chat, Conversation, Turn


WELL_KNOWN: Final = "/.well-known/agent-card.json"
PROTOCOL_VERSION: Final = "1.0"
_CACHED: Final = {"Cache-Control": "private, max-age=60", "Access-Control-Allow-Origin": "*"}
_INPUT: Final = ["text/plain", "application/json", "application/octet-stream"]
_OUTPUT: Final = ["text/plain", "application/octet-stream"]
_MOST_SKILLS: Final = 500
_EVERYTHING: Final = AgentDraft("Skillyard", "An agent that works by the skills of this server.")
_KEY: Final = "key"

card_routes: Final = APIRouter(tags=["discovery"], dependencies=[require_scope("skills:read")])


@card_routes.get(WELL_KNOWN, responses=READ_PROBLEMS)
def server_card(service: CurrentServices, state: CurrentState, request: Request) -> Response:
    """The card of the server itself, which has every skill."""
    return _card_response(request, service, _EVERYTHING, "/a2a", __version__, keys=state.access_policy.keys_required)


@card_routes.get(f"/a2a/{{agent}}{WELL_KNOWN}", responses=READ_PROBLEMS)
def agent_card(service: CurrentServices, state: CurrentState, request: Request, agent: str) -> Response:
    """The card of a defined agent, by its id or name; its version is the time of its last change."""
    found = service.catalog.agents().get(agent)
    version = f"{found.updated_at:%Y%m%d-%H%M%S}"
    return _card_response(request, service, found, agent_path(found), version, keys=state.access_policy.keys_required)


def agent_path(agent: Agent) -> str:
    """Where a defined agent is spoken to: its id stays when it gets another name."""
    return f"/a2a/{quote(agent.id, safe='')}"


def _card_response(
    request: Request, service: OrganisationServices, agent: AgentDraft, path: str, version: str, *, keys: bool
) -> Response:
    base = str(request.base_url).rstrip("/")
    card: dict[str, Any] = {
        "name": agent.name,
        "description": agent.description or f"The agent {agent.name} of a Skillyard server.",
        "supportedInterfaces": [{"url": f"{base}{path}", "protocolBinding": "JSONRPC", "protocolVersion": PROTOCOL_VERSION}],
        "version": version,
        "documentationUrl": f"{base}/openapi.json",
        "capabilities": {"streaming": True, "pushNotifications": False, "extendedAgentCard": False},
        "defaultInputModes": _INPUT,
        "defaultOutputModes": _OUTPUT,
        "skills": [_skill(skill) for skill in _skills(service, agent)],
    }
    if keys:
        about = "A key of this server with the scopes skills:read and runs:execute."
        card["securitySchemes"] = {_KEY: {"httpAuthSecurityScheme": {"scheme": "Bearer", "description": about}}}
        card["securityRequirements"] = [{"schemes": {_KEY: {"list": []}}}]
    answer = bytes_response(request, json.dumps(card, ensure_ascii=False).encode("utf-8", "replace"), "application/json")
    answer.headers.update(_CACHED)
    return answer


def _skills(service: OrganisationServices, agent: AgentDraft) -> list[Skill]:
    """The first skills that an agent may use, in its order."""
    seen, rules = catalog_for_agent(service.catalog, agent), service.catalog.rules()
    return [skill for skill in seen.all() if skill.status == "ok" and rules.decide(skill) != "deny"][:_MOST_SKILLS]


def _skill(skill: Skill) -> dict[str, Any]:
    """A skill of a card; one that was removed just now has only what the catalog knows of it."""
    shape: dict[str, Any] = {
        "id": skill.id,
        "name": single_line(skill.name),
        "description": single_line(skill.description),
        "tags": ["skill"],
    }
    try:
        metadata = skill.document().metadata
    except (SkillyardError, OSError):
        return shape
    if tags := dict.fromkeys((*metadata.tags, *metadata.keywords)):
        shape["tags"] = list(tags)
    if metadata.triggers.phrases:
        shape["examples"] = list(metadata.triggers.phrases)
    return shape


routes: Final = APIRouter(tags=["clients: A2A"], dependencies=[require_scope("runs:execute")])

_OPEN: Final = ("running", "waiting")
_LOOKING: Final = frozenset({"GetTask", "ListTasks", "SubscribeToTask"})
"""The methods that change nothing, and are not written into the audit log."""
_WITHOUT_HEADER: Final = "0.3"
"""The version that a client speaks which names none, by the specification."""


@routes.post("/a2a", responses=A2A, response_model=None)
async def send_to_server(
    service: CurrentServices, request: Request, caller: CurrentCaller, body: Annotated[Any, Body()]
) -> Response:
    """A request of the protocol for the server itself."""
    return await _answer(_AgentTasks(service, service.owner(caller), None, _base(request)), request, body)


@routes.post("/a2a/{agent}", responses=A2A, response_model=None)
async def send_to_agent(
    service: CurrentServices, request: Request, caller: CurrentCaller, agent: str, body: Annotated[Any, Body()]
) -> Response:
    """A request of the protocol for a defined agent, by its id or name."""
    found = await run_in_threadpool(lambda: service.catalog.agents().get(agent))
    return await _answer(_AgentTasks(service, service.owner(caller), found, _base(request)), request, body)


def _base(request: Request) -> str:
    return str(request.base_url).rstrip("/")


async def _answer(tasks: _AgentTasks, request: Request, body: Any) -> Response:
    """The answer to one request of JSON-RPC; errors of the protocol are no errors of HTTP."""
    identity = body.get("id") if isinstance(body, dict) else None
    identity = identity if isinstance(identity, str | int) and not isinstance(identity, bool) else None
    try:
        if identity is None or body.get("jsonrpc") != "2.0" or not isinstance(body.get("method"), str):
            raise AgentProtocolError(-32600, "INVALID_REQUEST", "this is not a request of JSON-RPC 2.0 with an id")
        request.state.unrecorded = body["method"] in _LOOKING
        version = request.headers.get("a2a-version") or request.query_params.get("A2A-Version") or _WITHOUT_HEADER
        if version != PROTOCOL_VERSION:
            message = f"version {version[:20]} is not spoken here: send the header A2A-Version: {PROTOCOL_VERSION}"
            raise AgentProtocolError(-32009, "VERSION_NOT_SUPPORTED", message)
        result = await _translated(tasks, body["method"], body.get("params") or {})
    except AgentProtocolError as error:
        return JSONResponse({"jsonrpc": "2.0", "id": identity, "error": error.to_dict()})
    if isinstance(result, AsyncGenerator):
        return EventStream(_sent(result, identity))
    return JSONResponse({"jsonrpc": "2.0", "id": identity, "result": result})


async def _translated(tasks: _AgentTasks, method: str, params: Any) -> Any:
    """What a method gives; our errors become those of the protocol."""
    try:
        return await tasks.call(method, params)
    except ValidationError as error:
        faults = [
            {"field": ".".join(map(str, fault["loc"])), "description": str(fault["msg"])} for fault in error.errors()[:100]
        ]
        raise invalid("the parameters are not valid for this method", faults=faults) from None
    except ConversationBusy as error:
        raise unsupported(error.sentence) from None
    except SkillyardError as error:
        shown = error.with_texts(tasks.service.catalog.with_aliases)
        raise AgentProtocolError(-32602 if error.status < 500 else -32603, error.code.upper(), shown.sentence) from None


async def _sent(updates: AsyncGenerator[dict[str, Any]], identity: str | int) -> AsyncGenerator[ServerSentEvent]:
    async with aclosing(updates):
        async for update in updates:
            yield ServerSentEvent(json.dumps({"jsonrpc": "2.0", "id": identity, "result": update}, ensure_ascii=False))


class _AgentTasks:
    """The tasks of one caller with one agent, None for the server itself."""

    def __init__(self, service: OrganisationServices, owner: str, agent: Agent | None, base: str) -> None:
        self.service = service
        self._owner = owner
        self._agent = agent.name if agent else None
        self._base = base

    async def call(self, method: str, params: Any) -> Any:
        """The result of a method, or the updates of a stream.

        Raises:
            AgentProtocolError: the protocol has a number for what went wrong.
            SkillyardError, ValidationError: something else did.
        """
        if "PushNotificationConfig" in method:
            raise AgentProtocolError(-32003, "PUSH_NOTIFICATION_NOT_SUPPORTED", "nothing is pushed: follow the task instead")
        if method == "GetExtendedAgentCard":
            raise unsupported("the card has everything")
        methods: Mapping[str, Callable[[Any], Any]] = {
            "SendMessage": self._send,
            "SendStreamingMessage": self._send_streaming,
            "GetTask": self._get,
            "ListTasks": self._list,
            "CancelTask": self._cancel,
            "SubscribeToTask": self._subscribe,
        }
        if method not in methods:
            raise AgentProtocolError(-32601, "METHOD_NOT_FOUND", f"there is no method {method[:100]!r}")
        return await methods[method](params)

    async def _chat(self) -> Chat:
        return await run_in_threadpool(self.service.chat.of, self.service.catalog)

    async def _send(self, params: Any) -> dict[str, Any]:
        wanted = SendMessageParameters.model_validate(params)
        chat, turn = await self._begun(wanted)
        if not wanted.configuration.return_immediately:
            async with aclosing(chat.follow(turn)) as events:
                async for _ in events:
                    pass
        turn = await run_in_threadpool(chat.records.turn, turn.id)
        return {"task": self._shape(turn, wanted.configuration.history_length)}

    async def _send_streaming(self, params: Any) -> AsyncGenerator[dict[str, Any]]:
        chat, turn = await self._begun(SendMessageParameters.model_validate(params))
        return self._updates(chat, turn)

    async def _subscribe(self, params: Any) -> AsyncGenerator[dict[str, Any]]:
        chat, turn = await self._own(TaskParameters.model_validate(params).id)
        if turn.state not in _OPEN:
            raise unsupported(f"the task is over ({TASK_STATES[turn.state]}): GetTask returns its result")
        return self._updates(chat, turn)

    async def _get(self, params: Any) -> dict[str, Any]:
        wanted = TaskParameters.model_validate(params)
        _, turn = await self._own(wanted.id)
        return self._shape(turn, wanted.history_length)

    async def _cancel(self, params: Any) -> dict[str, Any]:
        chat, turn = await self._own(TaskParameters.model_validate(params).id)
        if turn.state not in _OPEN or not await chat.stop(turn):
            raise AgentProtocolError(-32002, "TASK_NOT_CANCELABLE", f"the task is over ({TASK_STATES[turn.state]})")
        return self._shape(await run_in_threadpool(chat.records.turn, turn.id), None)

    async def _list(self, params: Any) -> dict[str, Any]:
        wanted = TaskListParameters.model_validate(params)
        states = [own for own, state in TASK_STATES.items() if state == wanted.status] if wanted.status else list(TASK_STATES)
        begin = decode_cursor(wanted.page_token) if wanted.page_token else "0"
        if not (begin.isascii() and begin.isdecimal() and len(begin) < 10):
            raise InvalidInput("the page token is not one of ours", hint="take it from the answer before")
        chat, since = await self._chat(), wanted.status_timestamp_after
        found, total = await run_in_threadpool(
            lambda: chat.records.page_of_turns(
                self._owner,
                self._agent,
                conversation=wanted.context_id or None,
                states=states,
                since=since.replace(tzinfo=UTC) if since is not None and since.tzinfo is None else since,
                limit=wanted.page_size,
                offset=int(begin),
            )
        )
        shapes = [self._shape(turn, wanted.history_length) for turn in found]
        for shape in shapes if not wanted.include_artifacts else ():
            shape.pop("artifacts", None)
        following = int(begin) + len(found)
        token = encode_cursor(str(following)) if following < total and found else ""
        return {"tasks": shapes, "nextPageToken": token, "pageSize": wanted.page_size, "totalSize": total}

    async def _own(self, task: str) -> tuple[Chat, Turn]:
        """The task of this caller and agent with that id.

        Raises:
            AgentProtocolError: there is none.
        """
        chat = await self._chat()
        try:
            turn = await run_in_threadpool(chat.records.turn, task)
            conversation = await chat.get(turn.conversation_id, self._owner)
        except RecordNotFound:
            raise no_task(task) from None
        if conversation.agent != self._agent:
            raise no_task(task)
        return chat, turn

    async def _begun(self, wanted: SendMessageParameters) -> tuple[Chat, Turn]:
        """The turn that a message begins, or lets go on."""
        if wanted.configuration.task_push_notification_config:
            raise AgentProtocolError(-32003, "PUSH_NOTIFICATION_NOT_SUPPORTED", "nothing is pushed: follow the task instead")
        message = wanted.message
        if message.task_id:
            chat, turn = await self._own(message.task_id)
            if message.context_id not in ("", turn.conversation_id):
                raise invalid(f"the task is not of the context {message.context_id!r}")
            return chat, await _answered(chat, turn, message)
        text, files = read_message(message)
        chat = await self._chat()
        conversation = await self._conversation(chat, message.context_id)
        for name, data in files:
            await run_in_threadpool(chat.folder(conversation).put, name, data)
        return chat, await chat.send(conversation, text, files=[name for name, _ in files])

    async def _conversation(self, chat: Chat, context: str) -> Conversation:
        """The conversation of a context, or a new one."""
        if not context:
            return await chat.begin(self._owner, agent=self._agent)
        try:
            conversation = await chat.get(context, self._owner)
        except RecordNotFound:
            raise invalid(f"there is no context {context!r}: leave it out to begin one") from None
        if conversation.id != context or conversation.agent != self._agent:
            raise invalid(f"there is no context {context!r} with this agent: leave it out to begin one")
        return conversation

    async def _updates(self, chat: Chat, turn: Turn) -> AsyncGenerator[dict[str, Any]]:
        """The task as it begins, what is added to its artifacts, and at the end its state."""
        same = {"taskId": turn.id, "contextId": turn.conversation_id}
        yield {"task": {**self._shape(turn, None, artifacts=False), "status": task_status("running", turn)}}
        pieces = ArtifactPieces(self._files(turn))
        async with aclosing(chat.follow(turn)) as events:
            async for _, event in events:
                for artifact, append in pieces.take(event.to_dict()):
                    yield {"artifactUpdate": {**same, "artifact": artifact, "append": append}}
                if event.kind == "call":
                    working = task_status("running", turn)
                    yield {"statusUpdate": {**same, "status": working, "metadata": {"tool": event.data.get("tool")}}}
        turn = await run_in_threadpool(chat.records.turn, turn.id)
        yield {"statusUpdate": {**same, "status": task_status(turn.state, turn)}}

    def _shape(self, turn: Turn, history: int | None, *, artifacts: bool = True) -> dict[str, Any]:
        """A turn as a task, with at most the last `history` of its messages."""
        shape: dict[str, Any] = {"id": turn.id, "contextId": turn.conversation_id, "status": task_status(turn.state, turn)}
        made: dict[str, dict[str, Any]] = {}
        pieces = ArtifactPieces(self._files(turn))
        for event in turn.events if artifacts else ():
            for artifact, append in pieces.take(event):
                if append:
                    made[artifact["artifactId"]]["parts"] += artifact["parts"]
                else:
                    made[artifact["artifactId"]] = artifact
        if made:
            shape["artifacts"] = list(made.values())
        messages = [task_message(turn, "request", "ROLE_USER", turn.request)]
        if turn.answer:
            messages.append(task_message(turn, "answer", "ROLE_AGENT", turn.answer))
        if shown := messages if history is None else messages[len(messages) - min(history, len(messages)) :]:
            shape["history"] = shown
        return shape

    def _files(self, turn: Turn) -> str:
        return f"{self._base}/api/v1/chat/conversations/{quote(turn.conversation_id, safe='')}/files"


async def _answered(chat: Chat, turn: Turn, message: AgentMessage) -> Turn:
    """The turn after a message has answered what it waits for.

    Raises:
        AgentProtocolError: it does not wait, or the message is no answer.
    """
    from skillyard.permissions import ApprovalAnswer

    if turn.state != "waiting":
        hint = "wait for it, or cancel it" if turn.state == "running" else "send the message without a task to continue"
        raise unsupported(f"the task takes no message ({TASK_STATES[turn.state]}): {hint}")
    decision, reason = read_decision(message)
    for question in turn.questions:
        if question["decision"] is None and turn.state == "waiting":
            open_ = await run_in_threadpool(chat.records.turn, turn.id)
            if any(other["call"] == question["call"] and other["decision"] is None for other in open_.questions):
                turn = await chat.answer(open_, question["call"], ApprovalAnswer(decision, reason))
    return turn
