"""Runs over HTTP: start one and wait for it, list them, look at one with its steps."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool

from skillyard.access import about
from skillyard.server.callers import needs
from skillyard.server.problems import READING, WRITING
from skillyard.server.service import Served, nobody
from skillyard.server.shapes import Answer

__all__ = ["routes"]

routes: Final = APIRouter(prefix="/api/v1/runs", tags=["runs"], dependencies=[needs("skills:read")])


class Order(BaseModel):
    """What to run; with `digest` only exactly that content."""

    model_config = ConfigDict(extra="forbid")

    skill: str = Field(min_length=1, max_length=300)
    parameters: dict[str, Any] = {}
    timeout_ms: int | None = Field(default=None, ge=1, le=3_600_000)
    digest: str | None = Field(default=None, max_length=100)


@routes.post("", status_code=201, responses=WRITING, dependencies=[needs("runs:execute")])
async def start(service: Served, body: Order) -> Answer[dict[str, Any]]:
    """Run a skill in the sandbox and wait for the end. A script that fails is no error: `status` and `error` of the run say so.

    Where a rule wants a person to be asked, the answer is no, unless the workspace has agreed before.
    """
    about(body.skill)
    skill = await run_in_threadpool(service.catalog.get, body.skill)
    run = await service.catalog.run(
        skill,
        body.parameters,
        timeout_ms=body.timeout_ms,
        digest=body.digest,
        approver=nobody(),
    )
    return Answer(data={**run.to_dict()})


@routes.get("", responses=READING)
def list_runs(
    service: Served,
    skill: Annotated[str | None, Query(max_length=300)] = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 20,
) -> Answer[list[dict[str, Any]]]:
    """The newest runs, the newest first."""
    return Answer(data=[run.summary() for run in service.catalog.records().journal.list(skill=skill, limit=limit)])


@routes.get("/{run_id}", responses=READING)
def get_run(service: Served, run_id: str) -> Answer[dict[str, Any]]:
    """One run with its steps, logs and output."""
    return Answer(data=service.catalog.records().journal.get(run_id).to_dict())
