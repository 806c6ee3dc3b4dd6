"""Events: something happened, and the skills that wait for it run, in the order of their priority and once for each event.

The id of each run follows from who sent the event, its type and id, and the skill: an event that somebody sends again, to
whichever server, begins nothing a second time, and nobody can use up the ids of others. The result is in the audit log.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Literal

from skillyard.access import record_audit
from skillyard.errors import ApprovalRejected, DatabaseUnavailable, InvalidInput, RecordExists, SkillyardError
from skillyard.execution.run import new_id
from skillyard.search import match_event
from skillyard.text import single_line
from skillyard.wire import WireForm, wire

if TYPE_CHECKING:
    from skillyard.catalog import Skill
    from skillyard.database import Database
    from skillyard.engine.local_engine import StartedRun
    from skillyard.search import Match

_TYPE: Final = re.compile(r"^[A-Za-z0-9_-]+(?:[.:/][A-Za-z0-9_-]+)*$")
_ID: Final = re.compile(r"^[!-~]+$")
EVENT_TYPE: Final = _TYPE.pattern
"""The pattern of an event's type: words with `.`, `:` or `/` between them."""
EVENT_ID: Final = _ID.pattern
"""The pattern of an event's id: printable ASCII without spaces."""
MAX_EVENT_NAME: Final = 200
"""Characters of a type or an id."""
_MOST: Final = 100
"""Of the skills that wait for one event, so many run."""

EventRunState = Literal["begun", "repeated", "needs_approval", "refused"]


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened: its `type`, such as `calendar.reminder`, and its `data`, which skills get as parameters.

    The same `id` means the same event. `source` says who sent it.

    Raises:
        InvalidInput: the type or the id cannot be one.
    """

    type: str
    data: Mapping[str, object] = field(default_factory=dict, hash=False)
    id: str = field(default_factory=lambda: new_id("event"))
    source: str = "library"

    def __post_init__(self) -> None:
        if len(self.type) > MAX_EVENT_NAME or not _TYPE.fullmatch(self.type):
            raise InvalidInput(
                f"{single_line(self.type)[:60]!r} is not a type of an event", hint="words with dots between: calendar.reminder"
            )
        if len(self.id) > MAX_EVENT_NAME or not _ID.fullmatch(self.id):
            message = f"the id of an event is 1 to {MAX_EVENT_NAME} printable ASCII characters without spaces"
            raise InvalidInput(message, hint="leave it out for a new event")

    @property
    def about(self) -> dict[str, str]:
        """The event in the context of a run, as its member `event`."""
        return {"type": self.type, "id": self.id, "source": self.source}

    def run_id(self, skill: Skill, owner: str = "") -> str:
        """The id of the run of that skill for who sent the event."""
        text = "\n".join((owner, self.type, self.id, skill.id))
        return f"run_{hashlib.sha256(text.encode()).hexdigest()[:26]}"


@dataclass(frozen=True, slots=True)
class EventRun(WireForm):
    """The result for one skill that subscribes to the event by the type it `declared`.

    `state` is `begun`; `repeated` when the same event has begun the run before; `needs_approval` when somebody has to approve
    first, and nothing was begun; `refused` for the `reason`. A run that was waited for has the `status` in which it ended.
    """

    skill: str
    declared: str
    state: EventRunState
    run_id: str
    reason: str | None = field(default=None, metadata=wire(omit_empty=True))
    status: str | None = field(default=None, metadata=wire(omit_empty=True))


@dataclass(frozen=True, slots=True)
class FiredEvent(WireForm, also=("ok",)):
    """An event, and the result of each skill that subscribes to its type, the highest priority first."""

    id: str
    type: str
    runs: tuple[EventRun, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing was refused or waits for an approval, and no run that was waited for failed."""
        return all(run.state in ("begun", "repeated") and run.status in (None, "ok") for run in self.runs)


def waiting_skills(skills: Iterable[Skill], event_type: str) -> list[Match]:
    """The skills that wait for an event, also those for the host alone; the highest priority first, then the exact type."""
    return sorted(match_event(skills, event_type, limit=_MOST, internal=True), key=lambda match: -match.skill.priority)


async def begin_event(
    event: Event, matches: Sequence[Match], start: Callable[[Skill, str], Awaitable[StartedRun]], *, owner: str = ""
) -> tuple[FiredEvent, tuple[StartedRun, ...]]:
    """Begin a run of each skill with `start`, which is given the skill and the id of the run; one that cannot stops no other.

    `owner` is who sent the event: the same id of another owner is another event.

    Raises:
        DatabaseUnavailable: the records cannot be used; what was begun goes on, and the same event can be sent again.
    """
    runs: list[EventRun] = []
    begun: list[StartedRun] = []
    for match in matches:
        run_id = event.run_id(match.skill, owner)
        declared = match.matched[0].removeprefix("event:")
        one = EventRun(match.skill.id, declared, "begun", run_id)
        try:
            begun.append(await start(match.skill, run_id))
        except RecordExists:
            one = replace(one, state="repeated")
        except DatabaseUnavailable:
            raise
        except ApprovalRejected as error:
            one = replace(one, state="needs_approval", reason=error.message)
        except SkillyardError as error:
            one = replace(one, state="refused", reason=error.message)
        runs.append(one)
    return FiredEvent(event.id, event.type, tuple(runs)), tuple(begun)


async def ended_event(fired: FiredEvent, begun: Sequence[StartedRun]) -> FiredEvent:
    """The same with the status of each run that was begun, when all have ended."""
    import asyncio

    outcomes = await asyncio.gather(*(one.ended for one in begun), return_exceptions=True)
    statuses = {
        one.run_id: "error" if isinstance(outcome, BaseException) else outcome.status
        for one, outcome in zip(begun, outcomes, strict=True)
    }
    return replace(fired, runs=tuple(replace(run, status=statuses.get(run.run_id)) for run in fired.runs))


def record_event(database: Database, event: Event, fired: FiredEvent) -> None:
    """Write the result of an event into the audit log."""
    details = {
        "id": event.id,
        "source": event.source,
        "runs": [{"skill": run.skill, "state": run.state, "run_id": run.run_id} for run in fired.runs],
    }
    with database.write() as connection:
        record_audit(connection, "events.fire", event.type, "success" if fired.ok else "refused", details)
