"""Schedules over HTTP: skills that run at a time, or again and again; a run of one says its name in `schedule`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Path, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool

from skillyard.access import about
from skillyard.engine import Missed, RunState, Schedule, next_times
from skillyard.permissions import Gate
from skillyard.server.callers import UNRECORDED, Asking, needs
from skillyard.server.problems import READING, WRITING
from skillyard.server.questions import nobody
from skillyard.server.service import Served, Service
from skillyard.server.shapes import Answer
from skillyard.times import utc_text

__all__ = ["routes"]

routes: Final = APIRouter(prefix="/api/v1/schedules", tags=["schedules"], dependencies=[needs("skills:read")])

_EXECUTE: Final = needs("runs:execute")
_Name = Annotated[str, Path(max_length=63, description="the name of the schedule")]


class ScheduleTimes(BaseModel):
    """When: with `cron` (minute, hour, day, month, weekday) again and again, with `at` once.

    What says no offset is a time of `time_zone`.
    """

    model_config = ConfigDict(extra="forbid")

    cron: str | None = Field(default=None, max_length=200)
    at: datetime | None = None
    time_zone: str = Field(default="UTC", max_length=60)


class ScheduleBody(ScheduleTimes):
    """A new schedule: with `cron` (minute, hour, day, month, weekday) a recurring run, with `at` a single one.

    What says no offset is a time of `time_zone`. Of the times that were `missed`, because no server was there, none, the last
    one or each of the last hundred is made up for.
    """

    name: str = Field(min_length=1, max_length=63)
    skill: str = Field(min_length=1, max_length=300)
    parameters: dict[str, Any] = {}
    missed: Literal["skip", "once", "all"] = "once"
    priority: int = Field(default=0, ge=-100, le=100)


class ScheduleDetail(BaseModel):
    """A schedule; `next_at` is null when it is over, `last_run` the id of its last run, `last_state` where that is.

    Its runs are in the name of `made_by`: whoever made it, or whom the command line named; null when that named nobody.
    """

    name: str
    skill: str
    parameters: dict[str, Any]
    cron: str | None
    time_zone: str
    missed: Missed
    priority: int
    digest: str | None
    paused: bool
    made_by: str | None
    created_at: str
    next_at: str | None
    last_at: str | None
    last_run: str | None
    last_state: RunState | None


def _details(service: Service, schedules: Sequence[Schedule]) -> list[ScheduleDetail]:
    last = [schedule.last_run for schedule in schedules if schedule.last_run is not None]
    states = service.catalog.records().journal.states(last) if last else {}
    return [
        ScheduleDetail.model_validate(schedule.to_dict() | {"last_state": states.get(schedule.last_run or "")})
        for schedule in schedules
    ]


def _answer(service: Service, schedule: Schedule) -> Answer[ScheduleDetail]:
    return Answer(data=_details(service, [schedule])[0])


@routes.get("", responses=READING)
def list_schedules(service: Served) -> Answer[list[ScheduleDetail]]:
    """Every schedule, by name."""
    return Answer(data=_details(service, service.catalog.schedules().all()))


@routes.post("/preview", responses=WRITING, dependencies=[UNRECORDED])
def preview_times(body: ScheduleTimes) -> Answer[list[str]]:
    """The first five times at which a schedule would come due that is made now, in UTC; nothing is kept."""
    return Answer(data=[utc_text(moment, to="seconds") for moment in next_times(body.cron, body.at, body.time_zone)])


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
    return _answer(service, kept)


def _agreed(service: Service, gate: Gate, name: str) -> str | None:
    """The content that was agreed to, where a rule wants it to be asked about."""
    skill = service.catalog.get(name)
    if service.catalog.rules().decide(skill) != "ask":
        return None
    return asyncio.run(gate.consent(skill, session="http")).digest


@routes.get("/{name}", responses=READING)
def get_schedule(service: Served, name: _Name) -> Answer[ScheduleDetail]:
    """One schedule."""
    return _answer(service, service.catalog.schedules().get(name))


@routes.delete("/{name}", responses=WRITING, dependencies=[_EXECUTE])
def remove_schedule(service: Served, name: _Name) -> Answer[ScheduleDetail]:
    """Forget a schedule; its runs stay in the records."""
    about(name)
    return _answer(service, service.catalog.schedules().remove(name))


@routes.post("/{name}/pause", responses=WRITING, dependencies=[_EXECUTE])
def pause_schedule(service: Served, name: _Name) -> Answer[ScheduleDetail]:
    """Let a schedule rest."""
    about(name)
    return _answer(service, service.catalog.schedules().pause(name, paused=True))


@routes.post("/{name}/resume", responses=WRITING, dependencies=[_EXECUTE])
def resume_schedule(service: Served, caller: Asking, request: Request, name: _Name) -> Answer[ScheduleDetail]:
    """Let it go on from now; what would have come meanwhile is not made up for."""
    about(name)
    kept = service.catalog.schedules().pause(name, paused=False)
    request.app.state.clock.look_again(caller.organisation)
    return _answer(service, kept)
