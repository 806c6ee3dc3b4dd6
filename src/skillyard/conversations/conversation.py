"""A conversation, its turns with their events, its files and settings; and a running turn for everyone who follows it.

The events of a turn are the same in the terminal and over HTTP.

============== =======================================================================================================
`begin`        `turn`, `conversation`, `model`
`text`         `delta`: the model writes
`call`         `id`, `tool`, `arguments`: the model calls a tool
`ask`          `id`, `question`: the call waits until somebody has answered (docs/agents.md)
`log`          `id`, `stream`, `text`: what the script or command of a call prints meanwhile; not kept, its record has it
`step`         `id`, `step`: a step of the script of a call has ended (as in its run); not kept either
`result`       `id`, `tool`, `ok`, `title`, `code`, `text`, `skill`, `run`, `tokens`, `duration_ms`, `exit_code`, `rule`: what
               the tool gave; `rule` says which rule of whom has decided about the call, where one did
`file`         `name`, `size`, `media_type`, `origin`: a file was given with the message, is new or has changed
`file_removed` `name`: a recorded file is gone
`notice`       `text`, `detail`: something worth knowing: a skill changed, the history was compacted (and to what)
`usage`        `input_tokens`, `output_tokens`, `requests`, so far in this turn
`error`        `code`, `message`, `hint`, `said`: the turn failed; `said` is the message of the model's service, if it sent one
`end`          `state`, `answer`: nothing comes after it
============== =======================================================================================================

An `EventPosition` is how far a turn was followed: it counts the events as they are kept, so it means the same while the
turn runs, when it has ended, and in every process.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Self

from skillyard.errors import InvalidInput, SkillyardError
from skillyard.permissions import CommandRules, check_tool_permissions
from skillyard.times import DEFAULT_TIMING, utc_now
from skillyard.wire import WireForm, wire
from skillyard.workspace import BackgroundProcess  # described over HTTP with the state of a workspace

if TYPE_CHECKING:
    from collections.abc import Callable


FOLDER: Final = "folder"
"""Where the memory of a conversation has the user's folder that it works in."""

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
class Conversation(WireForm, also=("folder",)):
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

    @property
    def folder(self) -> str | None:
        """The user's folder that it works in, whose project's skills it sees; None with a folder of its own."""
        folder = self.memory.get(FOLDER)
        return str(folder) if folder else None


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
class WaitingQuestion(WireForm):
    """A question that nobody has answered yet: of which turn of which conversation, and of which call of the model.

    `question` is what is asked as plain data, `calls` are the ids, tools and arguments of all that wait for the answer.
    """

    conversation_id: str
    conversation_title: str
    agent: str | None
    turn_id: str
    request: str
    question: Mapping[str, Any] = field(hash=False)
    calls: tuple[Mapping[str, Any], ...] = field(hash=False)
    since: datetime = field(metadata=_MOMENT)


@dataclass(frozen=True, slots=True)
class InvocableSkill:
    """A skill that a person may start: the name to write after the `/`, and its author's hint for the arguments."""

    id: str
    name: str
    description: str
    arguments: str | None


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
    """The workspace of a conversation: whether it has one (else `reason` says why not), and the state of its session.

    `path` is the folder as commands see it, `working_folder` where the next one begins, `processes` those in the background.
    """

    enabled: bool
    reason: str | None = None
    path: str | None = None
    is_open: bool = False
    working_folder: str | None = None
    processes: tuple[BackgroundProcess, ...] = ()


TurnEventKind = Literal[
    "begin", "text", "call", "ask", "log", "step", "result", "file", "file_removed", "notice", "usage", "error", "end"
]


@dataclass(frozen=True, slots=True)
class TurnEvent:
    """One thing that happened, with its values as plain data."""

    kind: TurnEventKind
    data: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def to_dict(self) -> dict[str, Any]:
        """The values of the event, with its kind as `event`; by hand, as which values there are depends on the kind."""
        return {"event": self.kind, **self.data}


def event_time() -> str:
    """This moment, as `at` of an event has it."""
    return utc_now().isoformat(timespec="milliseconds")


_MOST: Final = 5_000
_TEXT: Final = 4_000
_POSITION: Final = re.compile(r"(\d{1,6})\.(\d{1,9})", re.ASCII)
_log = logging.getLogger(__name__)


class EventPosition(NamedTuple):
    """How many events, as they are kept, were sent, and how many characters of the last one, when it is text."""

    events: int = 0
    characters: int = 0

    @classmethod
    def read(cls, text: str | None) -> Self:
        """The position that `str()` wrote; the beginning when the text is invalid."""
        match = _POSITION.fullmatch(text or "")
        return cls(*map(int, match.groups())) if match else cls()

    def __str__(self) -> str:
        return f"{self.events}.{self.characters}"


START_POSITION: Final = EventPosition()


