"""The shapes of runs: what one is given, now or by a schedule; a line of a list, a whole run, its events; and insights.

What a request names is resolved to files.
"""

from __future__ import annotations

import base64
import binascii
from datetime import date, datetime
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from skillyard.engine import FINAL_STATES, RunState
from skillyard.errors import InvalidInput
from skillyard.execution import WorkFile, check_travelling
from skillyard.execution.run_inputs import ALL_FILES, LARGEST_FILE, MOST_ARGUMENTS, MOST_FILES, MOST_PACKAGES
from skillyard.insights import UsagePeriod
from skillyard.network import Contact
from skillyard.sandbox import Limit
from skillyard.server.shapes import Listed, Meta, RequestBody, ResponseShape

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skillyard.engine import RunFiles


OWNERS: Final = ("userId", "householdId", "taskId", "groupId")
"""Keys of a context that say whose memories a run may keep: the server says them."""
PackageName = Annotated[str, StringConstraints(min_length=1, max_length=200)]


class GivenFile(RequestBody):
    """A file that a script is given: its path in the work folder, and its content in base64 or the id of an upload."""

    name: str = Field(default="", max_length=200, description="left out with an upload: the name it was uploaded under")
    content: str | None = Field(default=None, description="the bytes in base64; larger files are uploaded first")
    upload: str | None = Field(default=None, max_length=60, description="what POST /api/v1/runs/uploads answered")

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.content is None) == (self.upload is None) or (self.upload is None and not self.name):
            raise ValueError("give a file either a name and a content, or an upload")
        return self


class RunInput(RequestBody):
    """What a run is given beside its skill.

    `entry` is another script of the skill: its path, or `package.module` as for `python -m`. `arguments` are its command line,
    `packages` what it gets beside its skill's: `pypdf`, `npm:docx`. The script begins in an empty folder with the `files`.
    """

    parameters: dict[str, Any] = Field(default={})
    context: dict[str, Any] = Field(default={}, description="the caller, for the skill; the server sets the user of the run")
    entry: str | None = Field(default=None, min_length=1, max_length=500)
    arguments: list[str] = Field(default=[], max_length=MOST_ARGUMENTS)
    packages: list[PackageName] = Field(default=[], max_length=MOST_PACKAGES)
    files: list[GivenFile] = Field(
        default=[],
        max_length=MOST_FILES,
        description=f"at most {LARGEST_FILE >> 20} MiB each and {ALL_FILES >> 20} MiB together",
    )

    def context_of(self, owner: str) -> dict[str, Any]:
        """As `owned_context`."""
        return owned_context(self.context, owner)

    def given_files(self, kept: RunFiles, uploader: str) -> tuple[WorkFile, ...]:
        """The files, those that `uploader` has uploaded too. Blocks.

        Raises:
            InvalidInput, FileTooLarge: a name, content, argument or package cannot be one, or there is too much.
            FileMissing: there is no such upload.
        """
        uploads = kept.uploaded(uploader, self.uploads) if self.uploads else {}
        files = tuple(_file(given, uploads) for given in self.files)
        check_travelling(self.arguments, self.packages, files)
        return files

    @property
    def uploads(self) -> list[str]:
        """The ids of the uploads that are named."""
        return [file.upload for file in self.files if file.upload is not None]


def owned_context(context: dict[str, Any], owner: str) -> dict[str, Any]:
    """The context of a run for `owner`.

    Raises:
        InvalidInput: it names whose memories it may keep.
    """
    if named := [key for key in OWNERS if key in context and context[key] != owner]:
        raise InvalidInput(f"the context may not say {', '.join(named)}", hint="the server sets the user of a run")
    return {**context, "userId": owner}


def _file(given: GivenFile, uploads: dict[str, WorkFile]) -> WorkFile:
    if given.upload is not None:
        kept = uploads[given.upload]
        return WorkFile(given.name or kept.name, kept.data)
    try:
        return WorkFile(given.name, base64.b64decode(given.content or "", validate=True))
    except binascii.Error:
        raise InvalidInput(f"the content of {given.name!r} is not base64", hint="encode its bytes in base64") from None


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
    """One run in a list; `schedule` is the name of the one that requested it, `version` what the skill declared then.

    `interface`, `caller` and `agent` say where it was asked for; a run of an older release does not know.
    """

    run_id: str
    skill: str
    skill_name: str
    state: RunState
    status: str | None
    error: RunFault | None
    cache_hit: bool
    schedule: str | None
    interface: str | None
    caller: str | None
    agent: str | None
    version: str | None
    duration_ms: int | None
    created_at: str
    finished_at: str | None


class ListedRun(RunSummary):
    """A run in a list; if the runs of a schedule are folded, it represents `runs` of them, of which `failures` failed."""

    runs: int = 1
    failures: int | None = Field(default=None, description="null where nothing is folded")


class RunListMeta(Meta):
    """The position of a page in the list; `runs` is the number of runs that all rows represent."""

    runs: int


class ListedRuns(Listed[ListedRun]):
    """One page of the list of runs."""

    meta: RunListMeta


class RunPeriodCounts(ResponseShape):
    """How many runs of a period that begins with that day are in each state; `open` ones wait or work."""

    day: date
    succeeded: int = 0
    failed: int = 0
    interrupted: int = 0
    cancelled: int = 0
    open: int = 0

    @classmethod
    def in_states(cls, day: date, states: Mapping[RunState, int]) -> Self:
        """Of the counts by state."""
        ended = {state: many for state, many in states.items() if state in FINAL_STATES}
        return cls(day=day, open=sum(states.values()) - sum(ended.values()), **ended)


class RunCounts(ResponseShape):
    """The runs of a span of days, both included and those of UTC, by `period`: a day each, or seven where it is long."""

    since: date
    until: date
    period: UsagePeriod
    periods: list[RunPeriodCounts]


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
