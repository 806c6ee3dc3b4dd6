"""Shapes of workspaces, of conversations and of callers: their state, their files and previews, calls of their tools."""

from __future__ import annotations

import base64
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, Field

from skillyard.permissions import WorkspaceToolName
from skillyard.server.shapes import RequestBody, ResponseShape
from skillyard.workspace import BackgroundProcess

if TYPE_CHECKING:
    from skillyard.workspace import WorkspaceAnswer


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


class WorkspaceStateShape(ResponseShape):
    """The workspace of a conversation: whether it has one (else `reason` says why not), and the state of its session.

    `path` is the folder as commands see it, `working_folder` where the next one begins; `is_open` says that a session stands.
    """

    enabled: bool
    reason: str | None
    path: str | None
    is_open: bool
    working_folder: str | None
    processes: list[BackgroundProcess]


class NewWorkspace(RequestBody):
    """A workspace to create, under an `id` of the caller's choice or, without one, a new one."""

    id: str | None = Field(default=None, min_length=1, max_length=128)


class CallerWorkspace(ResponseShape):
    """One workspace: its id, whose it is, when it was created."""

    id: str
    owner: str
    created_at: datetime


class CallerWorkspaceDetail(CallerWorkspace):
    """The same, with its session: whether one is open, its folder as commands see it, and its background processes."""

    open: bool
    working_folder: str | None
    processes: list[BackgroundProcess]


class WorkspaceCall(RequestBody):
    """A tool to call, with the arguments of its schema: `bash` with a `command`, `file_read` with a `file_path`."""

    tool: WorkspaceToolName
    arguments: dict[str, Any] = Field(default={})


class WorkspacePicture(ResponseShape):
    """A picture that a tool gives: its media type, and its bytes as base64."""

    media_type: str
    data: str


class WorkspaceCallAnswer(ResponseShape):
    """What a tool answers: `text` is for a model, `data` the same for programs.

    When it was not done `ok` is false and `code` says why. `exit_code` and `signal` are a command's; `fresh` says that an
    earlier shell of the workspace is gone; `output_file` is the path of the whole output where `text` is cut; `process` is the
    id of a background process.
    """

    tool: str
    text: str
    ok: bool
    code: str | None
    exit_code: int | None
    signal: int | None
    duration_ms: int
    fresh: bool
    output_file: str | None
    process: str | None
    data: dict[str, Any]
    images: list[WorkspacePicture]

    @classmethod
    def made_of(cls, answer: WorkspaceAnswer) -> WorkspaceCallAnswer:
        """An answer in this shape."""
        images = [
            {"media_type": image.media_type, "data": base64.b64encode(image.data).decode("ascii")} for image in answer.images
        ]
        return cls.model_validate({**answer.to_dict(), "images": images})


class WorkspaceOutput(ResponseShape):
    """A piece of what a command writes."""

    event: Literal["output"] = "output"
    stream: Literal["stdout", "stderr"]
    text: str


class WorkspaceCallEnded(ResponseShape):
    """The call has ended: its answer."""

    event: Literal["end"] = "end"
    answer: WorkspaceCallAnswer


WorkspaceCallEvent = Annotated[WorkspaceOutput | WorkspaceCallEnded, Field(discriminator="event")]