class LiveTurn:
    """The events of one turn; any number of watchers get all of them. The first `earlier` ones were before a question."""

    def __init__(
        self,
        before: Sequence[TurnEvent] = (),
        publish: Callable[[list[dict[str, Any]]], object] | None = None,
        gather_s: float = DEFAULT_TIMING.gather_s,
    ) -> None:
        self.events: list[TurnEvent] = list(before)
        self.earlier = len(self.events)
        self.over = False
        self._publish = publish
        self._gather_s = gather_s
        self._published = 0
        self._publishing: asyncio.Task[None] | None = None
        self._settling = asyncio.Event()
        self.task: asyncio.Task[None] | None = None
        self.begun = asyncio.Event()
        self._interrupted = False
        self._changed = asyncio.Condition()

    async def show(self, event: TurnEvent) -> None:
        """Publish an event to all watchers; after thousands of events only text, errors and the end."""
        if len(self.events) < _MOST or event.kind in ("text", "end", "error"):
            self.events.append(event)
        if event.kind == "end":
            self.over = True
        elif self._publish is not None and self._publishing is None and not self._settling.is_set():
            self._publishing = asyncio.create_task(self._publish_new(self._publish))
        async with self._changed:
            self._changed.notify_all()

    async def stop(self) -> bool:
        """Stop the turn, and wait until its end is recorded; False when it does not run here."""
        if self.task is None or self.over:
            return False
        await self.interrupt()
        await asyncio.wait([self.task])
        return True

    async def interrupt(self) -> None:
        """Cancel the work: not before its first step, which would leave nobody to note its end, and once only."""
        await self.begun.wait()
        if self.task is not None and not self._interrupted:
            self._interrupted = True
            self.task.cancel()

    async def settled(self) -> None:
        """Stop publishing to other processes, and wait for what is being published."""
        self._settling.set()
        if self._publishing is not None:
            await asyncio.wait([self._publishing])

    async def _publish_new(self, publish: Callable[[list[dict[str, Any]]], object]) -> None:
        """Publish new events to followers in other processes, ten times a second at most."""
        while self._published < len(self.events):
            with suppress(TimeoutError):  # a turn that ends meanwhile need not wait
                async with asyncio.timeout(self._gather_s):
                    await self._settling.wait()
            new, self._published = self.events[self._published :], len(self.events)
            try:
                await asyncio.to_thread(publish, _join_text_events(new))
            except SkillyardError as error:
                _log.warning("a turn cannot be followed elsewhere for a moment: %s", error.message)
            if self._settling.is_set():  # what comes now is read from the record
                break
        self._publishing = None

    async def follow(self, after: int = 0) -> AsyncGenerator[TurnEvent, None]:
        """The events from the number `after` on, as they come, until the end."""
        index = after
        while True:
            while index < len(self.events):
                event = self.events[index]
                index += 1
                yield event
                if event.kind == "end":
                    return
            if self.over:
                return
            async with self._changed:
                if index >= len(self.events) and not self.over:
                    await self._changed.wait()


class EventPositioner:
    """Gives each event its position, and leaves out those up to the position `after`."""

    def __init__(self, after: EventPosition = START_POSITION) -> None:
        self.position = EventPosition()
        self._after = after
        self._last = ""  # the kind of the event that is kept last

    def take(self, event: TurnEvent) -> tuple[EventPosition, TurnEvent] | None:
        """The event with the position after it; None when it was sent before. The last `usage` may be sent again."""
        after, kept = self._after, bool(condense_events([event]))
        if kept:
            size = len(event.data["delta"]) if event.kind == "text" else 0
            going_on = event.kind == self._last and event.kind in ("text", "usage")
            self.position = (
                EventPosition(self.position.events, self.position.characters + size)
                if going_on
                else EventPosition(self.position.events + 1, size)
            )
            self._last = event.kind
        if event.kind == "text" and self.position.events == after.events:
            delta = event.data["delta"]
            event = TurnEvent(
                "text", {**event.data, "delta": delta[max(0, len(delta) - (self.position.characters - after.characters)) :]}
            )
        if event.kind == "begin":
            return (self.position, event) if after == START_POSITION else None
        again = event.kind == "usage" or not kept
        is_new = event.kind == "end" or self.position > after or (again and self.position == after)
        return (self.position, event) if is_new else None


def parse_event(shape: dict[str, Any]) -> TurnEvent:
    """The event that `to_dict` gave."""
    return TurnEvent(shape["event"], {key: value for key, value in shape.items() if key != "event"})


def _join_text_events(events: Iterable[TurnEvent]) -> list[dict[str, Any]]:
    """Events as plain data, pieces of text joined; without the end, which is in the record."""
    joined: list[dict[str, Any]] = []
    for event in events:
        shape = event.to_dict()
        if event.kind == "text" and joined and joined[-1]["event"] == "text":
            joined[-1] = joined[-1] | {"delta": joined[-1]["delta"] + shape["delta"]}
        elif event.kind != "end":
            joined.append(shape)
    return joined


def condense_events(events: Sequence[TurnEvent]) -> list[dict[str, Any]]:
    """Events as they are kept: pieces of text joined, only the last of several counts of usage, long results cut."""
    kept: list[dict[str, Any]] = []
    for shape in _join_text_events(event for event in events if event.kind not in ("begin", "log", "step")):
        if shape["event"] == "usage" and kept and kept[-1]["event"] == "usage":
            kept[-1] = shape
        else:
            kept.append(shape | ({"text": shape["text"][:_TEXT]} if isinstance(shape.get("text"), str) else {}))
    return kept


def replay_events(turn: Turn) -> list[TurnEvent]:
    """The events of a turn that has ended, or waits, as they were kept."""
    begun = TurnEvent("begin", {"turn": turn.id, "conversation": turn.conversation_id, "model": turn.model})
    kept = [parse_event(shape) for shape in turn.events]
    return [begun, *kept, TurnEvent("end", {"state": turn.state, "answer": turn.answer})]
