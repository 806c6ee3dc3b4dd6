"""Schedules over HTTP: skills that run at a time, or again and again; a run of one says its name in `schedule`."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Path, Request
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool

from skillyard.access import about
from skillyard.engine import Missed, Schedule
from skillyard.permissions import Gate
from skillyard.server.callers import Asking, needs
from skillyard.server.problems import READING, WRITING
from skillyard.server.questions import nobody
from skillyard.server.service import Served, Service
from skillyard.server.shapes import Answer

__all__ = ["routes"]

routes: Final = APIRouter(prefix="/api/v1/schedules", tags=["schedules"], dependencies=[needs("skills:read")])

_EXECUTE: Final = needs("runs:execute")
_Name = Annotated[str, Path(max_length=63, description="the name of the schedule")]


class ScheduleBody(BaseModel):
    """A new schedule: with `cron` (minute, hour, day, month, weekday) a recurring run, with `at` a single one.

    Of the times that were `missed`, because no server was there, none, the last one or each of the last hundred is made up for.
    """

    model_config = ConfigDict(extra="forbid")

    name: str = Field(min_length=1, max_length=63)
    skill: str = Field(min_length=1, max_length=300)
    parameters: dict[str, Any] = {}
    cron: str | None = Field(default=None, max_length=200)
    at: AwareDatetime | None = None
    time_zone: str = Field(default="UTC", max_length=60)
    missed: Literal["skip", "once", "all"] = "once"
    priority: int = Field(default=0, ge=-100, le=100)


class ScheduleDetail(BaseModel):
    """A schedule; `next_at` is null when it is over, `last_run` the id of its last run."""

    name: str
    skill: str
    parameters: dict[str, Any]
    cron: str | None
    time_zone: str
    missed: Missed
    priority: int
    digest: str | None
    paused: bool
    created_at: str
    next_at: str | None
    last_at: str | None
    last_run: str | None


def _detail(schedule: Schedule) -> ScheduleDetail:
    return ScheduleDetail.model_validate(schedule.to_dict())


@routes.get("", responses=READING)
def list_schedules(service: Served) -> Answer[list[ScheduleDetail]]:
    """Every schedule, by name."""
    return Answer(data=[_detail(schedule) for schedule in service.catalog.schedules().all()])


@routes.post("", status_code=201, responses=WRITING, dependencies=[_EXECUTE])
async def add_schedule(service: Served, caller: Asking, request: Request, body: ScheduleBody) -> Answer[ScheduleDetail]:
    """Let a skill run at a time, or again and again, for the caller.

    Where a rule wants a person to be asked, the workspace must have agreed before.
    """
    about(body.name)
    skill = await run_in_threadpool(service.catalog.get, body.skill)
    service.catalog.gate().check(skill)
    digest = await run_in_threadpool(_agreed, service, service.catalog.gate(nobody()), body.skill)
    wanted = Schedule(
        name=body.name,
        skill=skill.id,
        parameters=body.parameters,
        context={"userId": service.owner(caller)},
        cron=body.cron,
        time_zone=body.time_zone,
        missed=body.missed,
        priority=body.priority,
        digest=digest,
    )
    kept = await run_in_threadpool(lambda: service.catalog.schedules().add(wanted, at=body.at))
    request.app.state.clock.look_again(caller.organisation)
    return Answer(data=_detail(kept))


def _agreed(service: Service, gate: Gate, name: str) -> str | None:
    """The content that was agreed to, where a rule wants it to be asked about."""
    skill = service.catalog.get(name)
    if service.catalog.rules().decide(skill) != "ask":
        return None
    return asyncio.run(gate.consent(skill, session="http")).digest


@routes.get("/{name}", responses=READING)
def get_schedule(service: Served, name: _Name) -> Answer[ScheduleDetail]:
    """One schedule."""
    return Answer(data=_detail(service.catalog.schedules().get(name)))


@routes.delete("/{name}", responses=WRITING, dependencies=[_EXECUTE])
def remove_schedule(service: Served, name: _Name) -> Answer[ScheduleDetail]:
    """Forget a schedule; its runs stay in the records."""
    about(name)
    return Answer(data=_detail(service.catalog.schedules().remove(name)))


@routes.post("/{name}/pause", responses=WRITING, dependencies=[_EXECUTE])
def pause_schedule(service: Served, name: _Name) -> Answer[ScheduleDetail]:
    """Let a schedule rest."""
    about(name)
    return Answer(data=_detail(service.catalog.schedules().pause(name, paused=True)))


@routes.post("/{name}/resume", responses=WRITING, dependencies=[_EXECUTE])
def resume_schedule(service: Served, caller: Asking, request: Request, name: _Name) -> Answer[ScheduleDetail]:
    """Let it go on from now; what would have come meanwhile is not made up for."""
    about(name)
    kept = service.catalog.schedules().pause(name, paused=False)
    request.app.state.clock.look_again(caller.organisation)
    return Answer(data=_detail(kept))
