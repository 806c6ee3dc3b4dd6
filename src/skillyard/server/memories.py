"""Memories over HTTP: the caller's own, and nobody else's."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field

from skillyard.access import about
from skillyard.errors import RecordNotFound
from skillyard.memory import Memory
from skillyard.server.callers import Asking, needs
from skillyard.server.problems import READING, WRITING
from skillyard.server.service import Served
from skillyard.server.shapes import Answer, RequestBody

__all__ = ["routes"]

routes: Final = APIRouter(prefix="/api/v1/memories", tags=["memories"], dependencies=[needs("runs:execute")])

_Limit = Annotated[int, Query(ge=1, le=200)]
_TAG: Final = 200


class MemoryBody(RequestBody):
    """Something to remember; `importance` from 0 to 1."""

    content: str = Field(min_length=1, max_length=65_536)
    type: Literal["preference", "fact", "event", "summary"] = "fact"
    importance: float = Field(default=0.5, ge=0, le=1)
    tags: list[Annotated[str, Field(min_length=1, max_length=_TAG)]] = Field(default=[], max_length=50)
    knowledge_base: str | None = Field(default=None, min_length=1, max_length=_TAG)


class MemoryDetail(BaseModel):
    """One memory; `source` says who suggested it, `run_id` in which run."""

    id: str
    content: str
    type: str
    importance: float
    tags: list[str]
    knowledge_base: str | None
    source: str | None
    run_id: str | None
    timestamp: str


class RecalledMemory(MemoryDetail):
    """A memory that fits, and how well: `score` from 0 to 1."""

    score: float


class Forgotten(BaseModel):
    """What was forgotten."""

    id: str


@routes.get("", responses=READING)
async def list_memories(service: Served, caller: Asking, limit: _Limit = 50) -> Answer[list[MemoryDetail]]:
    """The caller's memories, the newest first."""
    found = await service.catalog.memory().list(user_id=service.owner(caller), limit=limit)
    return Answer(data=[MemoryDetail.model_validate(_shape(memory)) for memory in found])


@routes.get("/recall", responses=READING)
async def recall(
    service: Served,
    caller: Asking,
    q: Annotated[str, Query(min_length=1, max_length=2000)],
    limit: _Limit = 10,
    threshold: Annotated[float, Query(ge=0, le=1)] = 0.5,
    tag: Annotated[list[str], Query(max_length=50)] = [],  # noqa: B006 # FastAPI makes a new one
    knowledge_base: Annotated[str | None, Query(max_length=_TAG)] = None,
) -> Answer[list[RecalledMemory]]:
    """The caller's memories that fit the words of `q`, the best first; only those with every `tag`."""
    found = await service.catalog.memory().recall(
        q, user_id=service.owner(caller), limit=limit, threshold=threshold, tags=tag, knowledge_base=knowledge_base
    )
    return Answer(data=[RecalledMemory.model_validate({**_shape(one.memory), "score": one.score}) for one in found])


@routes.post("", status_code=201, responses=WRITING)
async def remember(service: Served, caller: Asking, body: MemoryBody) -> Answer[MemoryDetail]:
    """Remember something for the caller."""
    metadata: dict[str, Any] = {"type": body.type, "importance": body.importance, "tags": body.tags, "source": "user"}
    if body.knowledge_base:
        metadata["knowledgeBase"] = body.knowledge_base
    saved = await service.catalog.memory().save(Memory(body.content, service.owner(caller), metadata=metadata))
    about(saved.id or "")
    return Answer(data=MemoryDetail.model_validate(_shape(saved)))


@routes.delete("/{memory_id}", responses=WRITING)
async def forget(service: Served, caller: Asking, memory_id: str) -> Answer[Forgotten]:
    """Forget one of the caller's memories for good."""
    if not await service.catalog.memory().forget(memory_id, user_id=service.owner(caller)):
        raise RecordNotFound(f"there is no memory {memory_id[:100]!r}", hint="GET /api/v1/memories lists yours")
    return Answer(data=Forgotten(id=memory_id))


def _shape(memory: Memory) -> dict[str, Any]:
    told = memory.to_dict()
    return {
        "id": memory.id,
        "content": memory.content,
        "type": memory.type,
        "importance": memory.importance,
        "tags": list(memory.tags),
        "knowledge_base": memory.knowledge_base,
        "source": memory.metadata.get("source"),
        "run_id": memory.metadata.get("runId"),
        "timestamp": told["timestamp"],
    }
