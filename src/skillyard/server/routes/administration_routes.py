"""For administrators: organisations, the audit log, worker pools, approvals and the questions that runs wait for."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool

from skillyard.access import (
    DEFAULT_ORGANISATION,
    AuditFilter,
    AuditOutcome,
    AuditRecord,
    Organisation,
    hash_secret,
    set_audit_subject,
)
from skillyard.engine import EngineKind, EngineSettings, PoolInfo, WorkerInfo, WorkerRoster
from skillyard.errors import DatabaseUnavailable, DigestMismatch, RecordNotFound, SkillyardError
from skillyard.permissions import ApprovalAnswer, ApprovalRecord
from skillyard.registry.registry_values import ApprovalState, ListedApproval
from skillyard.server.authorization import SERVER_ADMIN, Caller, CurrentCaller, require_scope
from skillyard.server.background.approval_questions import ApprovalQuestion
from skillyard.server.organisation_services import CurrentServices, OrganisationServices
from skillyard.server.responses import READ_PROBLEMS, WRITE_PROBLEMS
from skillyard.server.server_state import CurrentState
from skillyard.server.shapes import Answer, Listed, Meta, RequestBody, ResponseShape, to_utc
from skillyard.server.shapes.chat_shapes import QuestionFile
from skillyard.skill_detail import approval_summary

organisation_routes: Final = APIRouter(
    prefix="/api/v1/organisations", tags=["organisations"], dependencies=[require_scope("admin"), SERVER_ADMIN]
)


class NewOrganisation(RequestBody):
    """What it is called: lower-case letters, digits and single dashes."""

    name: str = Field(min_length=1, max_length=60)


@organisation_routes.get("", responses=READ_PROBLEMS)
def list_organisations(state: CurrentState) -> Answer[list[Organisation]]:
    """Every organisation; `default` is the server's own."""
    return Answer(data=list(state.pool.organisations.all()))


@organisation_routes.post("", status_code=201, responses=WRITE_PROBLEMS)
def create(state: CurrentState, body: NewOrganisation) -> Answer[Organisation]:
    """Create an organisation, without skills, runs and keys."""
    return Answer(data=state.pool.organisations.create(body.name))


audit_routes: Final = APIRouter(prefix="/api/v1/audit", tags=["audit"], dependencies=[require_scope("admin")])


_Text = Annotated[str | None, Query(max_length=500)]


@audit_routes.get("", responses=READ_PROBLEMS)
def list_events(
    service: CurrentServices,
    actor: _Text = None,
    action: _Text = None,
    subject: _Text = None,
    outcome: AuditOutcome | None = None,
    since: datetime | None = None,
    until: Annotated[datetime | None, Query(description="before that time")] = None,
    text: Annotated[str | None, Query(max_length=200, description="words in who, what, on what or where from")] = None,
    page: Annotated[int, Query(ge=1, le=1_000_000)] = 1,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
) -> Listed[AuditRecord]:
    """The audit log, newest first; a `subject` that is a skill includes all its versions. A time without zone is UTC."""
    only = AuditFilter(
        actor=actor, action=action, subject=subject, outcome=outcome, text=text,
        since=None if since is None else to_utc(since), until=None if until is None else to_utc(until),
    )  # fmt: skip
    total = service.audit_log.count(**only)
    events = service.audit_log.events(**only, limit=limit, offset=(page - 1) * limit)
    meta = Meta.of(total, page, limit)
    return Listed(data=list(events), meta=meta)


worker_routes: Final = APIRouter(prefix="/api/v1/workers", tags=["workers"], dependencies=[require_scope("admin")])


class WorkersDetail(ResponseShape):
    """Where runs execute: `engine` is whether all go through the queue, `reason` why there can be no workers here, or null."""

    engine: EngineKind
    reason: str | None
    pools: list[PoolInfo]
    workers: list[WorkerInfo]


@worker_routes.get("", responses=READ_PROBLEMS)
def get_workers(service: CurrentServices, caller: CurrentCaller) -> Answer[WorkersDetail]:
    """Every pool and worker of the organisation, those that live first."""
    kind = EngineSettings.of(service.catalog.configuration).kind
    try:
        roster = WorkerRoster(service.catalog.records().database)
    except DatabaseUnavailable as problem:
        return Answer(data=WorkersDetail(engine=kind, reason=_reason(problem, caller), pools=[], workers=[]))
    workers = [_shown_worker(worker, caller) for worker in roster.workers()]
    return Answer(data=WorkersDetail(engine=kind, reason=None, pools=list(roster.pools()), workers=workers))


def _reason(problem: DatabaseUnavailable, caller: Caller) -> str:
    if caller.organisation != DEFAULT_ORGANISATION:
        return "this server keeps no worker pools"
    return f"{problem.message}: {problem.hint}" if problem.hint else problem.message


def _shown_worker(worker: WorkerInfo, caller: Caller) -> WorkerInfo:
    """The worker; to other organisations without its machine, which is in its name too."""
    if caller.organisation == DEFAULT_ORGANISATION:
        return worker
    return replace(worker, id=f"worker-{hash_secret(worker.id)[:12]}", host=None, process=None)


approval_routes: Final = APIRouter(prefix="/api/v1/approvals", tags=["approvals"], dependencies=[require_scope("admin")])


class ContentToApprove(RequestBody):
    """A skill, and the `digest` of the content that was read: what has changed since is not approved."""

    skill: str = Field(min_length=1, max_length=300)
    digest: str = Field(min_length=1, max_length=100)


class ApprovedContent(BaseModel):
    """Which skill was approved, with which content."""

    skill_id: str
    digest: str


