"""Runs: start one and wait or not, follow it as server-sent events, cancel it, list them, read one; and insights.

The id of an event is how far the run has been reported: state, characters of both streams, steps. A client that comes back
with `Last-Event-ID` gets the rest, from whichever process of the database it reaches.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, Final, Self

from fastapi import APIRouter, Depends, Header, Query, Response
from pydantic import AwareDatetime, BaseModel, Field
from sse_starlette import ServerSentEvent
from starlette.concurrency import run_in_threadpool

from skillyard.access import set_audit_subject
from skillyard.catalog import Skill
from skillyard.database import wait_for_change
from skillyard.engine import FINAL_STATES, RunFilter, RunRecord, RunState, StartedRun
from skillyard.engine.live_output import MAX_LOG_CHARACTERS, STREAMS
from skillyard.errors import PermissionDenied, RecordExists
from skillyard.execution import RunError, RunOrigin, RunRequest, new_run_id
from skillyard.execution.skill_call import Interface
from skillyard.insights import Dimension, InsightReport, InsightSettings, Timeline, UsagePeriod, period_starts, run_timeline
from skillyard.permissions import Approver
from skillyard.registry import version_skill
from skillyard.server.authorization import Caller, CurrentCaller, require_own, require_scope
from skillyard.server.background.approval_questions import RequestApprover
from skillyard.server.organisation_services import CurrentServices, OrganisationServices
from skillyard.server.responses import READ_PROBLEMS, WRITE_PROBLEMS, EventStream, stream_responses
from skillyard.server.routes.workspace_routes import kept_files
from skillyard.server.shapes import Answer, Meta, RequestBody, to_utc
from skillyard.server.shapes.run_shapes import (
    ListedRun,
    ListedRuns,
    RunCounts,
    RunDetail,
    RunEnded,
    RunEvent,
    RunInput,
    RunListMeta,
    RunPeriodCounts,
    RunPrinted,
    RunQuestionAsked,
    RunStateChanged,
    RunStep,
    RunStepEnded,
    owned_context,
)
from skillyard.times import MAX_RUN_MS, utc_now

if TYPE_CHECKING:
    from skillyard.database import LiveEvent
    from skillyard.engine.journal import Journal
    from skillyard.server.background.approval_questions import ApprovalQuestions


_ID: Final = re.compile(r"(\d{1,9})\.(\d{1,12})\.(\d{1,12})\.(\d{1,9})", re.ASCII)
_DAYS: Final = 14  # of a chart that says nothing else
_MOST_BARS: Final = 92
_MOST_DAYS: Final = 366
_ORDER: Final = {"queued": 1, "running": 2}
_ENDED: Final = 3  # every other state
_PositionedEvent = tuple["Position", BaseModel]


@dataclass(frozen=True, slots=True)
class Position:
    """How much of a run has been reported: the number of its state, characters of each stream, steps."""

    state: int = 0
    stdout: int = 0
    stderr: int = 0
    steps: int = 0

    @classmethod
    def read(cls, event_id: str | None) -> Self:
        """The position in the id of an event; the beginning when it is none."""
        match = _ID.fullmatch(event_id or "")
        return cls(*map(int, match.groups())) if match else cls()

    def __str__(self) -> str:
        return f"{self.state}.{self.stdout}.{self.stderr}.{self.steps}"


async def run_events(
    run_id: str, position: Position, journal: Journal, questions: ApprovalQuestions
) -> AsyncGenerator[ServerSentEvent, None]:
    """Report a run from a position on, until it has ended."""
    sent_questions: set[str] = set()
    steps = number = 0
    async with journal.database.notifier.subscribe(run_id) as changed:
        while True:
            state, news = await asyncio.to_thread(journal.events_since, run_id, number)
            if state is None or state in FINAL_STATES:
                break
            if position.state < _ORDER[state]:
                position = replace(position, state=_ORDER[state])
                yield _event(RunStateChanged(run_id=run_id, state=state), position)
            if (
                question := await asyncio.to_thread(questions.for_run, run_id)
            ) is not None and question.id not in sent_questions:
                sent_questions.add(question.id)
                asked_event = RunQuestionAsked(
                    question=question.id, title=question.request.title, expires_at=question.expires_at
                )
                yield _event(asked_event, position)
            for reached, one in _new_events(news, position, steps):
                position = reached
                yield _event(one, position)
            number = news[-1].number if news else number
            steps += sum("step" in item.body for item in news)
            await wait_for_change(changed, journal.database.timing.look_s)
    record = await asyncio.to_thread(journal.get, run_id)
    for reached, last in _remaining_events(record, position):
        yield _event(last, reached)


def _new_events(news: Iterable[LiveEvent], position: Position, steps: int) -> Iterator[_PositionedEvent]:
    """What of the events is behind the position; `steps` were before them."""
    for _, body in news:
        if "step" in body:
            steps += 1
            if steps > position.steps:
                position = replace(position, steps=steps)
                yield position, RunStepEnded(step=RunStep.model_validate(body["step"]))
        elif printed := _printed(body["stream"], body["text"], body["end"], position):
            position = printed[0]
            yield printed


def _remaining_events(record: RunRecord, position: Position) -> Iterator[_PositionedEvent]:
    """What is left to be reported of a run that has ended: what it did before the state in which it ended, as it happened."""
    printed: Any = record.printed or {}
    for stream in STREAMS:
        whole: str = getattr(record, stream)
        kept = whole[-MAX_LOG_CHARACTERS:]  # before it stands that something was left out
        if rest := _printed(stream, kept, printed.get(stream, len(kept)), position):
            position = rest[0]
            yield rest
    first = printed.get("steps", [])
    for at in [*first, *(at for at in range(len(record.steps)) if at not in first)][position.steps :]:
        position = replace(position, steps=position.steps + 1)
        if at >= 0:  # else it was reported of an attempt that failed
            yield position, RunStepEnded(step=RunStep.of(record.steps[at]))
    if position.state < _ENDED:
        position = replace(position, state=_ENDED)
        yield position, RunStateChanged(run_id=record.id, state=record.state)
    yield position, RunEnded(run=RunDetail.of(record))


def _printed(stream: str, text: str, end: int, position: Position) -> tuple[Position, RunPrinted] | None:
    """What of a text, which ends at the character `end` of its stream, is behind the position."""
    sent = getattr(position, stream)
    if end <= sent or not text:
        return None
    new = text[max(0, len(text) - (end - sent)) :]
    moved = replace(position, stdout=end) if stream == "stdout" else replace(position, stderr=end)
    return moved, RunPrinted(stream="stdout" if stream == "stdout" else "stderr", text=new)


def _event(event: BaseModel, position: Position) -> ServerSentEvent:
    name = str(event.model_dump(include={"event"})["event"])
    return ServerSentEvent(event.model_dump_json(), event=name, id=str(position))


routes: Final = APIRouter(prefix="/api/v1/runs", tags=["runs"], dependencies=[require_scope("skills:read")])

_EXECUTE: Final = require_scope("runs:execute")
_Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=200,
        description="the same key and request again is the same run, not a second one",
    ),
]


class NewRun(RunInput):
    """What to run, and what it is given; with `digest` only exactly that content, with `version` that of an installed skill.

    `entry` is another script of the skill: its path, or `package.module` as for `python -m`. `arguments` are its command line,
    `packages` what it gets beside its skill's: `pypdf`, `npm:docx`. The script begins in an empty folder with the `files`; what
    it makes there is at `/api/v1/runs/{run_id}/files`.

    With `wait: false` the answer comes at once, and where a rule requires an approval, the run waits for it.
    `fresh` runs although a result is kept.
    """

    skill: str = Field(min_length=1, max_length=300)
    timeout_ms: int | None = Field(default=None, ge=1, le=MAX_RUN_MS)
    digest: str | None = Field(default=None, max_length=100)
    version: str | None = Field(default=None, max_length=100, description="default: the current version")
    fresh: bool = False
    wait: bool = True
    priority: int = Field(default=0, ge=-100, le=100, description="of the runs that wait a higher one goes first")


_ACCEPTED: Final[dict[int | str, dict[str, Any]]] = {
    202: {"model": Answer[RunDetail], "description": "it continues in the server: `wait` was false"}
}


@routes.post("", status_code=201, responses=WRITE_PROBLEMS | _ACCEPTED, dependencies=[_EXECUTE])
async def start(
    service: CurrentServices, caller: CurrentCaller, body: NewRun, response: Response, idempotency_key: _Key = None
) -> Answer[RunDetail]:
    """Run a skill in the sandbox. A script that fails is no error: `status` and `error` of the run report it.

    Where a rule requires an approval, a request that waits is refused, unless the workspace has approved before: the answer
    has the `digest` to approve with `POST /api/v1/approvals`.
    """
    set_audit_subject(body.skill)
    run_id = _idempotent_run_id(caller, idempotency_key, body) if idempotency_key else new_run_id()
    if idempotency_key and await _was_started(service, run_id):
        response.headers["Idempotency-Replayed"] = "true"
    else:
        try:
            await _start_run(service, caller, body, run_id)
        except RecordExists:  # the same request came twice at one moment
            response.headers["Idempotency-Replayed"] = "true"
    if body.wait:
        await service.runs.ended(run_id)
    else:
        response.status_code = 202
    return Answer(data=RunDetail.of(await run_in_threadpool(service.catalog.records().journal.get, run_id)))


_OR_WAIT: Final = '; or send it with "wait": false: the run waits until POST /api/v1/approvals/questions/{question} answers'


async def _start_run(service: OrganisationServices, caller: Caller, body: NewRun, run_id: str) -> None:
    """Begin the run; one that is waited for raises what kept it from starting."""
    skill = await run_in_threadpool(_find_skill, service, body)
    service.catalog.gate().check(skill)
    approver = RequestApprover(_OR_WAIT) if body.wait else service.questions.asker(caller.name, run_id)
    consent = _consent(service, caller, skill, body, approver)
    context, kept = body.context_of(service.owner(caller)), kept_files(service)
    files = await run_in_threadpool(body.given_files, kept, caller.name)
    digest = body.digest
    if body.wait and consent is not None:
        digest, consent = await consent() or digest, None
    runner = service.catalog.executor(timeout_ms=body.timeout_ms, prewarm=0)
    engine = service.catalog.engine().through(runner)
    request = RunRequest(
        skill, body.parameters, context, body.entry, digest, tuple(body.arguments), tuple(body.packages), files,
        fresh=body.fresh, run_id=run_id, priority=body.priority, origin=RunOrigin("http", service.owner(caller)),
    )  # fmt: skip
    begun: StartedRun = await service.runs.begin(engine.begin(request, consent=consent))
    if body.uploads:
        await run_in_threadpool(kept.discard, caller.name, body.uploads)
    if body.wait:
        await service.runs.ended(run_id)
        begun.ended.result()


class NewTest(RequestBody):
    """Which skill is tried out; of an installed one, with `version`, that of its versions."""

    skill: str = Field(min_length=1, max_length=300)
    version: str | None = Field(default=None, max_length=100, description="default: the current version")


@routes.post("/tests", status_code=202, responses=WRITE_PROBLEMS, dependencies=[_EXECUTE])
async def test_skill(service: CurrentServices, caller: CurrentCaller, body: NewTest) -> Answer[RunDetail]:
    """Test a skill in the sandbox: its `tests/`, its examples, and the format of its evals.

    It goes on as a run with `interface` `test`: each trial is a step, and in `output` is the whole report.
    """
    set_audit_subject(body.skill)
    skill = await run_in_threadpool(_find_skill, service, body)
    digest = await run_in_threadpool(service.agreed_digest, skill)
    context = owned_context({}, service.owner(caller))
    begun = await service.runs.begin(service.catalog.tests().begin(skill, context=context, digest=digest))
    return Answer(data=RunDetail.of(await run_in_threadpool(service.catalog.records().journal.get, begun.run_id)))


class NewEvaluation(RequestBody):
    """Whose prompts are tried."""

    skill: str = Field(min_length=1, max_length=300)


@routes.post("/triggers", status_code=202, responses=WRITE_PROBLEMS, dependencies=[_EXECUTE])
async def try_triggers(service: CurrentServices, caller: CurrentCaller, body: NewEvaluation) -> Answer[RunDetail]:
    """Check whether the prompts in `evals/` of a skill find it; no script of the skill is run.

    It goes on as a run with `interface` `eval`: each prompt is a step with what was found for it. In `output` are the shares of
    hits, what was missed, and `suggestions` for the description where they help and take no prompt from another skill.
    """
    set_audit_subject(body.skill)
    skill = await run_in_threadpool(service.catalog.get, body.skill)
    context = owned_context({}, service.owner(caller))
    begun = await service.runs.begin(service.catalog.tests().begin_triggers(skill, service.catalog, context=context))
    return Answer(data=RunDetail.of(await run_in_threadpool(service.catalog.records().journal.get, begun.run_id)))


def _find_skill(service: OrganisationServices, body: NewRun | NewTest) -> Skill:
    skill = service.catalog.get(body.skill)
    return skill if body.version is None else version_skill(service.catalog, skill.id, body.version)


def _consent(
    service: OrganisationServices, caller: Caller, skill: Skill, body: NewRun, approver: Approver
) -> Callable[[], Awaitable[str | None]] | None:
    """The function that requests an approval before the run; None where no rule requires one."""
    if service.catalog.rules().decide(skill) != "ask":
        return None
    gate = service.catalog.gate(approver)

    async def asked() -> str | None:
        agreed = (await gate.consent(skill, session=service.owner(caller))).digest
        if body.digest is not None and agreed is not None and body.digest != agreed:
            raise PermissionDenied("the skill is not the content that the request names", hint="look at it, and ask again")
        return agreed

    return asked


def _idempotent_run_id(caller: Caller, key: str, body: NewRun) -> str:
    """The id of the run that this key and request mean: 16 digits of the key, 10 of the request."""
    whose = _digest([caller.organisation, caller.name, key])
    return f"run_{whose[:16]}{_digest(body.model_dump(mode='json', exclude={'priority', 'wait'}))[:10]}"


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


async def _was_started(service: OrganisationServices, run_id: str) -> bool:
    """Whether the run is there already.

    Raises:
        RecordExists: the key was used for another request.
    """
    recorded_id = await run_in_threadpool(lambda: service.catalog.records().journal.beginning_with(run_id[:20]))
    if recorded_id not in (None, run_id):
        raise RecordExists("this Idempotency-Key was used for another request", hint="use a new key for each request")
    return recorded_id is not None


def _run_filter(
    skill: Annotated[str | None, Query(max_length=300, description="an id or a name")] = None,
    state: Annotated[list[RunState], Query(max_length=6)] = [],  # noqa: B006 # FastAPI makes a new one
    status: Annotated[list[str], Query(max_length=10, description="how the process ended: ok, error, timeout, …")] = [],  # noqa: B006
    schedule: Annotated[str | None, Query(max_length=63, description="asked for by the schedule of that name")] = None,
    since: Annotated[AwareDatetime | None, Query(description="asked for at that time or later")] = None,
    until: Annotated[AwareDatetime | None, Query(description="asked for before that time")] = None,
    interface: Annotated[Interface | None, Query(description="asked for through this interface")] = None,
    caller: Annotated[str | None, Query(max_length=200, description="asked for by them")] = None,
    agent: Annotated[str | None, Query(max_length=200, description="asked for by a model of this agent")] = None,
    version: Annotated[str | None, Query(max_length=200, description="of skills that declared this version then")] = None,
    tests: Annotated[
        bool, Query(description="false leaves out tests and evaluations of skills, which insights do not count")
    ] = True,
) -> RunFilter:
    """Which runs are meant."""
    return RunFilter(
        skill=skill, states=state, statuses=status, schedule=schedule, since=to_utc(since) if since else None,
        until=to_utc(until) if until else None, interface=interface, caller=caller, agent=agent,
        version=version, tests=tests,
    )  # fmt: skip


_Only = Annotated[RunFilter, Depends(_run_filter)]


@routes.get("", responses=READ_PROBLEMS)
def list_runs(
    service: CurrentServices,
    only: _Only,
    fold: Annotated[bool, Query(description="the runs of one schedule are one row, where its newest is")] = False,
    page: Annotated[int, Query(ge=1, le=1_000_000)] = 1,
    limit: Annotated[int, Query(ge=1, le=200)] = 20,
) -> ListedRuns:
    """The runs, the newest first."""
    journal, offset = service.catalog.records().journal, (page - 1) * limit
    runs = total = journal.count(only)
    if fold:
        total = journal.count_folded(only)
        rows = [_listed(*row) for row in journal.list_folded(only, limit=limit, offset=offset)]
    else:
        rows = [_listed(record) for record in journal.list(only, limit=limit, offset=offset)]
    return ListedRuns(data=rows, meta=RunListMeta(runs=runs, **Meta.of(total, page, limit).model_dump()))


def _listed(record: RunRecord, runs: int = 1, failures: int | None = None) -> ListedRun:
    return ListedRun.model_validate(record.summary() | {"skill_name": record.skill_name, "runs": runs, "failures": failures})


@routes.get("/counts", responses=READ_PROBLEMS)
def count_runs(service: CurrentServices, only: _Only) -> Answer[RunCounts]:
    """The number of runs in each state, by day: of the 14 days before `until`, or from `since` on.

    Over three months are counted by seven days, and at most a year.
    """
    last = (only.until - timedelta(microseconds=1)).date() if only.until else utc_now().date()
    first = only.since.date() if only.since else last - timedelta(days=_DAYS - 1)
    first = min(last, max(first, last - timedelta(days=_MOST_DAYS - 1)))
    period: UsagePeriod = "week" if (last - first).days > _MOST_BARS else "day"
    starts = period_starts(first, last, period)
    edges = [datetime.combine(day, datetime.min.time(), UTC) for day in (*starts, last + timedelta(days=1))]
    counted = service.catalog.records().journal.count_by_state(only, list(pairwise(edges)))
    periods = [RunPeriodCounts.in_states(day, states) for day, states in zip(starts, counted, strict=True)]
    return Answer(data=RunCounts(since=starts[0], until=last, period=period, periods=periods))


@routes.get("/{run_id}", responses=READ_PROBLEMS)
def get_run(service: CurrentServices, run_id: str) -> Answer[RunDetail]:
    """One run with its steps, logs and output; an id may be cut to 8 characters or more while it means one run."""
    return Answer(data=RunDetail.of(service.catalog.records().journal.get(run_id)))


@routes.get("/{run_id}/timeline", responses=READ_PROBLEMS)
def get_timeline(service: CurrentServices, run_id: str) -> Answer[Timeline]:
    """The times of a run's waits, attempts and steps."""
    record = service.catalog.records().journal.get(run_id)
    return Answer(data=run_timeline(record, InsightSettings.of(service.catalog.configuration)))


