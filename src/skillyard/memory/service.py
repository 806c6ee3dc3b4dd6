"""The port of memory services (row 000-44): two calls that every one has, three more that some have."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol, runtime_checkable

from skillyard.memory.model import Memory, Recalled

__all__ = ["MemoryService", "PersonalMemory"]


@runtime_checkable
class MemoryService(Protocol):
    """Keeps memories and gives them back."""

    async def save(self, memory: Memory) -> Memory:
        """Keep the memory, once for each `key`, and give it with its `id`.

        Raises:
            Exception: it cannot be kept. Whoever saves several goes on with the next.
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
    ) -> tuple[Recalled, ...]:
        """The memories of that user which fit the query with a score of at least `threshold`, best first.

        Only those with all the `tags`, and of the `knowledge_base` when one is named. `user_id=None` looks at everybody's: that
        is for whoever runs the service, never for a model.
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
        """Keep what the user prefers; a later preference of the same `type` takes the place of the earlier one."""

    async def build_timeline(self, user_id: str, days: int = 30) -> tuple[Memory, ...]:
        """The user's memories of the last `days` days, oldest first."""
