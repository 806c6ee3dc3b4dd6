"""A conversation, its turns and files, and the settings of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal, Self

from skillyard.errors import InvalidInput
from skillyard.permissions import CommandRules, check_tool_permissions
from skillyard.times import utc_now
from skillyard.wire import WireForm, wire

if TYPE_CHECKING:
    from skillyard.workspace import BackgroundProcess

TurnState = Literal["running", "waiting", "done", "failed", "stopped", "interrupted"]
"""`waiting` is for somebody's approval; `interrupted` turns lost their process."""

OPEN_TURN_STATES: Final[tuple[TurnState, ...]] = ("running", "waiting")
_HIDDEN: Final = wire(hidden=True)
_MOMENT: Final = wire(write=datetime.isoformat)


@dataclass(frozen=True, slots=True)
class ChatSettings(WireForm):
    """What holds for one conversation: the prompt of the agent, which skills it sees, and its limits.

    `skills` are the names or ids it sees, all of them when empty. `permissions` go before the rules of the configuration, and
    can only make them stricter. `pinned` skills are listed first. Without `tools` the model is not offered functions: it gets
    the direct prompt and calls tools in text. `index_tokens` is the budget of the index, `history_tokens` the size from which
    the history is compacted; `temperature` is passed on. Without `pictures` the model is sent only the text of what tools give.

    Raises:
        InvalidInput: an invalid value.
    """

    system_prompt: str = ""
    skills: tuple[str, ...] = ()
    permissions: Mapping[str, str] = field(default_factory=dict, hash=False)
    pinned: tuple[str, ...] = ()
    tools: bool = True
    workspace: bool = True
    tool_permissions: Mapping[str, str] = field(default_factory=dict, hash=False)
    commands: Mapping[str, Any] = field(default_factory=dict, hash=False)
    index_tokens: int = 2000
    history_tokens: int = 60_000
    temperature: float | None = None
    pictures: bool = True

    def __post_init__(self) -> None:
        for name, least, most in (("index_tokens", 0, 100_000), ("history_tokens", 1_000, 10_000_000)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
                raise InvalidInput(f"{name} is {value!r}", hint=f"a whole number from {least} to {most}")
        for name in ("workspace", "pictures"):
            if not isinstance(getattr(self, name), bool):
                raise InvalidInput(f"{name} is {getattr(self, name)!r}", hint="true or false")
        check_tool_permissions(self.tool_permissions)
        CommandRules.of(self.commands)

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> Self:
        """The settings that `to_dict` wrote; unknown names are refused.

        Raises:
            InvalidInput: a value of another kind, or an unknown name.
        """
        names = {item.name for item in fields(cls)}
        if unknown := sorted(set(values) - names):
            raise InvalidInput(f"unknown settings: {', '.join(unknown)}", hint=f"known: {', '.join(sorted(names))}")
        given = dict(values)
        for name in ("skills", "pinned"):
            if not isinstance(given.get(name, ()), (list, tuple)):
                raise InvalidInput(f"{name} is not a list", hint="give names of skills")
            given[name] = tuple(str(item) for item in given.get(name, ()))
        for name, example in (("permissions", '{"deploy*": "ask"}'), ("tool_permissions", '{"bash": "ask"}')):
            if not isinstance(given.get(name, {}), Mapping):
                raise InvalidInput(f"{name} is not a mapping", hint=f"for example {example}")
        return cls(**given)


@dataclass(frozen=True, slots=True)
class Conversation(WireForm):
    """One conversation; `memory` is the state that is restored after a restart."""

    id: str
    owner: str = field(metadata=_HIDDEN)
    title: str
    agent: str | None
    model: str | None
    settings: ChatSettings
    memory: Mapping[str, Any] = field(default_factory=dict, hash=False, metadata=_HIDDEN)
    created_at: datetime = field(default_factory=utc_now, metadata=_MOMENT)
    updated_at: datetime = field(default_factory=utc_now, metadata=_MOMENT)


@dataclass(frozen=True, slots=True)
class Turn(WireForm, also=("questions", "error")):
    """One request and its answer.

    `messages` are those sent and received in it, as pydantic-ai writes them; `events` is what was shown. `pending` are the
    questions it waits for. A turn that is `replaced` is kept, and no longer part of the conversation. Its plain data is without
    the raw messages.
    """

    id: str
    conversation_id: str
    number: int
    state: TurnState
    request: str
    answer: str = ""
    messages: list[Any] = field(default_factory=list, hash=False, metadata=_HIDDEN)
    events: list[Any] = field(default_factory=list, hash=False, metadata=wire(write=list))  # thousands, plain data already
    pending: Mapping[str, Any] | None = field(default=None, hash=False, metadata=_HIDDEN)
    replaced: bool = False
    model: str | None = None
    usage: Mapping[str, Any] | None = field(default=None, hash=False)
    error_code: str | None = field(default=None, metadata=_HIDDEN)
    error_message: str | None = field(default=None, metadata=_HIDDEN)
    created_at: datetime = field(default_factory=utc_now, metadata=_MOMENT)
    finished_at: datetime | None = field(default=None, metadata=_MOMENT)

    @property
    def given(self) -> tuple[str, ...]:
        """The names of the files that came with the request."""
        shown = [event for event in self.events if event["event"] == "file" and event["origin"] == "user"]
        return tuple(event["name"] for event in shown)

    @property
    def questions(self) -> list[dict[str, Any]]:
        """The questions it waits for; `call` names the tool call, `decision` is what somebody has answered."""
        pending = self.pending or {}
        decided = pending.get("decided", {})
        questions = pending.get("questions", {})
        return [{**it, "call": call, "decision": decided.get(call, {}).get("decision")} for call, it in questions.items()]

    @property
    def error(self) -> dict[str, Any] | None:
        """Why it failed: `code`, `message`, `hint` and, as `said`, the message of the model's service, if it sent one."""
        if self.error_code is None:
            return None
        shown: Mapping[str, Any] = next((event for event in reversed(self.events) if event["event"] == "error"), {})
        return {"code": self.error_code, "message": self.error_message, "hint": shown.get("hint"), "said": shown.get("said")}


@dataclass(frozen=True, slots=True)
class Attachment(WireForm):
    """One file of a conversation: its path in the work folder, who it is from (`user`, or a run), its size and hash."""

    name: str
    origin: str
    media_type: str
    size_bytes: int = field(metadata=wire(name="size"))
    sha256: str
    created_at: datetime = field(default_factory=utc_now, metadata=_MOMENT)


@dataclass(frozen=True, slots=True)
class WorkspaceState(WireForm):
    """The workspace of a conversation: whether it has one (else `reason` says why not), and what goes on in its session.

    `path` is the folder as commands see it, `working_folder` where the next one begins, `processes` those in the background.
    """

    enabled: bool
    reason: str | None = None
    path: str | None = None
    is_open: bool = False
    working_folder: str | None = None
    processes: tuple[BackgroundProcess, ...] = ()