class RevokedApprovals(BaseModel):
    """Of which skill every approval was taken back."""

    skill_id: str


class WaitingRunInput(BaseModel):
    """What a run that waits was given; secrets are left out, as in its record."""

    entry: str | None
    parameters: dict[str, Any]
    arguments: list[str]
    packages: list[str]
    schedule: str | None


class PendingQuestion(BaseModel):
    """The question whether a skill, with exactly this content, may be used; after `expires_at` the answer is no.

    `files`, `may` (what it may do, in sentences) and `source` are of that content; nothing when the skill has changed since.
    """

    id: str
    title: str
    skill_id: str
    skill_name: str
    description: str
    digest: str
    files: list[QuestionFile]
    may: list[str]
    source: str | None
    input: WaitingRunInput | None
    run_id: str | None
    asked_by: str
    asked_at: datetime
    expires_at: datetime


class ApprovalVerdict(RequestBody):
    """Approve `once`, for the caller's `session` (`always` means the same), for the `workspace`, or `reject`."""

    decision: Literal["once", "session", "always", "workspace", "reject"]
    reason: str | None = Field(default=None, max_length=500)


@approval_routes.get("", responses=READ_PROBLEMS)
def list_approvals(service: CurrentServices) -> Answer[list[ApprovalRecord]]:
    """The approvals of the workspace, by skill."""
    approved = service.catalog.approvals().store.approved()
    return Answer(data=list(approved))


@approval_routes.post("", status_code=201, responses=WRITE_PROBLEMS)
def grant(service: CurrentServices, body: ContentToApprove) -> Answer[ApprovedContent]:
    """Approve a skill for the workspace, with exactly the content that the digest names."""
    skill = service.catalog.get(body.skill)
    set_audit_subject(skill.id)
    if skill.digest() != body.digest:
        raise DigestMismatch("the skill is not the content that was read", hint="read it again, then approve it")
    service.catalog.approvals().store.add(skill.id, body.digest)
    return Answer(data=ApprovedContent(skill_id=skill.id, digest=body.digest))


@approval_routes.delete("", responses=WRITE_PROBLEMS)
def revoke(service: CurrentServices, skill: Annotated[str, Query(min_length=1, max_length=300)]) -> Answer[RevokedApprovals]:
    """Revoke every approval of a skill (by its id in the list): for the workspace, and for sessions."""
    if not service.catalog.approvals().revoke(skill):
        raise RecordNotFound(f"nothing was approved for {skill!r}", hint="GET /api/v1/approvals lists what was")
    return Answer(data=RevokedApprovals(skill_id=skill))


version_approval_routes: Final = APIRouter(
    prefix="/api/v1/approvals/versions", tags=["approvals"], dependencies=[require_scope("skills:read")]
)


@version_approval_routes.get("", responses=READ_PROBLEMS)
def list_versions(service: CurrentServices, state: ApprovalState = "waiting") -> Answer[list[ListedApproval]]:
    """The versions that wait for approval, have it or lost it, the longest waiting first.

    `POST /api/v1/skill-definitions/{id}/versions/{version}/approve` decides about one.
    """
    return Answer(data=list(service.registry.approvals.listed(state)))


@approval_routes.get("/questions", responses=READ_PROBLEMS)
async def list_questions(service: CurrentServices) -> Answer[list[PendingQuestion]]:
    """The pending requests for approval, oldest first."""
    return Answer(data=await run_in_threadpool(_open_questions, service))


@approval_routes.post("/questions/{question_id}", responses=WRITE_PROBLEMS)
async def answer_question(service: CurrentServices, question_id: str, body: ApprovalVerdict) -> Answer[PendingQuestion]:
    """Answer a request for approval of any process; the waiting run continues, or fails."""
    answer = ApprovalAnswer.parse(body.decision, body.reason)
    return Answer(data=await run_in_threadpool(_answered, service, question_id, answer))


def _open_questions(service: OrganisationServices) -> list[PendingQuestion]:
    return [_shown(service, question) for question in service.questions.open()]


def _answered(service: OrganisationServices, question_id: str, answer: ApprovalAnswer) -> PendingQuestion:
    """The question, answered; what the workspace agreed to is there for who looks next, before the asker is answered."""
    question = service.questions.answer(question_id, answer)
    if answer.decision == "workspace":
        service.catalog.approvals().store.add(question.request.skill_id, question.request.digest)
    return _shown(service, question)


def _shown(service: OrganisationServices, question: ApprovalQuestion) -> PendingQuestion:
    request = question.request
    summary: dict[str, Any] = {"files": [], "may": [], "source": None}
    with contextlib.suppress(SkillyardError, OSError):
        skill = service.catalog.get(request.skill_id)
        if skill.digest() == request.digest:
            summary = approval_summary(skill)
    return PendingQuestion(
        id=question.id,
        title=request.title,
        skill_id=request.skill_id,
        skill_name=request.skill_name,
        description=request.description,
        digest=request.digest,
        files=summary["files"],
        may=summary["may"],
        source=summary["source"],
        input=_run_input(service, question.run_id),
        run_id=question.run_id,
        asked_by=question.asked_by,
        asked_at=question.asked_at,
        expires_at=question.expires_at,
    )


def _run_input(service: OrganisationServices, run_id: str | None) -> WaitingRunInput | None:
    if run_id is None:
        return None
    with contextlib.suppress(RecordNotFound):
        record = service.catalog.records().journal.get(run_id)
        return WaitingRunInput(
            entry=record.entry,
            parameters=dict(record.parameters),
            arguments=list(record.arguments),
            packages=list(record.packages),
            schedule=record.schedule,
        )
    return None
