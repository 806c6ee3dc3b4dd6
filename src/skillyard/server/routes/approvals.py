"""Approvals over HTTP: what the workspace agreed to, and the questions that runs wait for an answer to."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool

from skillyard.errors import RecordNotFound
from skillyard.permissions import ApprovalAnswer
from skillyard.server.authorization import require_scope
from skillyard.server.background.approval_questions import ApprovalQuestion
from skillyard.server.organisation_services import CurrentServices, OrganisationServices
from skillyard.server.problems import READ_PROBLEMS, WRITE_PROBLEMS
from skillyard.server.shapes.envelope import Answer, RequestBody

routes: Final = APIRouter(prefix="/api/v1/approvals", tags=["approvals"], dependencies=[require_scope("admin")])


class Approval(BaseModel):
    """That a skill may be used in a workspace for as long as its content has the `digest`."""

    workspace: str
    skill_id: str
    digest: str
    approved_at: str


class Revoked(BaseModel):
    """Of which skill every approval was taken back."""

    skill_id: str


class PendingQuestion(BaseModel):
    """The question whether a skill, with exactly this content, may be used; after `expires_at` the answer is no."""

    id: str
    title: str
    skill_id: str
    skill_name: str
    description: str
    digest: str
    run_id: str | None
    asked_by: str
    asked_at: datetime
    expires_at: datetime


class ApprovalVerdict(RequestBody):
    """Yes this `once`, for the `session` of who asks (`always` means the same), for the `workspace`, or `reject`."""

    decision: Literal["once", "session", "always", "workspace", "reject"]
    reason: str | None = Field(default=None, max_length=500)


@routes.get("", responses=READ_PROBLEMS)
def list_approvals(service: CurrentServices) -> Answer[list[Approval]]:
    """What the workspace agreed to, by skill."""
    approved = service.catalog.approvals().store.approved()
    return Answer(data=[Approval.model_validate(one.to_dict()) for one in approved])


@routes.delete("", responses=WRITE_PROBLEMS)
def revoke(service: CurrentServices, skill: Annotated[str, Query(min_length=1, max_length=300)]) -> Answer[Revoked]:
    """Take back every approval of a skill (its id as the list has it): for the workspace, and for sessions."""
    if not service.catalog.approvals().revoke(skill):
        raise RecordNotFound(f"nothing was approved for {skill!r}", hint="GET /api/v1/approvals lists what was")
    return Answer(data=Revoked(skill_id=skill))


@routes.get("/questions", responses=READ_PROBLEMS)
async def list_questions(service: CurrentServices) -> Answer[list[PendingQuestion]]:
    """The questions that are open, the oldest first."""
    return Answer(data=[_shown(question) for question in await run_in_threadpool(service.questions.open)])


@routes.post("/questions/{question_id}", responses=WRITE_PROBLEMS)
async def answer_question(service: CurrentServices, question_id: str, body: ApprovalVerdict) -> Answer[PendingQuestion]:
    """Answer a question, whichever process asks it; the run that waits for it goes on, or has failed."""
    answer = ApprovalAnswer.parse(body.decision, body.reason)
    return Answer(data=_shown(await run_in_threadpool(_answered, service, question_id, answer)))


def _answered(service: OrganisationServices, question_id: str, answer: ApprovalAnswer) -> ApprovalQuestion:
    """The question, answered; what the workspace agreed to is there for who looks next, before the one who asked has heard."""
    question = service.questions.answer(question_id, answer)
    if answer.decision == "workspace":
        service.catalog.approvals().store.add(question.request.skill_id, question.request.digest)
    return question


def _shown(question: ApprovalQuestion) -> PendingQuestion:
    request = question.request
    return PendingQuestion(
        id=question.id,
        title=request.title,
        skill_id=request.skill_id,
        skill_name=request.skill_name,
        description=request.description,
        digest=request.digest,
        run_id=question.run_id,
        asked_by=question.asked_by,
        asked_at=question.asked_at,
        expires_at=question.expires_at,
    )
