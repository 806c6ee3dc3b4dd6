"""Memories in the database of the records, recalled by full-text search.

Words are those of `search`: without English endings, and for Chinese, Japanese and Korean pairs of characters. Single
characters of those scripts are kept as well, so that a query of one character finds something.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import Connection, Row, Select, and_, delete, exists, insert, or_, select

from skillyard.database import matching_any_word, memories, memory_tags
from skillyard.errors import InvalidInput, RecordExists
from skillyard.memory.memory_service import Memory, MemoryMatch, Owner, validate_memory

if TYPE_CHECKING:
    from skillyard.database import Database

_CANDIDATES: Final = 500


class MemoryTable:
    """The memories of one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def save(self, memory: Memory, *, replacing: bool = False) -> Memory:
        """Keep a memory; an earlier one with the same key is kept as it is, unless this one is `replacing` it."""
        try:
            return self._save_once(memory, replacing)
        except RecordExists:
            return self._save_once(memory, replacing)  # another process saved that key at the same moment

    def _save_once(self, memory: Memory, replacing: bool) -> Memory:
        with self._database.write() as connection:
            if memory.key is not None:
                if replacing:
                    connection.execute(delete(memories).where(memories.c.key == memory.key))
                elif existing := connection.execute(select(memories).where(memories.c.key == memory.key)).first():
                    return _memory(existing)
            return _insert(connection, memory)

    def recall(
        self,
        terms: tuple[str, ...],
        *,
        user_id: str | None,
        owners: Collection[Owner],
        limit: int,
        threshold: float,
        tags: Collection[str],
        knowledge_base: str | None,
    ) -> tuple[MemoryMatch, ...]:
        """The memories that fit the words `terms` best."""
        query = _of_owners(select(memories), user_id, owners).limit(_CANDIDATES)
        for tag in tags:
            query = query.where(exists().where(memory_tags.c.memory_id == memories.c.id, memory_tags.c.tag == tag))
        if knowledge_base is not None:
            query = query.where(memories.c.knowledge_base == knowledge_base)
        with self._database.read() as connection:
            rows = connection.execute(matching_any_word(connection, query, terms)).all()
        scored = sorted(
            ((relevance(terms, row.words), row) for row in rows),
            key=lambda pair: (pair[0], pair[1].importance, pair[1].created_at, pair[1].number),
            reverse=True,
        )
        return tuple(MemoryMatch(_memory(row), score) for score, row in scored[:limit] if score >= threshold)

    def newest(
        self, user_id: str | None, limit: int, since: datetime | None = None, owners: Collection[Owner] = ()
    ) -> tuple[Memory, ...]:
        """The newest memories of a user and of `owners`, or everybody's, newest first."""
        query = _of_owners(select(memories), user_id, owners).order_by(memories.c.created_at.desc(), memories.c.number.desc())
        if since is not None:
            query = query.where(memories.c.created_at >= since)
        with self._database.read() as connection:
            return tuple(_memory(row) for row in connection.execute(query.limit(limit)))

    def forget(self, memory_id: str, owner: Owner | None) -> bool:
        """Delete a memory; False when there is none of that id, or when it is not that owner's."""
        query = delete(memories).where(memories.c.id == memory_id)
        if owner is not None:
            query = query.where(memories.c.owner_type == owner[0], memories.c.owner_id == owner[1])
        with self._database.write() as connection:
            return connection.execute(query).rowcount == 1


def _of_owners(query: Select[Any], user_id: str | None, owners: Collection[Owner]) -> Select[Any]:
    """Only what is theirs; everybody's when nobody is named."""
    named = {*owners, *([] if user_id is None else [("user", user_id)])}
    if not named:
        return query
    theirs = [and_(memories.c.owner_type == kind, memories.c.owner_id == name) for kind, name in sorted(named)]
    return query.where(or_(*theirs))


def _insert(connection: Connection, memory: Memory) -> Memory:
    saved = replace(memory, id=f"mem_{os.urandom(12).hex()}")
    owner_type, owner_id = memory.owner
    row = {
        "id": saved.id,
        "key": memory.key,
        "content": memory.content,
        "words": indexed_words(memory.content),
        "owner_type": owner_type,
        "owner_id": owner_id,
        "type": memory.type,
        "importance": memory.importance,
        "knowledge_base": memory.knowledge_base,
        "source": str(memory.metadata.get("source") or "host"),
        "run_id": memory.metadata.get("runId"),
        "metadata": dict(memory.metadata),
        "created_at": memory.timestamp,
    }
    connection.execute(insert(memories).values(row))
    if memory.tags:
        connection.execute(insert(memory_tags), [{"memory_id": saved.id, "tag": tag} for tag in memory.tags])
    return saved


