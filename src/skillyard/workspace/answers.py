"""The answers of a workspace's tools: values with stable codes; of a command what it wrote, cut fairly, and how it ended."""

from __future__ import annotations

import codecs
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from skillyard.errors import SkillyardError
from skillyard.sandbox import StreamListener, redact
from skillyard.text import is_text, sanitize
from skillyard.wire import WireForm, wire

if TYPE_CHECKING:
    from skillyard.workspace.channel import SessionCall
    from skillyard.workspace.workspace_options import CommandListener, OutputStream, WorkspaceOptions
    from skillyard.workspace.workspace_session import BackgroundProcess, WorkspaceSession

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


_NO_NETWORK: Final = (
    "Could not resolve host", "Temporary failure in name resolution", "Network is unreachable", "EAI_AGAIN", "ENETUNREACH",
    "Name or service not known", "Address family not supported", "EAFNOSUPPORT", "No address associated with hostname",
)  # fmt: skip
_SHOWN_HOSTS: Final = 5
_CODES: Final = {
    "timeout": "timeout",
    "interrupted": "interrupted",
    "output_limit": "output_limit",
    "disk_full": "disk_full",
    "memory": "memory_limit",
    "pids": "process_limit",
    "ended": "session_ended",
    "not_started": "process_limit",
    "folder_gone": "file_not_found",
}
_SENTENCES: Final = {
    "interrupted": "[The command was interrupted; the session continues.]",
    "folder_gone": "[The working folder is gone. Nothing was executed; the next call begins in the workspace.]",
    "ended": "[The session has ended. The next call begins a fresh one; files are as they were.]",
}


async def answer_command(
    session: WorkspaceSession, tool: str, command: str, call: SessionCall, seconds: float
) -> WorkspaceAnswer:
    """The answer to a command (or code, for `code_run`) that has ended, however it did."""
    text, output_file = await _shown(session, call.output, written=call.written)
    code = _code(call)
    ending = _ending(session.options, call, seconds)
    notes = [note for note in (ending, _network(session, call, text), _missing(session.options, code, command, text)) if note]
    if code == "command_failed" and not text:
        notes.insert(0, "(no output)")
    shown = "\n".join([*([text] if text else []), *notes]) or "(no output)"
    killed = call.exit is not None and call.exit < 0
    return WorkspaceAnswer(
        tool,
        shown,
        ok=code is None,
        code=code,
        exit_code=call.exit if call.exit is not None and call.exit >= 0 else None,
        signal=-call.exit if killed and call.exit is not None else None,
        duration_ms=call.duration_ms,
        output_file=output_file,
        data={"output": text, "written_bytes": call.written, "working_folder": session.working_folder},
    )


async def answer_process(session: WorkspaceSession, process: BackgroundProcess, output: bytes) -> WorkspaceAnswer:
    """The state of a background process and its newest output."""
    text, output_file = await _shown(session, output, written=len(output))
    ended = {
        "running": f"{process.id} is running",
        "exited": f"{process.id} has ended with exit code {process.exit_code}",
        "killed": f"{process.id} was ended",
    }[process.state]
    return WorkspaceAnswer(
        "bash",
        f"[{ended} after {process.seconds} s]\n{text or '(no output)'}",
        exit_code=process.exit_code,
        process=process.id,
        output_file=output_file,
        data={**process.to_dict(), "output": text},
    )


def _missing(options: WorkspaceOptions, code: str | None, command: str, text: str) -> str:
    """What a failed command was missing, or wanted to install, and who can give it."""
    if code not in ("command_failed", "timeout"):
        return ""
    from skillyard.environments import session_hint  # only for commands that failed

    hint = session_hint(command, text, options.environment)
    return f"[{hint}]" if hint else ""


