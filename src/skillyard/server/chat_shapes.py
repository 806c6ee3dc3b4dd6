"""The shapes of conversations over HTTP, and of the events of a turn."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

if TYPE_CHECKING:
    from skillyard.agent import Attachment, Conversation, Turn

__all__ = [
    "ChatEvent",
    "ChatFile",
    "ConversationDetail",
    "ConversationShape",
    "Decision",
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

TurnState = Literal["running", "waiting", "done", "failed", "stopped", "interrupted"]


class Settings(BaseModel):
    """What holds for one conversation; see docs/agents.md."""

    model_config = ConfigDict(extra="forbid")

    system_prompt: str = Field(default="", max_length=100_000)
    skills: list[str] = Field(default=[], max_length=1000)
    permissions: dict[str, Literal["allow", "ask", "deny"]] = {}
    pinned: list[str] = Field(default=[], max_length=100)
    tools: bool = True
    index_tokens: int = Field(default=2000, ge=0, le=100_000)
    history_tokens: int = Field(default=60_000, ge=1_000, le=10_000_000)
    temperature: float | None = Field(default=None, ge=0, le=2)


class NewConversation(BaseModel):
    """A conversation to begin: with an agent, or with settings of its own; the model is the agent's when none is named."""

    model_config = ConfigDict(extra="forbid")

    agent: str | None = Field(default=None, min_length=1, max_length=300)
    model: str | None = Field(default=None, min_length=1, max_length=300)
    settings: Settings | None = None
    title: str = Field(default="", max_length=200)


class NewMessage(BaseModel):
    """What the person says; with `replaces`, the id of an earlier turn, in place of it and all after it."""

    model_config = ConfigDict(extra="forbid")

    text: str = Field(min_length=1, max_length=400_000)
    replaces: str | None = Field(default=None, max_length=100)


class Decision(BaseModel):
    """The answer to a question: `call` is the `id` of its `ask` event; the reason of a `reject` is told to the model."""

    model_config = ConfigDict(extra="forbid")

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
    """Why a turn failed."""

    code: str
    message: str | None


class TurnShape(BaseModel):
    """One turn: what was said, what came of it, what was shown meanwhile, the questions it waits for."""

    id: str
    conversation_id: str
    number: int
    state: TurnState
    replaced: bool
    request: str
    answer: str
    events: list[dict[str, Any]]
    questions: list[dict[str, Any]]
    model: str | None
    usage: dict[str, Any] | None
    error: TurnError | None
    created_at: datetime
    finished_at: datetime | None


class ChatFile(BaseModel):
    """One file of a conversation; `origin` is `user`, or the run that wrote it."""

    name: str
    origin: str
    media_type: str
    size: int
    sha256: str
    created_at: datetime


class ConversationDetail(ConversationShape):
    """A conversation with its turns and files."""

    turns: list[TurnShape]
    files: list[ChatFile]


class Began(BaseModel):
    """A turn begins; whatever was shown of it before is shown again."""

    event: Literal["begin"] = "begin"
    turn: str
    conversation: str
    model: str | None = None


class Wrote(BaseModel):
    """The model writes."""

    event: Literal["text"] = "text"
    delta: str


class Called(BaseModel):
    """The model calls a tool."""

    event: Literal["call"] = "call"
    id: str
    tool: str
    arguments: Any = None


class Asked(BaseModel):
    """A call waits until somebody has answered."""

    event: Literal["ask"] = "ask"
    id: str
    question: dict[str, Any]


class Gave(BaseModel):
    """What a tool gave; `text` is cut, `skill` and `run` name what it was about."""

    event: Literal["result"] = "result"
    id: str
    tool: str
    ok: bool
    title: str | None = None
    code: str | None = None
    text: str = ""
    skill: str | None = None
    run: str | None = None


class Filed(BaseModel):
    """A file is new, or has changed."""

    event: Literal["file"] = "file"
    name: str
    size: int
    media_type: str
    origin: str


class Noticed(BaseModel):
    """Something worth knowing."""

    event: Literal["notice"] = "notice"
    text: str


class Used(BaseModel):
    """What the turn has used so far."""

    event: Literal["usage"] = "usage"
    input_tokens: int
    output_tokens: int
    requests: int


class Failed(BaseModel):
    """The turn failed."""

    event: Literal["error"] = "error"
    code: str
    message: str
    hint: str | None = None


class Ended(BaseModel):
    """Nothing comes after this; a turn that is `waiting` goes on when its questions are answered."""

    event: Literal["end"] = "end"
    state: TurnState
    answer: str


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


ChatEvent = Annotated[
    Began | Wrote | Called | Asked | Gave | Filed | Noticed | Used | Failed | Ended,
    Field(discriminator="event"),
]
"""The `data` of one server-sent event; its `event` field is the name of the event."""


def conversation_shape(conversation: Conversation) -> ConversationShape:
    """One conversation."""
    return ConversationShape.model_validate(conversation.to_dict())


def turn_shape(turn: Turn) -> TurnShape:
    """One turn."""
    return TurnShape.model_validate(turn.to_dict())


def file_shape(file: Attachment) -> ChatFile:
    """One file."""
    return ChatFile.model_validate(file.to_dict())
