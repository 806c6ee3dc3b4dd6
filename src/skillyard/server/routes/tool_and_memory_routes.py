"""What a model gets over HTTP: the skill index for its system prompt, tools and their calls, MCP, and the caller's memories."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, Field, StringConstraints
from starlette.concurrency import run_in_threadpool

from skillyard.access import set_audit_subject
from skillyard.errors import RecordNotFound
from skillyard.memory import Memory, Owner, read_owner
from skillyard.prompt import Omission, Style
from skillyard.server.authorization import (
    Caller,
    CurrentCaller,
    ProjectFolder,
    folder_here,
    require_own,
    require_scope,
)
from skillyard.server.organisation_services import CurrentServices, OrganisationServices
from skillyard.server.responses import READ_PROBLEMS, WRITE_PROBLEMS
from skillyard.server.server_state import READ_ONLY_TOOLS, CurrentState
from skillyard.server.shapes import Answer, RequestBody, ResponseShape
from skillyard.tools import Dialect, Language
from skillyard.workspace import checked_folder

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send


tool_routes: Final = APIRouter(prefix="/api/v1", tags=["models"], dependencies=[require_scope("skills:read")])
_Language = Annotated[Language, Query(description="the language of the tools' descriptions and answers")]


class IndexDetail(ResponseShape):
    """The index for a system prompt: its text, what it costs, and how each skill is shown.

    `more` of the omitted ones could be used but had no room.
    """

    text: str
    tokens: int
    kept: list[str]
    shortened: list[str]
    omitted: list[Omission]
    more: int
    style: Style
    budget: int | None


class ToolDefinitions(BaseModel):
    """The tools that something can be done with now, as the list that an API of that dialect takes."""

    dialect: Dialect
    tools: list[dict[str, Any]]


class ToolCall(RequestBody):
    """A model's tool call; `arguments` is the object it sent, or its JSON text. `session` names the conversation."""

    name: str = Field(min_length=1, max_length=200)
    arguments: dict[str, Any] | str = Field(default={})
    session: str = Field(default="default", min_length=1, max_length=200)
    message_id: str | None = Field(default=None, max_length=200)
    call_id: str | None = Field(default=None, max_length=200)
    language: Language = "en"
    folder: str | None = Field(
        default=None, min_length=1, max_length=4096, description="a project folder of this machine, whose skills are used"
    )


class ToolAnswer(BaseModel):
    """What goes back to the model is `text`; when the tool refused, `code` is the reason. `data` is the same for programs."""

    ok: bool
    text: str
    code: str | None
    title: str | None
    data: dict[str, Any]


class SessionEnded(BaseModel):
    """The conversation that was forgotten."""

    session: str


@tool_routes.get("/prompt", responses=READ_PROBLEMS)
def prompt(
    service: CurrentServices,
    style: Style = "compact",
    budget: Annotated[int | None, Query(ge=0, le=1_000_000, description="tokens; 2000 when absent")] = 2000,
    request: Annotated[str | None, Query(max_length=2000, description="the skills that fit it come first")] = None,
    pin: Annotated[list[str], Query(max_length=500, description="skills that are listed first")] = [],  # noqa: B006
    description_chars: Annotated[
        int | None, Query(ge=0, le=10_000, description="characters of a description at most; 1024 when absent")
    ] = None,
    workspace: Annotated[bool, Query(description="the model has the tools of a workspace")] = False,
    folder: ProjectFolder = None,
) -> Answer[IndexDetail]:
    """The index of the skills for a system prompt, within a token budget."""
    catalog = service.catalog if folder is None else service.catalog.in_folder(checked_folder(folder))
    index = catalog.prompt(
        budget=budget, style=style, request=request, pinned=pin, description_chars=description_chars, workspace=workspace
    )
    return Answer(data=IndexDetail.of(index))


@tool_routes.get("/tool-definitions", responses=READ_PROBLEMS)
def tool_definitions(
    service: CurrentServices,
    caller: CurrentCaller,
    dialect: Dialect = "openai",
    language: _Language = "en",
    abp_tools: Annotated[bool, Query(description="also the tools that skills declare for the ABP protocol")] = False,
    folder: ProjectFolder = None,
) -> Answer[ToolDefinitions]:
    """The tools for a model; ask again each turn, because the names in them follow the catalog."""
    tools = service.tool_sessions.of(service.catalog, service.owner(caller), language, folder)
    definitions: list[Any] = [*tools.definitions(dialect, abp_tools=abp_tools)]
    return Answer(data=ToolDefinitions(dialect=dialect, tools=definitions))


