"""One memory, the port of memory services, and what a skill may have kept through it.

Each suggestion of a skill stands alone: one that is refused or cannot be saved never loses the others. Nothing is saved for
another owner than the run's own, the skill cannot pass itself off as something else, and nothing is saved twice for one run.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

from skillyard.errors import InvalidInput
from skillyard.wire import WireForm, wire

if TYPE_CHECKING:
    from skillyard.execution import MemoryWrite

OWNERS: Final = ("user", "household", "task", "group")
TYPES: Final = ("preference", "fact", "event", "summary")
_LONGEST: Final = 65_536  # characters
_IMPORTANCE: Final = 0.5
_CONTEXT_KEYS: Final = {"user": "userId", "household": "householdId", "task": "taskId", "group": "groupId"}
_log = logging.getLogger(__name__)

Owner = tuple[str, str]
"""Whose a memory is: `user`, `household`, `task` or `group`, and its id."""


def owners_of(context: Mapping[str, object]) -> tuple[Owner, ...]:
    """The owners for whom a run with that context is made: what it may have remembered, and whose memories are its own."""
    return tuple((kind, str(context[key])) for kind, key in _CONTEXT_KEYS.items() if context.get(key))


def read_owner(text: str) -> Owner:
    """The owner that a person writes as `household:home`; a name alone is a user's.

    Raises:
        InvalidInput: it is none.
    """
    kind, colon, name = text.partition(":")
    if not colon or kind not in OWNERS:
        kind, name = "user", text
    if not name.strip():
        raise InvalidInput("an owner has an id", hint=f"write it as {', '.join(f'{one}:ID' for one in OWNERS)}")
    return kind, name


@dataclass(frozen=True, slots=True)
class Memory(WireForm, camel_case=True):
    """One thing to remember.

    `user_id` is the owner when that is a user. `metadata` says the rest: `ownerType` and `ownerId`, `type` (`preference`,
    `fact`, `event`, `summary`), `importance` from 0 to 1, `source`, and freely `tags` (a list of text) and `knowledgeBase`. Two
    memories with one `key` are the same memory, however often it is saved. `id` is given by the service.
    """

    content: str
    user_id: str | None = None
    timestamp: datetime = field(default_factory=lambda: datetime.now(UTC))
    metadata: Mapping[str, object] = field(default_factory=dict, hash=False)
    key: str | None = field(default=None, metadata=wire(hidden=True))
    id: str | None = None

    @property
    def owner(self) -> Owner:
        """The owner: its kind and its id; services refuse empty ids."""
        kind = self.metadata.get("ownerType") or "user"
        name = self.metadata.get("ownerId") or self.user_id or ""
        return str(kind), str(name)

    @property
    def type(self) -> str:
        """What kind of memory it is; a fact when it does not say."""
        return str(self.metadata.get("type") or "fact")

    @property
    def importance(self) -> float:
        """How much it matters, from 0 to 1."""
        value = self.metadata.get("importance", _IMPORTANCE)
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else math.nan

    @property
    def tags(self) -> tuple[str, ...]:
        """The words it is filed under."""
        tags = self.metadata.get("tags")
        return tuple(dict.fromkeys(str(tag) for tag in tags)) if isinstance(tags, list | tuple) else ()

    @property
    def knowledge_base(self) -> str | None:
        """The collection it belongs to."""
        name = self.metadata.get("knowledgeBase")
        return name if isinstance(name, str) and name else None


@dataclass(frozen=True, slots=True)
class MemoryMatch(WireForm):
    """A memory that fits a query, and how well, from 0 to 1."""

    memory: Memory = field(metadata=wire(inline=True))
    score: float = field(metadata=wire(write=lambda score: round(score, 4)))


def validate_memory(memory: Memory) -> None:
    """Return when every service could keep the memory.

    Raises:
        InvalidInput: no content or too much, an unknown owner or type, or an importance that is not from 0 to 1.
    """
    kind, name = memory.owner
    problem = None
    if not memory.content.strip() or len(memory.content) > _LONGEST:
        problem = f"its content must have from 1 to {_LONGEST:,} characters"
    elif kind not in OWNERS or not name:
        problem = f"its owner must be one of {', '.join(OWNERS)}, with an id"
    elif kind == "user" and memory.user_id not in (None, name):
        problem = "it names two different users"
    elif memory.type not in TYPES:
        problem = f"its type must be one of {', '.join(TYPES)}"
    elif not 0 <= memory.importance <= 1:
        problem = "its importance must be a number from 0 to 1"
    elif not _is_json(memory.metadata):
        problem = "its metadata must be plain JSON"
    if problem:
        raise InvalidInput(f"the memory cannot be kept: {problem}", hint="change it, then save it again")


def _is_json(metadata: Mapping[str, object]) -> bool:
    try:
        json.dumps(dict(metadata), allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


@runtime_checkable
class MemoryService(Protocol):
    """Keeps memories and gives them back."""

    async def save(self, memory: Memory) -> Memory:
        """Keep the memory, once for each `key`, and give it with its `id`.

        Raises:
            Exception: it cannot be kept. A caller that saves several continues with the next.
        """

    async def recall(
        self,
        query: str,
        *,
        user_id: str | None,
        limit: int = 10,
        threshold: float = 0.5,
        owners: Collection[Owner] = (),
        tags: Collection[str] = (),
        knowledge_base: str | None = None,
    ) -> tuple[MemoryMatch, ...]:
        """The memories of that user and of these `owners` which fit the query with a score of at least `threshold`, best first.

        `owners_of` gives those of a run's context: its household, task and group. Only those with all the `tags`, and of the
        `knowledge_base` when one is named. `user_id=None` without `owners` looks at everybody's: that is for the operator of
        the service, never for a model.
        """


@runtime_checkable
class PersonalMemory(MemoryService, Protocol):
    """A memory service that also knows feelings, preferences and the order of things."""

    async def record_emotion(
        self, user_id: str, emotion: str, *, intensity: float = 0.5, context: Mapping[str, object] | None = None
    ) -> Memory:
        """Keep that the user felt so, as an event; `intensity` from 0 to 1."""

    async def learn_preference(
        self,
        user_id: str,
        type: str,  # noqa: A002 - the document's name
        value: object,
        *,
        confidence: float = 0.5,
        context: Mapping[str, object] | None = None,
    ) -> Memory:
        """Keep what the user prefers; a later preference of the same `type` replaces the earlier one."""

    async def build_timeline(self, user_id: str, days: int = 30) -> tuple[Memory, ...]:
        """The user's memories of the last `days` days, oldest first."""


