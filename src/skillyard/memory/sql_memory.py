"""Memories in the database of the records, recalled by full-text search."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from skillyard.errors import InvalidInput
from skillyard.memory.model import Memory, MemoryMatch, query_words, validate_memory

if TYPE_CHECKING:
    from skillyard.database import Database
    from skillyard.memory.memory_table import MemoryTable


class SqlMemoryService:
    """A `PersonalMemory` over the database that `database` gives; it is asked for in a thread, when first needed.

    A memory belongs to its owner: `recall` and the other calls with a `user_id` never see another user's.
    """

    def __init__(self, database: Callable[[], Database]) -> None:
        self._database = database

    async def save(self, memory: Memory) -> Memory:
        """Keep the memory and give it with its `id`; one with a `key` that is known already is left as it is.

        Raises:
            InvalidInput: it has no content or owner, or an importance that is not from 0 to 1.
            DatabaseUnavailable: the database cannot be used.
        """
        validate_memory(memory)
        return await asyncio.to_thread(lambda: self._table().save(memory))

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
        """The memories that fit the query (see `MemoryService.recall`); equal ones by importance, then the newest first.

        Raises:
            InvalidInput: a limit below 1, or a threshold that is not from 0 to 1.
            DatabaseUnavailable: the database cannot be used.
        """
        if limit < 1 or not 0 <= threshold <= 1:
            raise InvalidInput("recall wants a limit above 0 and a threshold from 0 to 1", hint="the defaults are 10 and 0.5")
        wanted = query_words(query)
        if not wanted:
            return ()
        return await asyncio.to_thread(
            lambda: self._table().recall(
                wanted, user_id=user_id, limit=limit, threshold=threshold, tags=tuple(tags), knowledge_base=knowledge_base
            )
        )

    async def list(self, *, user_id: str | None, limit: int = 50) -> tuple[Memory, ...]:
        """The newest memories of that user (None: everybody's), newest first."""
        return await asyncio.to_thread(lambda: self._table().newest(user_id, limit))

    async def forget(self, memory_id: str, *, user_id: str | None = None) -> bool:
        """Delete a memory for good; False when there is none of that id, or when it is not that user's."""
        return await asyncio.to_thread(lambda: self._table().forget(memory_id, user_id))

    async def record_emotion(
        self, user_id: str, emotion: str, *, intensity: float = 0.5, context: Mapping[str, object] | None = None
    ) -> Memory:
        """Keep that the user felt so, as an event; `intensity` from 0 to 1."""
        metadata = {"type": "event", "importance": intensity, "tags": ["emotion", emotion], "context": dict(context or {})}
        return await self.save(Memory(emotion, user_id, metadata=metadata | {"source": "emotion"}))

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
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
        metadata = {
            "type": "preference",
            "importance": confidence,
            "tags": ["preference", type],
            "context": dict(context or {}),
        }
        key = f"preference:{json.dumps([user_id, type])}"
        memory = Memory(f"{type}: {text}", user_id, metadata=metadata | {"source": "preference"}, key=key)
        validate_memory(memory)
        return await asyncio.to_thread(lambda: self._table().save(memory, replacing=True))

    async def build_timeline(self, user_id: str, days: int = 30) -> tuple[Memory, ...]:
        """The user's memories of the last `days` days, oldest first, at most 1000."""
        since = datetime.now(UTC) - timedelta(days=days)
        return (await asyncio.to_thread(lambda: self._table().newest(user_id, 1000, since)))[::-1]

    def _table(self) -> MemoryTable:
        from skillyard.memory.memory_table import MemoryTable  # SQLAlchemy with it: only for who remembers or recalls something

        return MemoryTable(self._database())
