"""The shapes of conversations: turns, their events as they are streamed and kept, questions, files of workspaces."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, Field
from pydantic_core import PydanticCustomError

from skillyard.conversations import Attachment
from skillyard.conversations.conversation import TurnState
from skillyard.conversations.skill_usage import SkillUsage
from skillyard.errors import InvalidInput
from skillyard.permissions import RuleLevel, SkillToolName, WorkspaceToolName, parse_tool_rule
from skillyard.server.shapes import RequestBody, ResponseShape
from skillyard.server.shapes.run_shapes import RunStep


class TurnBegan(BaseModel):
    """A turn begins; whatever was shown of it before is shown again."""

    event: Literal["begin"] = "begin"
    turn: str
    conversation: str
    model: str | None = None


class TextWritten(BaseModel):
    """The model writes."""

    event: Literal["text"] = "text"
    delta: str


class ToolCalled(BaseModel):
    """The model calls a tool."""

    event: Literal["call"] = "call"
    id: str
    tool: str
    arguments: Any = None
    at: datetime | None = None


class QuestionFile(BaseModel):
    """One file of a skill that is asked about."""

    name: str
    size: int


class SkillQuestion(BaseModel):
    """The question whether a skill, with exactly this content, may be used: what it is for, its files, what it may do."""

    type: Literal["skill"] = "skill"
    title: str
    skillId: str  # noqa: N815 # the API's own spelling
    skillName: str  # noqa: N815
    description: str = ""
    digest: str
    files: list[QuestionFile] = []
    may: list[str] = []
    source: str | None = None


class CommandQuestion(BaseModel):
    """The question whether a tool may be called so: the very command, code or path (`argument`), and the `files` it names.

    `content` is what would be written, what replaced by what, or the pattern of a search, cut at 20,000 characters.

    `level` and `rule` say who asks, `part` about what of it. `skills` are the names of the skills that are followed.
    """

    type: Literal["command"]
    title: str
    digest: str
    tool: str
    argument: str
    content: str | None = None
    folder: str
    part: str = ""
    files: list[str] = []
    level: RuleLevel | None = None
    rule: str | None = None
    reason: str = ""
    skills: list[str] = []


class OpenSkillQuestion(SkillQuestion):
    """A question about a skill, of a turn that waits; `call` names the call, `decision` is an answer that is there already."""

    call: str
    decision: str | None = None


class OpenCommandQuestion(CommandQuestion):
    """The same about a call of a tool."""

    call: str
    decision: str | None = None


OpenQuestion = OpenSkillQuestion | OpenCommandQuestion


class ApprovalAsked(BaseModel):
    """A call waits until somebody has answered."""

    event: Literal["ask"] = "ask"
    id: str
    question: SkillQuestion | CommandQuestion
    at: datetime | None = None


class OutputPrinted(BaseModel):
    """The script or command of a call prints; not kept after the turn, the record of its run, or its `result`, has it."""

    event: Literal["log"] = "log"
    id: str
    stream: Literal["stdout", "stderr"]
    text: str


class StepEnded(BaseModel):
    """A step of the script of a call has ended; not kept after the turn, the record of its run has it."""

    event: Literal["step"] = "step"
    id: str
    step: RunStep


class ToolReturned(BaseModel):
    """What a tool gave; `text` is cut, `skill` and `run` name what it was about; `tokens` is what the model was given.

    `exit_code` is a command's; `rule` says which rule of whom has decided about the call.
    """

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
    exit_code: int | None = None
    rule: str | None = None
    at: datetime | None = None


class FileRemoved(BaseModel):
    """A recorded file is gone: a command has deleted it."""

    event: Literal["file_removed"] = "file_removed"
    name: str


class FileAdded(BaseModel):
    """A file was given with the message (`origin` is `user`), or a run or a command wrote it (the id of the run or turn)."""

    event: Literal["file"] = "file"
    name: str
    size: int
    media_type: str
    origin: str


class NoticeShown(BaseModel):
    """A notice; `detail` has more, such as the summary that replaces the beginning from now on."""

    event: Literal["notice"] = "notice"
    text: str
    detail: str | None = None


class ModelRequest(BaseModel):
    """One request to the model: when it began, until its response was there, and the tokens of both."""

    began_at: datetime
    duration_ms: int
    input_tokens: int
    output_tokens: int


class UsageReported(BaseModel):
    """What the turn has used so far, and the request that was answered last."""

    event: Literal["usage"] = "usage"
    input_tokens: int
    output_tokens: int
    requests: int
    request: ModelRequest | None = None


class TurnFailed(BaseModel):
    """The turn failed; `said` is the message of the model's service, without any key."""

    event: Literal["error"] = "error"
    code: str
    message: str
    hint: str | None = None
    said: str | None = None


class TurnEnded(BaseModel):
    """The last event; a turn that is `waiting` continues when its requests for approval are answered."""

    event: Literal["end"] = "end"
    state: TurnState
    answer: str


class TurnUsage(BaseModel):
    """What a turn has used; a summary of the history counts too."""

    input_tokens: int = 0
    output_tokens: int = 0
    requests: int = 0


