"""Events over HTTP: something happened, and the skills that wait for it run."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter
from pydantic import BaseModel, Field

from skillyard.access import set_audit_subject
from skillyard.engine import Event, ended_event
from skillyard.server.authorization import CurrentCaller, require_scope
from skillyard.server.organisation_services import CurrentServices
from skillyard.server.problems import WRITE_PROBLEMS
from skillyard.server.shapes import Answer, RequestBody
from skillyard.server.shapes.run_requests import owned_context

routes: Final = APIRouter(prefix="/api/v1/events", tags=["runs"], dependencies=[require_scope("runs:execute")])


class NewEvent(RequestBody):
    """Something that happened; skills get its `data` as parameters, and `event` in their context.

    The same `id` is the same event: it runs a skill once. With `wait` the answer comes when all runs have ended.
    """

    type: Annotated[str, Field(min_length=1, max_length=200, description="words with dots between: `calendar.reminder`")]
    data: dict[str, Any] = Field(default={})
    id: Annotated[str | None, Field(min_length=1, max_length=200)] = None
    source: Annotated[str, Field(min_length=1, max_length=200)] = "http"
    context: dict[str, Any] = Field(default={}, description="as of a run: whose it is the server says")
    wait: bool = False


class EventRunDetail(BaseModel):
    """What became of one skill that waits for the event by the type it `declared`.

    `state` is `begun`; `repeated` when the same event has begun the run before; `refused` for the `reason`. Where a rule
    requires an approval, the run waits for it. `status` is how a run ended that was waited for.
    """

    skill: str
    declared: str
    state: Literal["begun", "repeated", "asks", "refused"]
    run_id: str
    reason: str | None = None
    status: str | None = None


class FiredEventDetail(BaseModel):
    """An event, and what became of each skill that waits for it, the highest priority first."""

    id: str
    type: str
    ok: bool
    runs: list[EventRunDetail]


@routes.post("", status_code=202, responses=WRITE_PROBLEMS)
async def fire_event(service: CurrentServices, caller: CurrentCaller, body: NewEvent) -> Answer[FiredEventDetail]:
    """Run every skill that declares the type of an event, the highest priority first, once for each event."""
    set_audit_subject(body.type)
    given = {} if body.id is None else {"id": body.id}
    event = Event(body.type, body.data, source=body.source, **given)
    fired, begun = await service.catalog.begin_event(
        event,
        context=owned_context(body.context, service.owner(caller)),
        asker=lambda run_id: service.questions.asker(caller.name, run_id),
        begin=service.runs.begin,
    )
    if body.wait:
        fired = await ended_event(fired, begun)
    return Answer(data=FiredEventDetail.model_validate(fired.to_dict()))