async def _shown(session: WorkspaceSession, output: bytes, *, written: int) -> tuple[str, str | None]:
    """The output as text for a model, and the file with all of it where that is not everything."""
    data = redact(output, session.options.policy.secret_values)
    if not is_text(data):
        kept = await session.keep_output(data)
        where = f"; it is in {kept}" if kept else ""
        return f"[binary output of {written} bytes is not shown{where}]", kept
    text = sanitize(data.decode("utf-8", "replace")).rstrip()
    cut = cut_output(text, session.options.answer_characters)
    if cut is None:
        return text, None
    kept = await session.keep_output(data)
    where = f"the whole output is in {kept}" if kept else "the rest could not be kept: the workspace is full"
    return f"{cut}\n[{where}]", kept


def _code(call: SessionCall) -> str | None:
    if call.reason == "exit":
        return None if call.exit == 0 else "command_failed"
    return _CODES.get(call.reason or "ended", "session_ended")


def _ending(options: WorkspaceOptions, call: SessionCall, seconds: float) -> str:
    """One sentence about an end that is not an ordinary one."""
    policy = options.policy
    match call.reason:
        case "exit" if call.exit == 0:
            return ""
        case "exit":
            return _exit_sentence(call.exit or 0, policy.file_size_mb)
        case "timeout":
            return (
                f"[The command was ended after {seconds:g} s. Give a longer timeout (at most {policy.timeout_ms} ms), or run "
                "it with background.]"
            )
        case "output_limit":
            return f"[The command was ended: it wrote over {policy.output_bytes} bytes. Send its output to a file instead.]"
        case "disk_full":
            return (
                f"[The command was ended: the workspace is full, it may hold {options.quota_mb} MiB. Nothing was "
                "deleted; delete what is not needed.]"
            )
        case "memory":
            return f"[The session was ended: it needed over {policy.memory_mb} MiB of memory. The next call begins another.]"
        case "pids":
            return f"[The session was ended: it started over {policy.pids} processes. The next call begins another.]"
        case "not_started":
            return f"[The command could not be started: {call.detail}. Stop background processes, or delete files in /tmp.]"
        case _:
            return _SENTENCES.get(call.reason or "ended", _SENTENCES["ended"])


def _exit_sentence(code: int, file_size_mb: int) -> str:
    number = -code if code < 0 else code - 128
    if number == signal.SIGXFSZ:
        return f"[A file grew over {file_size_mb} MiB, which is the most one file may have; its writer was ended.]"
    if code < 0 or code > 128:
        name = next((one.name for one in signal.Signals if one == number), "")
        return f"[exit code {code if code >= 0 else 128 - code}{f': ended by {name}' if name else ''}]"
    return f"[exit code {code}]"


def _network(session: WorkspaceSession, call: SessionCall, text: str) -> str:
    """Why a host was not reached, where that is why a command may have failed."""
    if session.options.policy.reaches_network:
        refused = session.new_refusals()
        return "\n".join(f"[Not reached: {sanitize(line)}]" for line in refused[:_SHOWN_HOSTS])
    failed = call.exit != 0 or call.reason != "exit"
    return "[This workspace has no network.]" if failed and any(sign in text for sign in _NO_NETWORK) else ""


class LiveText:
    """What a command writes, as text for a listener: cut where characters end; where there are secrets, at ends of lines."""

    def __init__(self, listener: CommandListener | None, secrets: tuple[str, ...]) -> None:
        self._listener = listener
        streams: tuple[OutputStream, ...] = ("stdout", "stderr")
        listeners = (listener,) if listener is not None else ()
        self._lines = {stream: StreamListener(stream, listeners, secrets) for stream in streams} if secrets else {}
        self._decoders = {stream: codecs.getincrementaldecoder("utf-8")("replace") for stream in streams}

    def feed(self, stream: OutputStream, piece: bytes) -> None:
        """One more piece of a stream."""
        if self._listener is None:
            return
        if self._lines:
            self._lines[stream].feed(piece)
        elif text := self._decoders[stream].decode(piece):
            self._listener(stream, text)

    def end(self) -> None:
        """The command has ended: what is left of a last line is passed on."""
        for lines in self._lines.values():
            lines.end()
