"""The port of memory services, and keeping through it what a skill suggests to remember.

Each suggestion stands alone: one that is refused or cannot be saved never loses the others. Nothing is saved for another owner
than the run's own, the skill cannot pass itself off as something else, and nothing is saved twice for one run.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

from skillyard.memory.model import Memory, MemoryMatch


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
        tags: Collection[str] = (),
        knowledge_base: str | None = None,
    ) -> tuple[MemoryMatch, ...]:
        """The memories of that user which fit the query with a score of at least `threshold`, best first.

        Only those with all the `tags`, and of the `knowledge_base` when one is named. `user_id=None` looks at everybody's: that
        is for the operator of the service, never for a model.
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


if TYPE_CHECKING:
    from skillyard.execution import MemoryWrite


_CONTEXT_KEYS: Final = {"user": "userId", "household": "householdId", "task": "taskId", "group": "groupId"}
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Suggestion:
    """What became of one suggestion: kept as the memory `memory_id`, or not, and why."""

    write: MemoryWrite
    memory_id: str | None = None
    saved: bool = False
    reason: str | None = None

    def to_dict(self) -> dict[str, object]:
        """The suggestion as plain data, with `saved`, and `memoryId` or `reason`."""
        shape = self.write.to_dict() | {"saved": self.saved}
        return shape | ({"memoryId": self.memory_id} if self.saved else {"reason": self.reason})


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