@tool_routes.post("/tools/call", responses=WRITE_PROBLEMS, dependencies=[require_scope("runs:execute")])
async def call_tool(service: CurrentServices, caller: CurrentCaller, request: Request, body: ToolCall) -> Answer[ToolAnswer]:
    """Execute a model's tool call. A tool that refuses is no error: `ok` is false, and `text` has instructions for the model.

    A session remembers what it has loaded. Where a rule is `ask` the call is refused, unless the workspace has approved before.
    """
    request.state.unrecorded = body.name in READ_ONLY_TOOLS
    set_audit_subject(str(body.arguments.get("name", body.name)) if isinstance(body.arguments, dict) else body.name)
    owner, folder = service.owner(caller), folder_here(request, caller, body.folder)
    tools = await run_in_threadpool(service.tool_sessions.of, service.catalog, owner, body.language, folder)
    before = await run_in_threadpool(service.tool_sessions.resume_session, tools, owner, body.session)
    result = await tools.call(body.name, body.arguments, session=body.session, message_id=body.message_id, call_id=body.call_id)
    await run_in_threadpool(service.tool_sessions.keep, tools, owner, body.session, before)
    shape = {"ok": result.ok, "text": result.text, "code": result.code, "title": result.title, "data": dict(result.data)}
    return Answer(data=ToolAnswer.model_validate(shape))


@tool_routes.delete("/tools/sessions/{session}", responses=WRITE_PROBLEMS, dependencies=[require_scope("runs:execute")])
def end_session(
    service: CurrentServices, caller: CurrentCaller, session: str, language: _Language = "en", folder: ProjectFolder = None
) -> Answer[SessionEnded]:
    """End the session of a conversation: what it has loaded, and its approvals."""
    owner = service.owner(caller)
    service.tool_sessions.end(service.tool_sessions.of(service.catalog, owner, language, folder), owner, session)
    return Answer(data=SessionEnded(session=session))


mcp_routes: Final = APIRouter(tags=["MCP"], dependencies=[require_scope("skills:read")])


class _DelegatedResponse(Response):
    """An answer that is made while it is sent."""

    def __init__(self, answer: Callable[[Scope, Receive, Send], Awaitable[None]]) -> None:
        super().__init__()
        self._answer = answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._answer(scope, receive, send)


@mcp_routes.api_route("/mcp", methods=["GET", "POST", "DELETE"], response_class=Response, include_in_schema=False)
async def model_context(caller: CurrentCaller, state: CurrentState) -> Response:
    """One request of the Model Context Protocol."""
    endpoint = await state.endpoints.endpoint(caller.organisation, caller.may("runs:execute"), state.pool)

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        await endpoint.answer(scope, receive, send, caller=caller.key or caller.name)

    return _DelegatedResponse(answer)


memory_routes: Final = APIRouter(prefix="/api/v1/memories", tags=["memories"], dependencies=[require_scope("runs:execute")])

_Limit = Annotated[int, Query(ge=1, le=200)]
_TAG: Final = 200
_OWNER: Final = r"^(user|household|task|group):.+$"
_OneOwner = Annotated[str | None, Query(max_length=300, pattern=_OWNER, description="as `household:home`")]
_Owners = Annotated[
    list[Annotated[str, StringConstraints(max_length=300, pattern=_OWNER)]],
    Query(max_length=20, description="as `household:home`"),
]


def _whose(service: OrganisationServices, caller: Caller, owners: Sequence[str]) -> list[Owner]:
    """The owners whose memories are meant: the caller, unless an admin names others.

    Raises:
        NotYours: somebody else names others.
    """
    own = ("user", service.owner(caller))
    named = [read_owner(text) for text in owners]
    require_own("memory", all(one == own for one in named), caller)
    return named or [own]


class MemoryBody(RequestBody):
    """Something to remember; `importance` from 0 to 1."""

    content: str = Field(min_length=1, max_length=65_536)
    type: Literal["preference", "fact", "event", "summary"] = "fact"
    importance: float = Field(default=0.5, ge=0, le=1)
    tags: list[Annotated[str, Field(min_length=1, max_length=_TAG)]] = Field(default=[], max_length=50)
    knowledge_base: str | None = Field(default=None, min_length=1, max_length=_TAG)


