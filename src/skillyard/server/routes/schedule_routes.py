"""Schedules over HTTP: skills that run at a time, or again and again; a run of one has its name in `schedule`.

Events over HTTP: something happened, and the skills that wait for it run. Webhooks are addresses at which services without an
API key report events. Of such a request only the body is signed, so the type of the event is the webhook's own and its id is of
the body: a request that somebody records and sends again is the same event, which begins nothing a second time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Depends, Header, Path, Request, Response
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from skillyard.access import Keys, Webhook, Webhooks, acting_as, set_audit_subject
from skillyard.engine import (
    EVENT_ID,
    EVENT_PREFIX,
    EVENT_TYPE,
    MAX_EVENT_NAME,
    Event,
    FiredEvent,
    RunState,
    Schedule,
    ScheduleOwners,
    ended_event,
    next_times,
)
from skillyard.errors import FileTooLarge, InvalidInput
from skillyard.execution.run_inputs import MOST_ARGUMENTS, MOST_FILES, MOST_PACKAGES
from skillyard.plain_json import read_json
from skillyard.registry import version_skill
from skillyard.server.authorization import UNRECORDED, WEBHOOK, CurrentCaller, require_own, require_scope
from skillyard.server.file_transfers import read_body
from skillyard.server.middleware.authentication import SIGNATURE
from skillyard.server.organisation_services import CurrentServices
from skillyard.server.responses import READ_PROBLEMS, WRITE_PROBLEMS
from skillyard.server.routes.workspace_routes import kept_files
from skillyard.server.server_state import CurrentState
from skillyard.server.shapes import Answer, RequestBody
from skillyard.server.shapes.run_shapes import GivenFile, PackageName, RunInput, owned_context
from skillyard.times import utc_text
from skillyard.wire import WireForm, wire

routes: Final = APIRouter(prefix="/api/v1/schedules", tags=["schedules"], dependencies=[require_scope("skills:read")])

_EXECUTE: Final = require_scope("runs:execute")
_Name = Annotated[str, Path(max_length=63, description="the name of the schedule")]


class ScheduleTimes(RequestBody):
    """When: with `cron` (minute, hour, day, month, weekday) again and again, with `at` once.

    A time without an offset is one of `time_zone`.
    """

    cron: str | None = Field(default=None, max_length=200)
    at: datetime | None = None
    time_zone: str = Field(default="UTC", max_length=60)


class ScheduleBody(ScheduleTimes, RunInput):
    """A new schedule: with `cron` (minute, hour, day, month, weekday) a recurring run, with `at` a single one.

    A time without an offset is one of `time_zone`. Of the times that were `missed`, because no server was there, none, the last
    one or each of the last hundred is made up for. Each run is given the same `entry`, `arguments`, `packages` and `files`.
    """

    name: str = Field(min_length=1, max_length=63)
    skill: str = Field(min_length=1, max_length=300)
    missed: Literal["skip", "once", "all"] = "once"
    priority: int = Field(default=0, ge=-100, le=100)


class ScheduleChange(RequestBody):
    """What of a schedule is changed, from now on; what is left out stays.

    `cron` or `at` gives it other times. `version` names the version of an installed skill that it runs, and runs it whatever
    becomes current; `null` lets the current one run. A value that reads `[redacted]` stays what it is.
    """

    cron: str | None = Field(default=None, max_length=200)
    at: datetime | None = None
    time_zone: str | None = Field(default=None, max_length=60)
    missed: Literal["skip", "once", "all"] | None = None
    priority: int | None = Field(default=None, ge=-100, le=100)
    paused: bool | None = None
    version: str | None = Field(default=None, max_length=100)
    parameters: dict[str, Any] | None = None
    entry: str | None = Field(default=None, max_length=500, description="`null` is the script that the skill declares")
    arguments: list[str] | None = Field(default=None, max_length=MOST_ARGUMENTS)
    packages: list[PackageName] | None = Field(default=None, max_length=MOST_PACKAGES)
    files: list[GivenFile] | None = Field(default=None, max_length=MOST_FILES, description="in place of those it gives now")

    def values(self) -> dict[str, Any]:
        """The fields of a schedule that are changed."""
        given = self.model_fields_set
        plain = {
            name: getattr(self, name)
            for name in ("cron", "time_zone", "missed", "priority", "paused", "parameters", "arguments", "packages")
            if name in given and getattr(self, name) is not None
        }
        return plain | ({"entry": self.entry or None} if "entry" in given else {})


@dataclass(frozen=True, slots=True)
class ScheduleDetail(WireForm):
    """A schedule, and the state of its last run; null when there was none."""

    schedule: Schedule = field(metadata=wire(inline=True))
    last_state: RunState | None


class _CallerSchedules:
    """The schedules of the caller's organisation, and who of it may do what with them."""

    def __init__(self, service: CurrentServices, caller: CurrentCaller, state: CurrentState) -> None:
        self._service, self._catalog, self._caller = service, service.catalog, caller
        self._clock = state.clock
        self._book = service.catalog.schedules()
        self._owner = service.owner(caller)
        self._files = kept_files(service)
        self._makers = ScheduleOwners(Keys(state.pool.database), caller.organisation)

    def shown(self, schedules: Sequence[Schedule]) -> list[ScheduleDetail]:
        """The current schedules."""
        last = [one.last_run for one in schedules if one.last_run is not None]
        states = self._catalog.records().journal.states(last) if last else {}
        return [ScheduleDetail(one, states.get(one.last_run or "")) for one in self._makers.held(schedules)]

    def all(self) -> list[ScheduleDetail]:
        """Every one, by name."""
        return self.shown(self._book.all())

    def get(self, name: str) -> ScheduleDetail:
        """One of them."""
        return self.shown([self._book.get(name)])[0]

    def add(self, schedule: Schedule, body: ScheduleBody) -> ScheduleDetail:
        """Keep a new one, of the caller."""
        context = body.context_of(self._owner)
        files = body.given_files(self._files, self._caller.name)
        made = replace(schedule, made_by=self._caller.name, key_id=self._caller.key, context=context)
        kept = self._book.add(made, at=body.at, files=files)
        if body.uploads:
            self._files.discard(self._caller.name, body.uploads)
        return self._changed(kept)

    def change(self, name: str, body: ScheduleChange) -> ScheduleDetail:
        """Change one that the caller may change."""
        self._mine(name)
        values, files = body.values(), None
        schedule = self._book.get(name)
        if body.files is not None:
            given = RunInput(files=body.files, arguments=body.arguments or [], packages=body.packages or [])
            files = given.given_files(self._files, self._caller.name)
        if "version" in body.model_fields_set:
            values["digest"] = self._digest(schedule, body.version)
        changed = self._book.change(name, at=body.at, files=files, **values)
        if body.files and (uploads := [one.upload for one in body.files if one.upload is not None]):
            self._files.discard(self._caller.name, uploads)
        return self._changed(changed)

    def _digest(self, schedule: Schedule, version: str | None) -> str | None:
        """The content that is to run: of that version, or what a rule that asks was agreed to."""
        if schedule.event is not None:
            raise InvalidInput("an event has no version", hint="leave it out")
        skill = self._catalog.get(schedule.skill)
        if version is not None:
            skill = version_skill(self._catalog, skill.id, version)
        self._catalog.gate().check(skill)
        agreed = self._service.agreed_digest(skill)
        return agreed if version is None else skill.digest()

    async def run(self, name: str) -> str:
        """Begin a run of one that the caller may change now; gives its id."""
        await run_in_threadpool(self._mine, name)
        scheduler = self._catalog.scheduler(self._service.runs.begin, self._makers)
        return (await scheduler.begin_now(name))[0]

    def remove(self, name: str) -> ScheduleDetail:
        """Forget one that the caller may change."""
        self._mine(name)
        return self._changed(self._book.remove(name))

    def pause(self, name: str, *, paused: bool) -> ScheduleDetail:
        """Pause or resume a schedule that the caller may change."""
        self._mine(name)
        return self._changed(self._book.pause(name, paused=paused))

    def take_over(self, name: str) -> ScheduleDetail:
        """Take over a schedule that the caller may change."""
        self._mine(name)
        context = {"userId": self._owner}
        return self._changed(self._book.take_over(name, made_by=self._caller.name, key_id=self._caller.key, context=context))

    def _mine(self, name: str) -> None:
        require_own("schedule", self._book.get(name).made_by == self._caller.name, self._caller)

    def _changed(self, schedule: Schedule) -> ScheduleDetail:
        self._clock.wake(self._caller.organisation)
        return self.shown([schedule])[0]