def _memory(row: Row[Any]) -> Memory:
    user = row.owner_id if row.owner_type == "user" else None
    return Memory(row.content, user, row.created_at, row.metadata, row.key, row.id)


class SqlMemoryService:
    """A `PersonalMemory` over the database that `database` gives; it is called in a thread, when first needed.

    A memory belongs to its owner: `recall` and the other calls with a `user_id` or `owners` never see anybody else's.
    """

    def __init__(self, database: Callable[[], Database]) -> None:
        self._database = database

    async def save(self, memory: Memory) -> Memory:
        """Keep the memory and give it with its `id`; one whose `key` exists already is left as it is.

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
        owners: Collection[Owner] = (),
        tags: Collection[str] = (),
        knowledge_base: str | None = None,
    ) -> tuple[MemoryMatch, ...]:
        """The memories that fit the query (see `MemoryService.recall`); equal ones by importance, then the newest first.

        Raises:
            InvalidInput: a limit below 1, or a threshold that is not from 0 to 1.
            DatabaseUnavailable: the database cannot be used.
        """
        if limit < 1 or not 0 <= threshold <= 1:
            raise InvalidInput("recall needs a limit above 0 and a threshold from 0 to 1", hint="the defaults are 10 and 0.5")
        terms = query_words(query)
        if not terms:
            return ()
        return await asyncio.to_thread(
            lambda: self._table().recall(
                terms,
                user_id=user_id,
                owners=tuple(owners),
                limit=limit,
                threshold=threshold,
                tags=tuple(tags),
                knowledge_base=knowledge_base,
            )
        )

    async def list(self, *, user_id: str | None, limit: int = 50, owners: Collection[Owner] = ()) -> tuple[Memory, ...]:
        """The newest memories of that user and of these `owners` (nobody: everybody's), newest first."""
        return await asyncio.to_thread(lambda: self._table().newest(user_id, limit, owners=tuple(owners)))

    async def forget(self, memory_id: str, *, user_id: str | None = None, owner: Owner | None = None) -> bool:
        """Delete a memory for good; False when there is none of that id, or when it is not that user's or `owner`'s."""
        theirs = owner or (None if user_id is None else ("user", user_id))
        return await asyncio.to_thread(lambda: self._table().forget(memory_id, theirs))

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
        """Keep what the user prefers; a later preference of the same `type` replaces the earlier one."""
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
        return MemoryTable(self._database())


_REVERSE_WEIGHT: Final = 0.8
_MOST: Final = 64
_LONGEST_QUERY: Final = 20_000
"""In characters; the words of a message of 400,000 take 0.2 s."""


def indexed_words(text: str) -> str:
    """The words a memory is indexed by, separated by spaces."""
    terms = _words(text)
    single = [character for word in terms if not word.isascii() and len(word) == 2 for character in word]
    return " ".join(dict.fromkeys([*terms, *single]))


def query_words(text: str) -> tuple[str, ...]:
    """The words that the first 20,000 characters of a query look for, each once, at most 64."""
    return tuple(dict.fromkeys(_words(text[:_LONGEST_QUERY])))[:_MOST]


def relevance(query: tuple[str, ...], indexed: str) -> float:
    """From 0 to 1: the share of the query's words that the memory has, or 0.8 of the share of the memory's that the query has.

    The second is for long questions: "what tea shall I buy for tomorrow's guests" concerns a memory that only says "tea".
    """
    stored = set(indexed.split(" "))
    hits = sum(word in stored for word in query)
    if not hits:
        return 0.0
    content = sum(len(word) != 1 or word.isascii() for word in stored) or len(stored)
    return max(hits / len(query), _REVERSE_WEIGHT * min(1.0, hits / content))


def _words(text: str) -> list[str]:
    from skillyard.search.words import words  # its tables are large, and a run that remembers nothing needs none

    return words(text)