@dataclass(frozen=True, slots=True)
class Suggestion(WireForm):
    """The result for one suggestion: kept as the memory `memory_id`, or not, and why."""

    write: MemoryWrite = field(metadata=wire(inline=True))
    memory_id: str | None = field(default=None, metadata=wire(name="memoryId", omit_none=True))
    saved: bool = False
    reason: str | None = field(default=None, metadata=wire(omit_none=True))


async def keep_suggestions(
    service: MemoryService, writes: Sequence[MemoryWrite], *, run_id: str, skill_id: str, context: Mapping[str, object]
) -> tuple[Suggestion, ...]:
    """Save the suggestions of a run that succeeded, one by one, each for its owner; never raises for one of them."""
    return tuple([await _keep(service, write, run_id, skill_id, context) for write in writes])


async def _keep(
    service: MemoryService, write: MemoryWrite, run_id: str, skill_id: str, context: Mapping[str, object]
) -> Suggestion:
    if (reason := _refusal(write, context)) is not None:
        return Suggestion(write, reason=reason)
    try:
        saved = await service.save(_memory(write, run_id, skill_id))
    except Exception as error:  # any service may fail in its own way, and the run has succeeded
        _log.warning("a memory of run %s was not saved: %s", run_id, error)
        return Suggestion(write, reason=f"{type(error).__name__}: {error}"[:300])
    return Suggestion(write, getattr(saved, "id", None), saved=True)


def _refusal(write: MemoryWrite, context: Mapping[str, object]) -> str | None:
    """Why the run may not remember this: its owner must be the one the run was made for."""
    owner = context.get(_CONTEXT_KEYS[write.owner_type])
    if owner is None:
        return f"the run was made for no {write.owner_type}"
    return None if str(owner) == write.owner_id else f"its {write.owner_type} is not the one of this run"


def _memory(write: MemoryWrite, run_id: str, skill_id: str) -> Memory:
    reserved: dict[str, object] = {
        "source": "skill",
        "sourceSkill": skill_id,
        "runId": run_id,
        "ownerType": write.owner_type,
        "ownerId": write.owner_id,
        "type": write.type,
        "importance": write.normalized_importance,
        "originalImportance": write.importance,
    }
    user = write.owner_id if write.owner_type == "user" else None
    return Memory(write.content, user, metadata={**write.metadata, **reserved}, key=_key(write, run_id))


def _key(write: MemoryWrite, run_id: str) -> str:
    """The same for the same suggestion of one run, whichever attempt it comes from and in whatever order."""
    content = json.dumps([write.owner_type, write.owner_id, write.type, write.content])
    return f"{run_id}:{hashlib.sha256(content.encode()).hexdigest()[:32]}"