_Schedules = Annotated[_CallerSchedules, Depends()]


@routes.get("", responses=READ_PROBLEMS)
def list_schedules(book: _Schedules) -> Answer[list[ScheduleDetail]]:
    """Every schedule, by name."""
    return Answer(data=book.all())


@routes.post("/preview", responses=WRITE_PROBLEMS, dependencies=[UNRECORDED])
def preview_times(body: ScheduleTimes) -> Answer[list[str]]:
    """The next five times of a schedule that is not saved, in UTC."""
    return Answer(data=[utc_text(moment, to="seconds") for moment in next_times(body.cron, body.at, body.time_zone)])


@routes.post("", status_code=201, responses=WRITE_PROBLEMS, dependencies=[_EXECUTE])
async def add_schedule(service: CurrentServices, book: _Schedules, body: ScheduleBody) -> Answer[ScheduleDetail]:
    """Run a skill, or fire an event `event:TYPE`, once at a time or repeatedly, for the caller.

    Where a rule requires an approval, the workspace must have approved before.
    """
    set_audit_subject(body.name)
    skill_id, digest = body.skill, None
    if not body.skill.startswith(EVENT_PREFIX):
        skill = await run_in_threadpool(service.catalog.get, body.skill)
        service.catalog.gate().check(skill)
        skill_id, digest = skill.id, await run_in_threadpool(service.agreed_digest, skill)
    schedule = Schedule(
        name=body.name,
        skill=skill_id,
        parameters=body.parameters,
        cron=body.cron,
        time_zone=body.time_zone,
        missed=body.missed,
        priority=body.priority,
        digest=digest,
        entry=body.entry,
        arguments=tuple(body.arguments),
        packages=tuple(body.packages),
    )
    return Answer(data=await run_in_threadpool(book.add, schedule, body))