class MemoryDetail(BaseModel):
    """One memory: whose it is, who suggested it (`source`), and in which run."""

    id: str
    owner_type: Literal["user", "household", "task", "group"]
    owner_id: str
    content: str
    type: str
    importance: float
    tags: list[str]
    knowledge_base: str | None
    source: str | None
    run_id: str | None
    timestamp: str


class RecalledMemory(MemoryDetail):
    """A memory that fits, and how well: `score` from 0 to 1."""

    score: float


class ForgottenMemory(BaseModel):
    """What was forgotten."""

    id: str


@memory_routes.get("", responses=READ_PROBLEMS)
async def list_memories(
    service: CurrentServices,
    caller: CurrentCaller,
    limit: _Limit = 50,
    owner: _Owners = [],  # noqa: B006 # FastAPI makes a new one
) -> Answer[list[MemoryDetail]]:
    """The caller's memories, the newest first; for admins those of each `owner` instead."""
    memories = await service.catalog.memory().list(user_id=None, limit=limit, owners=_whose(service, caller, owner))
    return Answer(data=[MemoryDetail.model_validate(_memory_shape(memory)) for memory in memories])


@memory_routes.get("/recall", responses=READ_PROBLEMS)
async def recall(
    service: CurrentServices,
    caller: CurrentCaller,
    q: Annotated[str, Query(min_length=1, max_length=2000)],
    limit: _Limit = 10,
    threshold: Annotated[float, Query(ge=0, le=1)] = 0.5,
    tag: Annotated[list[str], Query(max_length=50)] = [],  # noqa: B006 # FastAPI makes a new one
    knowledge_base: Annotated[str | None, Query(max_length=_TAG)] = None,
    owner: _Owners = [],  # noqa: B006 # FastAPI makes a new one
) -> Answer[list[RecalledMemory]]:
    """The caller's memories that match the words of `q`, best first; only those with every `tag`.

    For admins those of each `owner` instead.
    """
    owners = _whose(service, caller, owner)
    matches = await service.catalog.memory().recall(
        q, user_id=None, owners=owners, limit=limit, threshold=threshold, tags=tag, knowledge_base=knowledge_base
    )
    return Answer(data=[RecalledMemory.model_validate({**_memory_shape(one.memory), "score": one.score}) for one in matches])


@memory_routes.post("", status_code=201, responses=WRITE_PROBLEMS)
async def remember(service: CurrentServices, caller: CurrentCaller, body: MemoryBody) -> Answer[MemoryDetail]:
    """Save a memory of the caller."""
    metadata: dict[str, Any] = {"type": body.type, "importance": body.importance, "tags": body.tags, "source": "user"}
    if body.knowledge_base:
        metadata["knowledgeBase"] = body.knowledge_base
    saved = await service.catalog.memory().save(Memory(body.content, service.owner(caller), metadata=metadata))
    set_audit_subject(saved.id or "")
    return Answer(data=MemoryDetail.model_validate(_memory_shape(saved)))


@memory_routes.delete("/{memory_id}", responses=WRITE_PROBLEMS)
async def forget(
    service: CurrentServices, caller: CurrentCaller, memory_id: str, owner: _OneOwner = None
) -> Answer[ForgottenMemory]:
    """Delete one of the caller's memories, or as an admin one of `owner`."""
    (whose,) = _whose(service, caller, [owner] if owner else [])
    if not await service.catalog.memory().forget(memory_id, owner=whose):
        raise RecordNotFound(f"there is no memory {memory_id[:100]!r}", hint="GET /api/v1/memories lists yours")
    return Answer(data=ForgottenMemory(id=memory_id))


def _memory_shape(memory: Memory) -> dict[str, Any]:
    return {
        "id": memory.id,
        "owner_type": memory.owner[0],
        "owner_id": memory.owner[1],
        "content": memory.content,
        "type": memory.type,
        "importance": memory.importance,
        "tags": list(memory.tags),
        "knowledge_base": memory.knowledge_base,
        "source": memory.metadata.get("source"),
        "run_id": memory.metadata.get("runId"),
        "timestamp": memory.to_dict()["timestamp"],
    }
