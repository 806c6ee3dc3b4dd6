"""What a model is given and may call, over HTTP: the index for its system prompt, the tools, and their answers."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool

from skillyard.access import about
from skillyard.prompt import Style
from skillyard.server.callers import Asking, needs
from skillyard.server.problems import READING, WRITING
from skillyard.server.service import Served
from skillyard.server.shapes import Answer, RequestBody
from skillyard.tools import Dialect, Language

__all__ = ["LOOKING", "routes"]

routes: Final = APIRouter(prefix="/api/v1", tags=["models"], dependencies=[needs("skills:read")])
LOOKING: Final = frozenset({"skill", "skills_list", "skills_load", "read_skill_file", "search_skills"})  # leave no trail

_Language = Annotated[Language, Query(description="the language of the tools' descriptions and answers")]


class OmittedSkill(BaseModel):
    """A skill that the index does not mention, and why."""

    id: str
    reason: str


class IndexDetail(BaseModel):
    """The index for a system prompt: its text, what it costs, and what became of each skill.

    `more` of the omitted ones could be used but had no room.
    """

    text: str
    tokens: int
    kept: list[str]
    shortened: list[str]
    omitted: list[OmittedSkill]
    more: int
    style: Style
    budget: int | None


class ToolDefinitions(BaseModel):
    """The tools that something can be done with now, as the list that an API of that dialect takes."""

    dialect: Dialect
    tools: list[dict[str, Any]]


class ToolCall(RequestBody):
    """What a model asked for; `arguments` is the object it sent, or its JSON text. `session` names the conversation."""

    name: str = Field(min_length=1, max_length=200)
    arguments: dict[str, Any] | str = Field(default={})
    session: str = Field(default="default", min_length=1, max_length=200)
    message_id: str | None = Field(default=None, max_length=200)
    call_id: str | None = Field(default=None, max_length=200)
    language: Language = "en"


class ToolAnswer(BaseModel):
    """What goes back to the model is `text`; when the tool said no, `code` says why. `data` is the same for programs."""

    ok: bool
    text: str
    code: str | None
    title: str | None
    data: dict[str, Any]


class SessionEnded(BaseModel):
    """The conversation that was forgotten."""

    session: str


@routes.get("/prompt", responses=READING)
def prompt(
    service: Served,
    style: Style = "compact",
    budget: Annotated[int | None, Query(ge=0, le=1_000_000, description="tokens; 2000 when absent")] = 2000,
    request: Annotated[str | None, Query(max_length=2000, description="the skills that fit it come first")] = None,
    pin: Annotated[list[str], Query(max_length=500, description="skills that are listed first")] = [],  # noqa: B006
    description_chars: Annotated[int, Query(ge=0, le=10_000)] = 200,
) -> Answer[IndexDetail]:
    """The index of the skills for a system prompt, inside a token budget."""
    index = service.catalog.prompt(budget=budget, style=style, request=request, pinned=pin, description_chars=description_chars)
    return Answer(data=IndexDetail.model_validate(index.to_dict()))


@routes.get("/tool-definitions", responses=READING)
def tool_definitions(
    service: Served,
    caller: Asking,
    dialect: Dialect = "openai",
    language: _Language = "en",
    abp_tools: Annotated[bool, Query(description="also the tools that skills declare for the ABP protocol")] = False,
) -> Answer[ToolDefinitions]:
    """The tools for a model; ask again each turn, because the names in them follow the catalog."""
    tools = service.tools.of(service.catalog, service.owner(caller), language)
    return Answer(data=ToolDefinitions(dialect=dialect, tools=tools.definitions(dialect, abp_tools=abp_tools)))


@routes.post("/tools/call", responses=WRITING, dependencies=[needs("runs:execute")])
async def call_tool(service: Served, caller: Asking, request: Request, body: ToolCall) -> Answer[ToolAnswer]:
    """Do what a model asked for. A tool that says no is no error: `ok` is false, and `text` tells the model what to do.

    A session remembers what it has loaded. Where a rule says `ask` the answer is no, unless the workspace has agreed before.
    """
    request.state.unrecorded = body.name in LOOKING
    about(str(body.arguments.get("name", body.name)) if isinstance(body.arguments, dict) else body.name)
    tools = await run_in_threadpool(service.tools.of, service.catalog, service.owner(caller), body.language)
    owner = service.owner(caller)
    before = await run_in_threadpool(service.tools.take_up, tools, owner, body.session)
    result = await tools.call(body.name, body.arguments, session=body.session, message_id=body.message_id, call_id=body.call_id)
    await run_in_threadpool(service.tools.keep, tools, owner, body.session, before)
    shape = {"ok": result.ok, "text": result.text, "code": result.code, "title": result.title, "data": dict(result.data)}
    return Answer(data=ToolAnswer.model_validate(shape))


@routes.delete("/tools/sessions/{session}", responses=WRITING, dependencies=[needs("runs:execute")])
def end_session(service: Served, caller: Asking, session: str, language: _Language = "en") -> Answer[SessionEnded]:
    """Forget what a conversation loaded, and what was approved for it."""
    owner = service.owner(caller)
    service.tools.end(service.tools.of(service.catalog, owner, language), owner, session)
    return Answer(data=SessionEnded(session=session))
