"""Runs over HTTP: start one and wait or let it go on, follow it, end it, list them, look at one with its steps."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Annotated, Any, Final

from fastapi import APIRouter, Header, Query, Response
from pydantic import AwareDatetime, Field
from starlette.concurrency import run_in_threadpool

from skillyard.access import about
from skillyard.catalog import Skill
from skillyard.engine import FINAL, Begun, RunState
from skillyard.errors import InvalidInput, PermissionDenied, RecordExists
from skillyard.execution import RunError, new_run_id
from skillyard.permissions import Approver
from skillyard.server.callers import Asking, Caller, needs, require_own
from skillyard.server.problems import READING, WRITING
from skillyard.server.questions import nobody
from skillyard.server.run_events import Position, run_events
from skillyard.server.run_shapes import RunDetail, RunEvent, RunSummary, detail, summary
from skillyard.server.service import Served, Service
from skillyard.server.shapes import Answer, Listed, Meta, RequestBody
from skillyard.server.streams import EventStream, streaming

__all__ = ["routes"]

routes: Final = APIRouter(prefix="/api/v1/runs", tags=["runs"], dependencies=[needs("skills:read")])

_EXECUTE: Final = needs("runs:execute")
_Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=200,
        description="the same key and request again is the same run, not a second one",
    ),
]


class RunOrder(RequestBody):
    """What to run; with `digest` only exactly that content.

    With `wait: false` the answer comes at once, and where a rule wants somebody to be asked, the run waits for the answer.
    `fresh` runs although a result is kept.
    """

    skill: str = Field(min_length=1, max_length=300)
    parameters: dict[str, Any] = Field(default={})
    timeout_ms: int | None = Field(default=None, ge=1, le=3_600_000)
    digest: str | None = Field(default=None, max_length=100)
    fresh: bool = False
    wait: bool = True
    priority: int = Field(default=0, ge=-100, le=100, description="of the runs that wait a higher one goes first")


_ACCEPTED: Final[dict[int | str, dict[str, Any]]] = {
    202: {"model": Answer[RunDetail], "description": "it goes on in the server: `wait` was false"}
}


@routes.post("", status_code=201, responses=WRITING | _ACCEPTED, dependencies=[_EXECUTE])
async def start(
    service: Served, caller: Asking, body: RunOrder, response: Response, idempotency_key: _Key = None
) -> Answer[RunDetail]:
    """Run a skill in the sandbox. A script that fails is no error: `status` and `error` of the run say so.

    Where a rule wants a person to be asked, a request that waits is refused, unless the workspace has agreed before.
    """
    about(body.skill)
    run_id = _keyed(caller, idempotency_key, body) if idempotency_key else new_run_id()
    if idempotency_key and await _known(service, run_id):
        response.headers["Idempotency-Replayed"] = "true"
    else:
        try:
            await _begun(service, caller, body, run_id)
        except RecordExists:  # the same request came twice at one moment
            response.headers["Idempotency-Replayed"] = "true"
    if body.wait:
        await service.runs.ended(run_id)
    else:
        response.status_code = 202
    return Answer(data=detail(await run_in_threadpool(service.catalog.records().journal.get, run_id)))


async def _begun(service: Service, caller: Caller, body: RunOrder, run_id: str) -> None:
    """Begin the run; one that is waited for raises what kept it from starting."""
    skill = await run_in_threadpool(service.catalog.get, body.skill)
    service.catalog.gate().check(skill)
    approver = nobody() if body.wait else service.questions.asker(caller.name, run_id)
    consent = _consent(service, caller, skill, body, approver)
    digest = body.digest
    if body.wait and consent is not None:
        digest, consent = await consent() or digest, None
    runner = service.catalog.executor(timeout_ms=body.timeout_ms, prewarm=0)
    engine = service.catalog.engine().through(runner)
    begun: Begun = await service.runs.begin(
        engine.begin(
            skill, body.parameters, context={"userId": service.owner(caller)}, digest=digest, fresh=body.fresh, run_id=run_id,
            consent=consent, priority=body.priority,
        )
    )  # fmt: skip
    if body.wait:
        await service.runs.ended(run_id)
        begun.ended.result()


def _consent(
    service: Service, caller: Caller, skill: Skill, body: RunOrder, approver: Approver
) -> Callable[[], Awaitable[str | None]] | None:
    """What asks before the run; None where no rule wants it."""
    if service.catalog.rules().decide(skill) != "ask":
        return None
    gate = service.catalog.gate(approver)

    async def asked() -> str | None:
        agreed = (await gate.consent(skill, session=service.owner(caller))).digest
        if body.digest is not None and agreed is not None and body.digest != agreed:
            raise PermissionDenied("the skill is not the content that the request names", hint="look at it, and ask again")
        return agreed

    return asked


def _keyed(caller: Caller, key: str, body: RunOrder) -> str:
    """The id of the run that this key and request mean: 16 digits of the key, 10 of the request."""
    whose = _digest([caller.organisation, caller.name, key])
    return f"run_{whose[:16]}{_digest(body.model_dump(mode='json', exclude={'priority', 'wait'}))[:10]}"


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


async def _known(service: Service, run_id: str) -> bool:
    """Whether the run is there already.

    Raises:
        RecordExists: the key was used for another request.
    """
    found = await run_in_threadpool(lambda: service.catalog.records().journal.beginning_with(run_id[:20]))
    if found not in (None, run_id):
        raise RecordExists("this Idempotency-Key was used for another request", hint="use a new key for each request")
    return found is not None


@routes.get("", responses=READING)
def list_runs(
    service: Served,
    skill: Annotated[str | None, Query(max_length=300, description="an id or a name")] = None,
    state: Annotated[list[RunState], Query(max_length=6)] = [],  # noqa: B006 # FastAPI makes a new one
    status: Annotated[list[str], Query(max_length=10, description="how the process ended: ok, error, timeout, …")] = [],  # noqa: B006
    schedule: Annotated[str | None, Query(max_length=63, description="asked for by the schedule of that name")] = None,
    since: Annotated[AwareDatetime | None, Query(description="asked for at that time or later")] = None,
    page: Annotated[int, Query(ge=1, le=1_000_000)] = 1,
    limit: Annotated[int, Query(ge=1, le=200)] = 20,
) -> Listed[RunSummary]:
    """The runs, the newest first."""
    journal = service.catalog.records().journal
    moment = _in_utc(since) if since else None
    total = journal.count(skill=skill, states=state, statuses=status, schedule=schedule, since=moment)
    found = journal.list(
        skill=skill, states=state, statuses=status, schedule=schedule, since=moment, limit=limit, offset=(page - 1) * limit
    )
    meta = Meta(total=total, page=page, limit=limit, totalPages=-(-total // limit))
    return Listed(data=[summary(record) for record in found], meta=meta)


def _in_utc(moment: datetime) -> datetime:
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        raise InvalidInput("no clock ever showed that time", hint="write it as 2026-01-31T08:00:00Z") from None


@routes.get("/{run_id}", responses=READING)
def get_run(service: Served, run_id: str) -> Answer[RunDetail]:
    """One run with its steps, logs and output; an id may be cut to 8 characters or more while it means one run."""
    return Answer(data=detail(service.catalog.records().journal.get(run_id)))


@routes.post("/{run_id}/cancel", responses=WRITING, dependencies=[_EXECUTE])
async def cancel(service: Served, caller: Asking, run_id: str) -> Answer[RunDetail]:
    """End a run that waits or works, one's own or as an admin; one that has ended stays as it is."""
    journal = service.catalog.records().journal
    record = await run_in_threadpool(journal.get, run_id)
    require_own("run", record.context.get("userId") == service.owner(caller), caller)
    if record.state not in FINAL:
        if await service.catalog.engine().cancel(record.id):
            await service.runs.ended(record.id)
        error = RunError("CANCELLED", "the run was cancelled")
        await run_in_threadpool(journal.stop, record.id, "cancelled", error)
        record = await run_in_threadpool(journal.get, record.id)
    return Answer(data=detail(record))


@routes.get(
    "/{run_id}/events",
    response_class=EventStream,
    responses=READING | streaming(RunEvent, "RunEvent", "state, asked, log, step, end"),
)
async def follow(
    service: Served, run_id: str, last_event_id: Annotated[str | None, Header(max_length=100)] = None
) -> EventStream:
    """A run as it goes on, as server-sent events; the stream ends with the run, and `Last-Event-ID` goes on where it broke.

    The data of each event is JSON: `state` says where the run is, `asked` that it waits for an answer, `log` what it printed,
    `step` what it did, `end` the whole run.
    """
    journal = await run_in_threadpool(lambda: service.catalog.records().journal)
    record = await run_in_threadpool(journal.get, run_id)
    events = run_events(record.id, Position.read(last_event_id), journal, service.questions)
    return EventStream(events)
