"""Who works for which pool of workers, on what, and how much waits, as `skillyard workers` tells it."""

from __future__ import annotations

from typing import Final, Literal

from fastapi import APIRouter
from pydantic import BaseModel

from skillyard.access import DEFAULT, hash_of
from skillyard.engine import EngineKind, EngineSettings, Roster, WorkerInfo
from skillyard.errors import DatabaseUnavailable
from skillyard.server.callers import Asking, Caller, needs
from skillyard.server.problems import READING
from skillyard.server.service import Served
from skillyard.server.shapes import Answer

__all__ = ["routes"]

routes: Final = APIRouter(prefix="/api/v1/workers", tags=["workers"], dependencies=[needs("admin")])


class PoolDetail(BaseModel):
    """A pool: how many workers serve it, and how many runs wait for one or work."""

    name: str
    workers: int
    waiting: int
    running: int


class WorkerDetail(BaseModel):
    """A worker; `running` are the ids of its runs, of at most `concurrency`. One that is `draining` takes nothing new.

    Where it works, `host` and `process`, is only told to the server's own organisation, null to others.
    """

    id: str
    host: str | None
    process: int | None
    pools: list[str]
    concurrency: int
    state: Literal["working", "idle", "draining", "gone"]
    running: list[str]
    started_at: str
    seen_at: str


class WorkersDetail(BaseModel):
    """Where runs work: `engine` says whether all go through the queue, `reason` why there can be no workers here, or null."""

    engine: EngineKind
    reason: str | None
    pools: list[PoolDetail]
    workers: list[WorkerDetail]


@routes.get("", responses=READING)
def get_workers(service: Served, caller: Asking) -> Answer[WorkersDetail]:
    """Every pool and worker of the organisation, those that live first."""
    kind = EngineSettings.of(service.catalog.configuration).kind
    try:
        roster = Roster(service.catalog.records().database)
    except DatabaseUnavailable as problem:
        return Answer(data=WorkersDetail(engine=kind, reason=_reason(problem, caller), pools=[], workers=[]))
    pools = [PoolDetail.model_validate(pool.to_dict()) for pool in roster.pools()]
    workers = [WorkerDetail.model_validate(_shown(worker, caller)) for worker in roster.workers()]
    return Answer(data=WorkersDetail(engine=kind, reason=None, pools=pools, workers=workers))


def _reason(problem: DatabaseUnavailable, caller: Caller) -> str:
    if caller.organisation != DEFAULT:
        return "this server keeps no worker pools"
    return f"{problem.message}: {problem.hint}" if problem.hint else problem.message


def _shown(worker: WorkerInfo, caller: Caller) -> dict[str, object]:
    """The worker; to other organisations without its machine, which is in its name too."""
    if caller.organisation == DEFAULT:
        return worker.to_dict()
    return worker.to_dict() | {"id": f"worker-{hash_of(worker.id)[:12]}", "host": None, "process": None}