@routes.get("/{name}", responses=READ_PROBLEMS)
def get_schedule(book: _Schedules, name: _Name) -> Answer[ScheduleDetail]:
    """One schedule."""
    return Answer(data=book.get(name))


@routes.patch("/{name}", responses=WRITE_PROBLEMS, dependencies=[_EXECUTE])
def change_schedule(book: _Schedules, name: _Name, body: ScheduleChange) -> Answer[ScheduleDetail]:
    """Change the times, the input, the version or the state of a schedule, one's own or as an admin; its runs stay."""
    set_audit_subject(name)
    return Answer(data=book.change(name, body))


class BegunRun(BaseModel):
    """The run that was begun, by its id; of a schedule that fires an event the id of that event."""

    run_id: str


@routes.post("/{name}/run", status_code=202, responses=WRITE_PROBLEMS, dependencies=[_EXECUTE])
async def run_schedule(book: _Schedules, name: _Name) -> Answer[BegunRun]:
    """Start an additional run of a schedule now, one's own or as an admin; its next time does not change."""
    set_audit_subject(name)
    return Answer(data=BegunRun(run_id=await book.run(name)))


@routes.delete("/{name}", responses=WRITE_PROBLEMS, dependencies=[_EXECUTE])
def remove_schedule(book: _Schedules, name: _Name) -> Answer[ScheduleDetail]:
    """Delete a schedule, one's own or as an admin; its runs stay in the records."""
    set_audit_subject(name)
    return Answer(data=book.remove(name))


