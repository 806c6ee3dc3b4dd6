"""The shapes of runs: one line of a list, a whole run, and the events of one that goes on."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from skillyard.engine import RunState
from skillyard.network import Contact
from skillyard.sandbox import Limit
from skillyard.server.shapes import ResponseShape


class RunFault(BaseModel):
    """Why a run did not succeed: a stable code, and a sentence."""

    code: str
    message: str | None


class RunStep(ResponseShape):
    """One step that the skill reported; `duration` in milliseconds."""

    stepId: str  # noqa: N815 # the API's own spelling
    stepName: str  # noqa: N815
    input: Any = None
    output: Any = None
    duration: float = 0
    error: Any = None
    timestamp: Any = None


class RunMemoryWrite(BaseModel):
    """What the skill wanted remembered; `saved` and `memoryId`, or the `reason` it was not."""

    model_config = ConfigDict(extra="allow")

    ownerType: str  # noqa: N815
    ownerId: str  # noqa: N815
    type: str
    importance: float
    normalizedImportance: float  # noqa: N815
    content: str
    metadata: dict[str, Any] = {}
    saved: bool | None = None
    memoryId: str | None = None  # noqa: N815
    reason: str | None = None


class RunAttempt(BaseModel):
    """An attempt at the run before its last."""

    number: int
    error: RunFault
    started_at: str | None
    finished_at: str


class RunSummary(BaseModel):
    """One run in a list; `schedule` is the name of the one that requested it."""

    run_id: str
    skill: str
    skill_name: str
    state: RunState
    status: str | None
    error: RunFault | None
    cache_hit: bool
    schedule: str | None
    duration_ms: int | None
    created_at: str
    finished_at: str | None


class RunDetail(RunSummary, ResponseShape):
    """A run with its whole record. Values under a secret's name are redacted; logs are kept to their end.

    `status` is how its process ended (`ok`, `error`, `timeout`, …), `ran_as` the kind that did the work in the end, `files` the
    names of what it made, `memory_usage` the most bytes of memory it used at once. Strings in
    `output`, `stdout` and `stderr` come from the skill: show them as text.
    """

    kind: str
    entry: str | None
    digest: str | None
    parameters: dict[str, Any]
    context: dict[str, Any]
    output: Any
    format: str | None
    message: str | None
    warnings: list[str]
    limits: list[Limit]
    memory_writes: list[RunMemoryWrite]
    token_usage: float | dict[str, Any] | None
    contacts: list[Contact]
    ran_as: str | None
    isolation: str | None
    interpreter: str | None
    stdout: str
    stderr: str
    cached_from: str | None
    started_at: str | None
    expires_at: str | None
    steps: list[RunStep]
    priority: int
    attempt: int
    attempts: list[RunAttempt]
    arguments: list[str]
    packages: list[str]
    files: list[str]
    exit_code: int | None
    memory_usage: int | None


class RunStateChanged(BaseModel):
    """The run is in another state."""

    event: Literal["state"] = "state"
    run_id: str
    state: RunState


class RunPrinted(BaseModel):
    """The run wrote lines to one of its streams."""

    event: Literal["log"] = "log"
    stream: Literal["stdout", "stderr"]
    text: str


class RunStepEnded(BaseModel):
    """A step, in the order the skill took them."""

    event: Literal["step"] = "step"
    step: RunStep


class RunQuestionAsked(BaseModel):
    """The run waits for the answer to a question: `POST /api/v1/approvals/questions/{question}`."""

    event: Literal["asked"] = "asked"
    question: str
    title: str
    expires_at: datetime


class RunEnded(BaseModel):
    """The run has ended; nothing comes after this."""

    event: Literal["end"] = "end"
    run: RunDetail


RunEvent = Annotated[
    RunStateChanged | RunPrinted | RunStepEnded | RunQuestionAsked | RunEnded,
    Field(discriminator="event"),
]
"""The `data` of one server-sent event; its `event` field is the name of the event."""
