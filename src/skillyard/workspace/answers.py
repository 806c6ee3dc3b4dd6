"""The answers of a workspace's tools: values with stable codes, cut fairly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from skillyard.errors import SkillyardError
from skillyard.text import sanitize
from skillyard.wire import WireForm, wire

ToolName = Literal["bash", "code_run", "file_read", "file_write", "file_edit", "file_list", "file_search"]
FRESH_NOTE: Final = (
    "[The shell is fresh: an earlier session of this workspace has ended. Files are as they were; the working folder, "
    "variables and background processes are not.]"
)

RENEWED_NOTE: Final = (
    "[A new session took over, because other skills, packages or settings of the project are there now. Files, the working "
    "folder and variables are as they were; background processes and files in /tmp are not.]"
)


@dataclass(frozen=True, slots=True)
class WorkspaceImage:
    """A picture for a model that takes pictures: `media_type` as in HTTP, and the bytes of the file."""

    media_type: str
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class WorkspaceAnswer(WireForm):
    """What one tool of a workspace answers.

    `text` is for the model, at most about the `answer_characters` of the options. `ok` says whether it was done; when not,
    `code` is one of: `command_failed` (it ended with another exit code than 0), `timeout`, `interrupted`, `output_limit`,
    `memory_limit`, `process_limit`, `disk_full` (the folder or `/tmp` takes no more), `session_ended`, or a code of
    `skillyard.errors` (`permission_denied`, `held_back`, `file_not_found`, `path_refused`, `file_too_large`, `binary_file`,
    `invalid_input`, `runtime_unavailable`, `sandbox_unavailable`). `exit_code` and `signal` are a command's. `fresh` says that
    an earlier shell of this workspace is gone and a new one was begun for this call. `output_file` is the path, as the sandbox
    sees it, of the whole output when `text` has only its head and tail. `process` is the id of a background process. `images`
    are for models that take pictures. `data` is the same answer for programs.
    """

    tool: str
    text: str
    ok: bool = True
    code: str | None = None
    exit_code: int | None = None
    signal: int | None = None
    duration_ms: int = 0
    fresh: bool = False
    output_file: str | None = None
    process: str | None = None
    images: tuple[WorkspaceImage, ...] = field(default=(), metadata=wire(hidden=True))
    data: Mapping[str, Any] = field(default_factory=dict, hash=False)


def refusal_answer(tool: str, error: SkillyardError, **more: Any) -> WorkspaceAnswer:
    """An error as an answer: what happened and how to fix it, never an exception into a model's loop."""
    text = sanitize(f"Error: {error.message}" + (f"\n{error.hint}" if error.hint else ""))
    return WorkspaceAnswer(tool, text, ok=False, code=error.code, data=error.to_dict(), **more)


def cut_output(text: str, limit: int) -> str | None:
    """The head and the tail of a text of over `limit` characters, at ends of lines where there are any; else None."""
    if len(text) <= limit:
        return None
    half = max(limit // 2, 1)
    head, tail = text[:half], text[-half:]
    if "\n" in head[half // 2 :]:
        head = head[: head.rindex("\n") + 1]
    if "\n" in tail[: half // 2]:
        tail = tail[tail.index("\n") + 1 :]
    left_out = len(text) - len(head) - len(tail)
    return f"{head.rstrip()}\n\n[... {left_out} characters left out ...]\n\n{tail}"


def is_binary_output(data: bytes) -> bool:
    """Whether output is no text: it has NUL characters, or a tenth of it cannot be read as UTF-8."""
    sample = data[:65_536]
    if b"\0" in sample:
        return True
    text = sample.decode("utf-8", "replace")
    return text.count("\ufffd") > len(text) // 10 + 1