ChatEvent = Annotated[
    TurnBegan
    | TextWritten
    | ToolCalled
    | ApprovalAsked
    | OutputPrinted
    | StepEnded
    | ToolReturned
    | FileAdded
    | FileRemoved
    | NoticeShown
    | UsageReported
    | TurnFailed
    | TurnEnded,
    Field(discriminator="event"),
]
"""The `data` of one server-sent event; its `event` field is the name of the event."""


def _checked_rule(text: str) -> str:
    """The text of a rule, so that a fault names its list and its place there."""
    try:
        parse_tool_rule(text)
    except InvalidInput as error:
        raise PydanticCustomError("invalid_rule", "{fault}", {"fault": f"{error}; {error.hint}"}) from None
    return text


RuleList = Annotated[list[Annotated[str, Field(max_length=400), AfterValidator(_checked_rule)]], Field(max_length=500)]
Permission = Literal["allow", "ask", "deny"]
ToolName = Literal[SkillToolName, WorkspaceToolName]
"""A tool that can be switched."""


class ToolRules(RequestBody):
    """Rules about tools such as `Bash(git push:*)`, and the default for the rest."""

    allow: RuleList | None = None
    ask: RuleList | None = None
    deny: RuleList | None = None
    default: Permission | None = None


class ConversationSettings(RequestBody):
    """What holds for one conversation; see docs/agents.md."""

    system_prompt: str = Field(default="", max_length=100_000)
    skills: list[str] = Field(default=[], max_length=1000)
    permissions: dict[str, Literal["allow", "ask", "deny"]] = Field(default={})
    pinned: list[str] = Field(default=[], max_length=100)
    tools: bool = True
    workspace: bool = True
    tool_permissions: dict[ToolName, Permission] = Field(default={})
    commands: ToolRules = ToolRules()
    index_tokens: int = Field(default=2000, ge=0, le=100_000)
    history_tokens: int = Field(default=60_000, ge=1_000, le=10_000_000)
    temperature: float | None = Field(default=None, ge=0, le=2)
    pictures: bool = True


class NewConversation(RequestBody):
    """A conversation to begin: with an agent, or with settings of its own; the model is the agent's when none is named.

    `folder` is a folder of the server's machine to work in, with the skills of the project there: for who sits at that machine.
    """

    agent: str | None = Field(default=None, min_length=1, max_length=300)
    model: str | None = Field(default=None, min_length=1, max_length=300)
    settings: ConversationSettings | None = None
    title: str = Field(default="", max_length=200)
    folder: str | None = Field(default=None, min_length=1, max_length=4096)


class ConversationChange(RequestBody):
    """What shall be another: the title, or the model of the next turns."""

    title: str | None = Field(default=None, min_length=1, max_length=200)
    model: str | None = Field(default=None, min_length=1, max_length=300)


class NewMessage(RequestBody):
    """A person's message; with `replaces`, the id of an earlier turn, in place of it and all after it.

    `files` are those of the conversation that the message is about.
    """

    text: str = Field(min_length=1, max_length=400_000)
    replaces: str | None = Field(default=None, max_length=100)
    files: list[str] = Field(default=[], max_length=50)


class QuestionAnswer(RequestBody):
    """The answer to a question: `call` is the `id` of its `ask` event; the reason of a `reject` is sent to the model."""

    call: str = Field(min_length=1, max_length=300)
    decision: Literal["once", "session", "workspace", "reject"]
    reason: str | None = Field(default=None, max_length=2_000)


class ConversationShape(ResponseShape):
    """One conversation."""

    id: str
    title: str
    agent: str | None
    model: str | None
    settings: ConversationSettings
    folder: str | None = Field(default=None, description="the folder of the user's own that it works in")
    created_at: datetime
    updated_at: datetime


class TurnError(BaseModel):
    """Why a turn failed, and how to fix it; `said` is the message of the model's service."""

    code: str
    message: str | None
    hint: str | None = None
    said: str | None = None


class SkillUsageReportShape(BaseModel):
    """Every skill in numbers, and the ids of those that somebody should look at."""

    skills: list[SkillUsage]
    never_used: list[str]
    not_followed: list[str]
    fails_often: list[str]


class WorkspaceEntryShape(BaseModel):
    """One file or folder of a workspace; `origin` is `user` or the run or turn that wrote it, where that is recorded."""

    path: str
    kind: Literal["file", "folder"]
    size: int
    modified: datetime
    media_type: str | None
    origin: str | None


class WorkspaceFiles(BaseModel):
    """What lies in a workspace, by path; `truncated` says that there is more, `size` is that of the listed files in bytes."""

    entries: list[WorkspaceEntryShape]
    truncated: bool
    size: int


class TurnShape(ResponseShape):
    """One turn: the request, the answer, the events shown meanwhile, the questions it waits for."""

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


class WaitingCall(BaseModel):
    """One call of the model that waits."""

    id: str
    tool: str
    arguments: Any = None


class ConversationQuestion(ResponseShape):
    """An open question of a conversation: where it is asked, and all calls that wait for the answer.

    `request` is the message of the turn, `since` when the turn began.
    """

    conversation_id: str
    conversation_title: str
    agent: str | None
    turn_id: str
    request: str
    question: OpenQuestion
    calls: list[WaitingCall]
    since: datetime


class ConversationDetail(ConversationShape):
    """A conversation with its newest turns, how many are `earlier` than those, and its files."""

    turns: list[TurnShape]
    earlier: int
    files: list[Attachment]