@routes.post("/{run_id}/cancel", responses=WRITE_PROBLEMS, dependencies=[_EXECUTE])
async def cancel(service: CurrentServices, caller: CurrentCaller, run_id: str) -> Answer[RunDetail]:
    """Cancel a queued or running run, one's own or as an admin; a finished run does not change."""
    journal = service.catalog.records().journal
    record = await run_in_threadpool(journal.get, run_id)
    require_own("run", record.context.get("userId") == service.owner(caller), caller)
    if record.state not in FINAL_STATES:
        if await service.catalog.engine().cancel(record.id):
            await service.runs.ended(record.id)
        error = RunError("CANCELLED", "the run was cancelled")
        await run_in_threadpool(journal.stop, record.id, "cancelled", error)
        service.runs.cancel(record.id)
        record = await run_in_threadpool(journal.get, record.id)
    return Answer(data=RunDetail.of(record))


@routes.get(
    "/{run_id}/events",
    response_class=EventStream,
    responses=READ_PROBLEMS | stream_responses(RunEvent, "RunEvent", "state, asked, log, step, end"),
)
async def follow(
    service: CurrentServices, run_id: str, last_event_id: Annotated[str | None, Header(max_length=100)] = None
) -> EventStream:
    """The events of a run as server-sent events; the stream ends with the run, and `Last-Event-ID` resumes it.

    The data of each event is JSON: `state` is that of the run, `asked` that it waits for an answer, `log` what it printed,
    `step` what it did, `end` the whole run.
    """
    journal = await run_in_threadpool(lambda: service.catalog.records().journal)
    record = await run_in_threadpool(journal.get, run_id)
    events = run_events(record.id, Position.read(last_event_id), journal, service.questions)
    return EventStream(events)


