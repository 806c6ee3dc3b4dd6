"""The objects of Agent2Agent (A2A 1.0): what a client sends, checked; turns in the form of tasks; errors with their numbers."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

if TYPE_CHECKING:
    from skillyard.conversations import Turn


TASK_STATES: Final[Mapping[str, str]] = {
    "running": "TASK_STATE_WORKING",
    "waiting": "TASK_STATE_INPUT_REQUIRED",
    "done": "TASK_STATE_COMPLETED",
    "failed": "TASK_STATE_FAILED",
    "interrupted": "TASK_STATE_FAILED",
    "stopped": "TASK_STATE_CANCELED",
}
_YES, _NO = ("approve", "once", "yes"), ("no", "reject")
_WAYS_TO_ANSWER: Final = 'send "approve" or "reject", or the data {"decision": "once", "session" or "reject", "reason": "…"}'


class AgentProtocolError(Exception):
    """What the protocol has a number for; `reason` is its name in `data`."""

    def __init__(self, code: int, reason: str, message: str, *, faults: Iterable[Mapping[str, str]] = ()) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.faults = list(faults)

    def to_dict(self) -> dict[str, Any]:
        """The error object of JSON-RPC."""
        details: list[dict[str, Any]] = [
            {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": self.reason, "domain": "a2a-protocol.org"}
        ]
        if self.faults:
            details.append({"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": self.faults})
        return {"code": self.code, "message": str(self), "data": details}


def no_task(task: str) -> AgentProtocolError:
    """There is no such task, or it is somebody else's."""
    return AgentProtocolError(-32001, "TASK_NOT_FOUND", f"there is no task {task[:100]!r}")


def unsupported(message: str) -> AgentProtocolError:
    """What the protocol knows, and this task or server does not do."""
    return AgentProtocolError(-32004, "UNSUPPORTED_OPERATION", message)


def invalid(message: str, *, faults: Iterable[Mapping[str, str]] = ()) -> AgentProtocolError:
    """The parameters of a method cannot be meant; `faults` name each `field` with a `description`."""
    return AgentProtocolError(-32602, "INVALID_PARAMS", message, faults=faults)


