"""The built-in memory service over every database, and a host's own in plain Python."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from skillyard.database import Database
from skillyard.errors import InvalidInput
from skillyard.memory import Memory, MemoryMatch, MemoryService, Owner, SqlMemoryService


class HostMemory:
    """The least a host must bring: a list."""

    def __init__(self) -> None:
        self.memories: list[Memory] = []

    async def save(self, memory: Memory) -> Memory:
        if not memory.content.strip() or not memory.owner[1] or not 0 <= memory.importance <= 1:
            raise InvalidInput("no")
        for known in self.memories:
            if memory.key is not None and known.key == memory.key:
                return known
        self.memories.append(saved := replace(memory, id=str(len(self.memories))))
        return saved

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
        theirs = {*owners, *([] if user_id is None else [("user", user_id)])}
        fitting = [
            memory
            for memory in self.memories
            if any(word in memory.content for word in query.split())
            and (memory.owner in theirs or not theirs)
            and set(tags) <= set(memory.tags)
            and knowledge_base in (None, memory.knowledge_base)
        ]
        return tuple(MemoryMatch(memory, 1.0) for memory in fitting[:limit])


@pytest.fixture
def over(address_of: Callable[..., str], tmp_path: Path) -> Iterator[Callable[[str], SqlMemoryService]]:
    """Give a function that makes the built-in service over a new database of that kind."""
    with ExitStack() as stack:

        def make(kind: str) -> SqlMemoryService:
            database = Database.open(str(tmp_path), address_of(kind, bare=False))
            stack.callback(database.close)
            return SqlMemoryService(lambda: database)

        yield make


@pytest.fixture(params=["sqlite", "postgresql"])
def sql(request: pytest.FixtureRequest, over: Callable[[str], SqlMemoryService]) -> SqlMemoryService:
    """The built-in service, once over each database."""
    return over(request.param)


@pytest.fixture
def host() -> HostMemory:
    """A host's own service."""
    return HostMemory()


@pytest.fixture(params=["sqlite", "postgresql", "host"])
def service(request: pytest.FixtureRequest, host: HostMemory, over: Callable[[str], SqlMemoryService]) -> MemoryService:
    """Every memory service."""
    return host if request.param == "host" else over(request.param)
