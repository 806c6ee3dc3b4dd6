"""The shapes of what happens in a turn: its events, as they are streamed and as they are kept, and its questions."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from skillyard.server.run_shapes import RunStep

__all__ = ["ChatEvent", "OpenQuestion", "TurnState", "TurnUsage"]

TurnState = Literal["running", "waiting", "done", "failed", "stopped", "interrupted"]


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


class QuestionFile(BaseModel):
    """One file of a skill that is asked about."""

    name: str
    size: int


class SkillQuestion(BaseModel):
    """The question whether a skill, with exactly this content, may be used: what it is for, its files, what it may do."""

    title: str
    skillId: str  # noqa: N815 # row 001-18 spells it so
    skillName: str  # noqa: N815
    description: str = ""
    digest: str
    files: list[QuestionFile] = []
    may: list[str] = []
    source: str | None = None


class OpenQuestion(SkillQuestion):
    """A question of a turn that waits; `call` names the call, `decision` is the answer, where there is one already."""

    call: str
    decision: str | None = None


class Asked(BaseModel):
    """A call waits until somebody has answered."""

    event: Literal["ask"] = "ask"
    id: str
    question: SkillQuestion


class Printed(BaseModel):
    """The script of a call prints; not kept after the turn, the record of its run has it."""

    event: Literal["log"] = "log"
    id: str
    stream: Literal["stdout", "stderr"]
    text: str


class Stepped(BaseModel):
    """A step of the script of a call has ended; not kept after the turn, the record of its run has it."""

    event: Literal["step"] = "step"
    id: str
    step: RunStep


class Gave(BaseModel):
    """What a tool gave; `text` is cut, `skill` and `run` name what it was about; `tokens` is what the model was given."""

    event: Literal["result"] = "result"
    id: str
    tool: str
    ok: bool
    title: str | None = None
    code: str | None = None
    text: str = ""
    skill: str | None = None
    run: str | None = None
    tokens: int | None = None
    duration_ms: int | None = None


class Filed(BaseModel):
    """A file was given with the message (`origin` is `user`), or a run wrote it (`origin` is its id)."""

    event: Literal["file"] = "file"
    name: str
    size: int
    media_type: str
    origin: str


class Noticed(BaseModel):
    """Something worth knowing; `detail` is more of it, such as the summary that stands for the beginning from now on."""

    event: Literal["notice"] = "notice"
    text: str
    detail: str | None = None


class Used(BaseModel):
    """What the turn has used so far."""

    event: Literal["usage"] = "usage"
    input_tokens: int
    output_tokens: int
    requests: int


class Failed(BaseModel):
    """The turn failed; `said` is what the service of the model said, in its own words and without any key."""

    event: Literal["error"] = "error"
    code: str
    message: str
    hint: str | None = None
    said: str | None = None


class Ended(BaseModel):
    """Nothing comes after this; a turn that is `waiting` goes on when its questions are answered."""

    event: Literal["end"] = "end"
    state: TurnState
    answer: str


class TurnUsage(BaseModel):
    """What a turn has used; a summary of the history counts too."""

    input_tokens: int = 0
    output_tokens: int = 0
    requests: int = 0


ChatEvent = Annotated[
    Began | Wrote | Called | Asked | Printed | Stepped | Gave | Filed | Noticed | Used | Failed | Ended,
    Field(discriminator="event"),
]
"""The `data` of one server-sent event; its `event` field is the name of the event."""