insight_routes: Final = APIRouter(prefix="/api/v1/insights", tags=["insights"], dependencies=[require_scope("skills:read")])


@insight_routes.get("", responses=READ_PROBLEMS)
def insights(
    service: CurrentServices,
    caller: CurrentCaller,
    by: Annotated[Dimension, Query(description="what each row is about; `caller` needs the scope admin")] = "skill",
    since: Annotated[date | None, Query(description="the first day, of UTC; without it the 14th before the last")] = None,
    until: Annotated[date | None, Query(description="the last day; without it today")] = None,
    period: Annotated[UsagePeriod, Query(description="what each of the figures over time is for")] = "day",
    skill: Annotated[str | None, Query(max_length=300, description="only what concerns the skill with this id")] = None,
    unused: Annotated[bool, Query(description="only skills that were offered and neither loaded nor run")] = False,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Answer[InsightReport]:
    """Usage of skills: how often offered, loaded, followed and run, with outcomes, durations and cost."""
    if by == "caller" and not caller.may("admin"):
        hint = "use a key with the scope admin, or another `by`"
        raise PermissionDenied("only an administrator can see callers", hint=hint)
    report = service.catalog.insights().report(
        by, since=since, until=until, period=period, skill=skill, unused=unused, limit=limit
    )
    return Answer(data=report)
