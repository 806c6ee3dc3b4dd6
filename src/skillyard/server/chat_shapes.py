"""The shapes of conversations over HTTP."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, Field

from skillyard.server.chat_events import ChatEvent, OpenQuestion, TurnState, TurnUsage
from skillyard.server.shapes import RequestBody

if TYPE_CHECKING:
    from skillyard.agent import Attachment, Conversation, Turn

__all__ = [
    "ChatCommand",
    "ChatFile",
    "ConversationChange",
    "ConversationDetail",
    "ConversationShape",
    "Decision",
    "ModelChoices",
    "NewConversation",
    "NewMessage",
    "SkillUseShape",
    "TrailReportShape",
    "TrailStep",
    "TurnShape",
    "conversation_shape",
    "file_shape",
    "turn_shape",
]


class Settings(RequestBody):
    """What holds for one conversation; see docs/agents.md."""

    system_prompt: str = Field(default="", max_length=100_000)
    skills: list[str] = Field(default=[], max_length=1000)
    permissions: dict[str, Literal["allow", "ask", "deny"]] = Field(default={})
    pinned: list[str] = Field(default=[], max_length=100)
    tools: bool = True
    index_tokens: int = Field(default=2000, ge=0, le=100_000)
    history_tokens: int = Field(default=60_000, ge=1_000, le=10_000_000)
    temperature: float | None = Field(default=None, ge=0, le=2)


class NewConversation(RequestBody):
    """A conversation to begin: with an agent, or with settings of its own; the model is the agent's when none is named."""

    agent: str | None = Field(default=None, min_length=1, max_length=300)
    model: str | None = Field(default=None, min_length=1, max_length=300)
    settings: Settings | None = None
    title: str = Field(default="", max_length=200)


class ConversationChange(RequestBody):
    """What shall be another: the title, or the model of the next turns."""

    title: str | None = Field(default=None, min_length=1, max_length=200)
    model: str | None = Field(default=None, min_length=1, max_length=300)


class ModelProvider(BaseModel):
    """A service with models: the `variable` it wants in the server's environment, and whether that is set (`ready`)."""

    name: str
    variable: str
    ready: bool
    models: list[str]


class ModelChoices(BaseModel):
    """The `usual` model, used where none is named, and the services of others."""

    usual: str | None
    providers: list[ModelProvider]


class ChatCommand(BaseModel):
    """A skill that a person starts with `/name`; `arguments` is what its author says may follow."""

    id: str
    name: str
    description: str
    arguments: str | None


class NewMessage(RequestBody):
    """What the person says; with `replaces`, the id of an earlier turn, in place of it and all after it.

    `files` are those of the conversation that the message is about.
    """

    text: str = Field(min_length=1, max_length=400_000)
    replaces: str | None = Field(default=None, max_length=100)
    files: list[str] = Field(default=[], max_length=50)


class Decision(RequestBody):
    """The answer to a question: `call` is the `id` of its `ask` event; the reason of a `reject` is told to the model."""

    call: str = Field(min_length=1, max_length=300)
    decision: Literal["once", "session", "workspace", "reject"]
    reason: str | None = Field(default=None, max_length=2_000)


class ConversationShape(BaseModel):
    """One conversation."""

    id: str
    title: str
    agent: str | None
    model: str | None
    settings: Settings
    created_at: datetime
    updated_at: datetime


class TurnError(BaseModel):
    """Why a turn failed, and how to fix it; `said` is what the service of the model said."""

    code: str
    message: str | None
    hint: str | None = None
    said: str | None = None


class ChatFile(BaseModel):
    """One file of a conversation; `origin` is `user`, or the run that wrote it."""

    name: str
    origin: str
    media_type: str
    size: int
    sha256: str
    created_at: datetime


class TrailStep(BaseModel):
    """One thing that happened to a skill in a conversation; `detail` is a file, a run, or how the turn ended."""

    at: datetime
    conversation: str
    turn: str
    event: Literal["offered", "loaded", "read", "run", "outcome"]
    skill: str | None
    detail: str | None
    ok: bool
    tokens: int
    duration_ms: int


class SkillUseShape(BaseModel):
    """What became of one skill in all conversations; see docs/agents.md."""

    skill_id: str
    offered: int
    loaded: int
    read: int
    run: int
    failed: int
    unfollowed: int
    tokens: int
    duration_ms: int
    never_used: bool
    fails_often: bool


class TrailReportShape(BaseModel):
    """Every skill in numbers, and the ids of those that somebody should look at."""

    skills: list[SkillUseShape]
    never_used: list[str]
    not_followed: list[str]
    fails_often: list[str]


class TurnShape(BaseModel):
    """One turn: what was said, what came of it, what was shown meanwhile, the questions it waits for."""

    id: str
    conversation_id: str
    number: int
    state: TurnState
    replaced: bool
    request: str
    answer: str
    events: list[ChatEvent]
    questions: list[OpenQuestion]
    model: str | None
    usage: TurnUsage | None
    error: TurnError | None
    created_at: datetime
    finished_at: datetime | None


class ConversationDetail(ConversationShape):
    """A conversation with its newest turns, how many are `earlier` than those, and its files."""

    turns: list[TurnShape]
    earlier: int
    files: list[ChatFile]


def conversation_shape(conversation: Conversation) -> ConversationShape:
    """One conversation."""
    return ConversationShape.model_validate(conversation.to_dict())


def turn_shape(turn: Turn) -> TurnShape:
    """One turn."""
    return TurnShape.model_validate(turn.to_dict())


def file_shape(file: Attachment) -> ChatFile:
    """One file."""
    return ChatFile.model_validate(file.to_dict())