@routes.post("/{name}/pause", responses=WRITE_PROBLEMS, dependencies=[_EXECUTE])
def pause_schedule(book: _Schedules, name: _Name) -> Answer[ScheduleDetail]:
    """Pause a schedule, one's own or as an admin."""
    set_audit_subject(name)
    return Answer(data=book.pause(name, paused=True))


@routes.post("/{name}/resume", responses=WRITE_PROBLEMS, dependencies=[_EXECUTE])
def resume_schedule(book: _Schedules, name: _Name) -> Answer[ScheduleDetail]:
    """Resume a schedule from now on; missed times are skipped."""
    set_audit_subject(name)
    return Answer(data=book.pause(name, paused=False))


@routes.post("/{name}/take-over", responses=WRITE_PROBLEMS, dependencies=[_EXECUTE])
def take_over_schedule(book: _Schedules, name: _Name) -> Answer[ScheduleDetail]:
    """Take over a held schedule as the caller: one of the same name, or any as an admin."""
    set_audit_subject(name)
    return Answer(data=book.take_over(name))


event_routes: Final = APIRouter(prefix="/api/v1/events", tags=["runs"], dependencies=[_EXECUTE])


class NewEvent(RequestBody):
    """Something that happened; skills get its `data` as parameters, and `event` in their context.

    The same `id` is the same event: it runs a skill once. With `wait` the answer comes when all runs have ended.
    """

    type: Annotated[
        str,
        Field(max_length=MAX_EVENT_NAME, pattern=EVENT_TYPE, description="as `calendar.reminder`"),
    ]
    data: dict[str, Any] = Field(default={})
    id: Annotated[str | None, Field(min_length=1, max_length=MAX_EVENT_NAME, pattern=EVENT_ID)] = None
    source: Annotated[str, Field(min_length=1, max_length=MAX_EVENT_NAME, pattern=EVENT_ID)] = "http"
    context: dict[str, Any] = Field(default={}, description="as of a run; the server sets its user")
    wait: bool = False


@event_routes.post("", status_code=202, responses=WRITE_PROBLEMS)
async def fire_event(service: CurrentServices, caller: CurrentCaller, body: NewEvent) -> Answer[FiredEvent]:
    """Run every skill that declares the type of an event, the highest priority first, once for each event."""
    set_audit_subject(body.type)
    given = {} if body.id is None else {"id": body.id}
    event = Event(body.type, body.data, source=body.source, **given)
    fired, begun = await service.catalog.events().begin(
        event,
        context=owned_context(body.context, service.owner(caller)),
        asker=lambda run_id: service.questions.asker(caller.name, run_id),
        begin=service.runs.begin,
    )
    if body.wait:
        fired = await ended_event(fired, begun)
    return Answer(data=fired)


webhook_routes: Final = APIRouter(prefix="/api/v1/webhooks", tags=["webhooks"])

_LARGEST: Final = 1024 * 1024
_HookName = Annotated[str, Path(max_length=63, description="the name of the webhook")]


class NewWebhook(RequestBody):
    """A new address: what is reported there happens as the event `event`.

    `id_field` names the field at the top of a body that has the event's id; without it equal bodies are the same event.
    """

    name: str = Field(min_length=1, max_length=63)
    event: str = Field(max_length=MAX_EVENT_NAME, pattern=EVENT_TYPE, description="as `github.push`")
    id_field: str | None = Field(default=None, min_length=1, max_length=100)


class CreatedWebhook(BaseModel):
    """A new webhook; `secret` is never shown again, `path` is where to send to."""

    webhook: Webhook
    secret: str
    path: str


class ReceivedEvent(BaseModel):
    """What was taken: how many skills it begins, and how many it had begun before."""

    id: str
    type: str
    begun: int
    repeated: int
    refused: int


@webhook_routes.get("", responses=READ_PROBLEMS, dependencies=[_EXECUTE])
def list_webhooks(state: CurrentState, caller: CurrentCaller) -> Answer[list[Webhook]]:
    """Every webhook of the organisation, by name; none of them with its secret."""
    return Answer(data=list(Webhooks(state.pool.database).all(caller.organisation)))