class ProtocolObject(BaseModel):
    """An object of the protocol: its fields are written in camelCase, and fields that are not known are passed over."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)


class AgentMessagePart(ProtocolObject):
    """A part of a message: exactly one of `text`, `raw` (base64), `url` and `data`."""

    text: str | None = None
    raw: str | None = None
    url: str | None = None
    data: Any = None
    filename: str = Field(default="", max_length=1000)

    @property
    def kind(self) -> str:
        """The name of the one field that it has.

        Raises:
            AgentProtocolError: it has none of them, or several.
        """
        given = self.model_fields_set & {"text", "raw", "url", "data"}
        if len(given) != 1:
            raise invalid("a part has exactly one of text, raw, url and data")
        return given.pop()


class AgentMessage(ProtocolObject):
    """A message to an agent."""

    message_id: str = Field(min_length=1, max_length=1000)
    role: Literal["ROLE_USER"]
    parts: list[AgentMessagePart] = Field(min_length=1, max_length=100)
    context_id: str = Field(default="", max_length=300)
    task_id: str = Field(default="", max_length=300)


class MessageDelivery(ProtocolObject):
    """How the client wants the answer."""

    history_length: int | None = Field(default=None, ge=0)
    return_immediately: bool = False
    task_push_notification_config: dict[str, Any] | None = None


class SendMessageParameters(ProtocolObject):
    """A message, and how the client wants the answer."""

    message: AgentMessage
    configuration: MessageDelivery = MessageDelivery()


class TaskParameters(ProtocolObject):
    """Which task is meant."""

    id: str = Field(min_length=1, max_length=300)
    history_length: int | None = Field(default=None, ge=0)


class TaskListParameters(ProtocolObject):
    """Which tasks are listed."""

    context_id: str = Field(default="", max_length=300)
    status: str = Field(default="", max_length=100)
    page_size: int = Field(default=50, ge=1, le=100)
    page_token: str = Field(default="", max_length=200)
    history_length: int | None = Field(default=None, ge=0)
    status_timestamp_after: datetime | None = None
    include_artifacts: bool = False


class ArtifactPieces:
    """Makes the events of a turn pieces of artifacts: each text between two calls is one, and each file is one."""

    def __init__(self, files: str) -> None:
        self._files = files
        self._texts = 0
        self._writing = False

    def take(self, event: Mapping[str, Any]) -> Iterator[tuple[dict[str, Any], bool]]:
        """The artifact that an event adds to, and whether that is appended to what was there."""
        kind = event["event"]
        if kind == "text":
            self._texts += not self._writing
            yield {"artifactId": f"text-{self._texts}", "parts": [{"text": event["delta"]}]}, self._writing
            self._writing = True
        elif kind == "call":
            self._writing = False
        elif kind == "file" and event["origin"] != "user":
            name = str(event["name"])
            part = {"url": f"{self._files}/{quote(name)}", "filename": name, "mediaType": event["media_type"]}
            yield {"artifactId": f"file-{name}", "name": name, "parts": [part]}, False


def task_status(state: str, turn: Turn) -> dict[str, Any]:
    """The status of a turn in a state; with the question it waits for, or why it failed."""
    moment = (turn.finished_at or turn.created_at).astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    status: dict[str, Any] = {"state": TASK_STATES[state], "timestamp": moment}
    if state == "waiting":
        asked = [str(question["title"]) for question in turn.questions if question["decision"] is None]
        status["message"] = task_message(turn, "question", "ROLE_AGENT", f"{'; '.join(asked)}? To answer, {_WAYS_TO_ANSWER}.")
    elif turn.error is not None:
        status["message"] = task_message(turn, "error", "ROLE_AGENT", f"{turn.error['message']} ({turn.error['code']})")
    return status


def task_message(turn: Turn, kind: str, role: str, text: str) -> dict[str, Any]:
    """A message of a turn; its `kind` is a part of its id."""
    identity = {"messageId": f"{turn.id}-{kind}", "contextId": turn.conversation_id, "taskId": turn.id}
    return {**identity, "role": role, "parts": [{"text": text}]}


def read_message(message: AgentMessage) -> tuple[str, list[tuple[str, bytes]]]:
    """The text of a message, and the names and bytes of its files.

    Raises:
        AgentProtocolError: a part cannot be read.
    """
    texts, files = [], []
    for number, part in enumerate(message.parts, 1):
        if (kind := part.kind) == "url":
            message_ = "a file is sent in the message (raw): addresses are not fetched"
            raise AgentProtocolError(-32005, "CONTENT_TYPE_NOT_SUPPORTED", message_)
        if kind == "raw":
            try:
                files.append((part.filename or f"file-{number}", base64.b64decode(part.raw or "", validate=True)))
            except (ValueError, binascii.Error):
                raise invalid(f"part {number}: raw is not base64") from None
        else:
            texts.append(part.text or "" if kind == "text" else json.dumps(part.data, ensure_ascii=False, indent=1))
    text = "\n\n".join(text for text in texts if text.strip())
    return text or f"See {', '.join(name for name, _ in files)}." if files else text, files


def read_decision(message: AgentMessage) -> tuple[Literal["once", "session", "reject"], str | None]:
    """The answer to an approval in a message, with its reason.

    Raises:
        AgentProtocolError: it is none.
    """
    part = message.parts[0]
    given: Any = part.data if part.kind == "data" else {"decision": (part.text or "").strip().casefold().rstrip(".!")}
    word = given.get("decision") if isinstance(given, dict) else None
    reason = str(given["reason"])[:2000] if isinstance(given, dict) and given.get("reason") else None
    if word in _YES:
        return "once", reason
    if word in _NO:
        return "reject", reason
    if word == "session":
        return "session", reason
    raise invalid(f"the task waits for an approval: {_WAYS_TO_ANSWER}")