@webhook_routes.post("", status_code=201, responses=WRITE_PROBLEMS, dependencies=[_EXECUTE])
def create_webhook(
    state: CurrentState, service: CurrentServices, caller: CurrentCaller, response: Response, body: NewWebhook
) -> Answer[CreatedWebhook]:
    """Create a webhook for the events of one source. The response has the only copy of its secret."""
    made, secret = Webhooks(state.pool.database).create(
        body.name,
        body.event,
        owner=service.owner(caller),
        made_by=caller.name,
        organisation=caller.organisation,
        key_id=caller.key,
        id_field=body.id_field,
    )
    response.headers["Cache-Control"] = "no-store"
    path = f"{webhook_routes.prefix}/{made.name}"
    return Answer(data=CreatedWebhook(webhook=made, secret=secret, path=path))


@webhook_routes.delete("/{name}", responses=WRITE_PROBLEMS, dependencies=[_EXECUTE])
def remove_webhook(state: CurrentState, caller: CurrentCaller, name: _HookName) -> Answer[Webhook]:
    """Delete a webhook, one's own or as an admin."""
    store = Webhooks(state.pool.database)
    require_own("webhook", store.get(name, caller.organisation).made_by == caller.name, caller)
    return Answer(data=store.remove(name, caller.organisation))


@webhook_routes.post("/{name}", status_code=202, responses=WRITE_PROBLEMS, openapi_extra=WEBHOOK)
async def receive_event(
    request: Request,
    state: CurrentState,
    name: _HookName,
    x_hub_signature_256: Annotated[str | None, Header(alias=SIGNATURE, max_length=200)] = None,
    x_github_event: Annotated[str | None, Header(max_length=200)] = None,
) -> Answer[ReceivedEvent]:
    """Receive an event, a JSON object of at most 1 MiB, signed with the webhook's secret or with the secret as bearer token.

    A run that needs an approval waits for it. The `ping` of GitHub is answered and begins nothing.
    """
    body = await read_body(request, _LARGEST, FileTooLarge("the event is over 1 MiB", hint="send less of it"))
    scheme, _, secret = request.headers.get("authorization", "").partition(" ")
    sent = secret.strip() if scheme.lower() == "bearer" else None
    store = Webhooks(state.pool.database)
    hook = await run_in_threadpool(store.authenticated, name, body, signature=x_hub_signature_256, secret=sent)
    data = _read(request, body)
    actor = replace(request.state.actor, name=f"webhook {hook.name}", organisation=hook.organisation)
    with acting_as(actor) as acting:
        request.state.actor = acting
        set_audit_subject(hook.event)
        event = Event(hook.event, data, id=hook.event_id(body, data), source=f"webhook {hook.name}")
        if x_github_event == "ping":
            return Answer(data=ReceivedEvent(id=event.id, type=event.type, begun=0, repeated=0, refused=0))
        return Answer(data=await _fire(state, hook, event))


def _read(request: Request, body: bytes) -> dict[str, object]:
    if "json" not in request.headers.get("content-type", "json").lower():
        raise HTTPException(415, "an event is sent as application/json")
    try:
        data = read_json(body.decode("utf-8"))
    except ValueError as error:
        raise InvalidInput(f"the body is not JSON: {error}", hint="send a JSON object") from None
    if not isinstance(data, dict):
        raise InvalidInput("the body is JSON, and no object", hint="send a JSON object: skills get its fields as parameters")
    return data


async def _fire(state: CurrentState, hook: Webhook, event: Event) -> ReceivedEvent:
    async with state.pool.of(hook.organisation) as service:
        await service.catch_up()
        fired, _ = await service.catalog.events().begin(
            event,
            context={"userId": hook.owner},
            asker=lambda run_id: service.questions.asker(event.source, run_id),
            begin=service.runs.begin,
        )
    states = [run.state for run in fired.runs]
    begun, repeated = states.count("begun"), states.count("repeated")
    return ReceivedEvent(id=event.id, type=event.type, begun=begun, repeated=repeated, refused=len(states) - begun - repeated)
