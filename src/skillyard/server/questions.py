"""Questions that a page answers: a run that a rule wants to be asked about waits here, until an answer or for five minutes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from skillyard.errors import RecordNotFound
from skillyard.permissions import ApprovalAnswer, ApprovalRequest, PolicyApprover

__all__ = ["Question", "Questions", "nobody"]

PATIENCE_S: Final = 300.0


@dataclass(frozen=True, slots=True)
class Question:
    """One question that is open: what is asked, for which run, by whom, and when it counts as answered with no."""

    id: str
    request: ApprovalRequest
    asked_by: str
    run_id: str | None
    asked_at: datetime
    expires_at: datetime
    answered: asyncio.Future[ApprovalAnswer] = field(compare=False, repr=False)


class Questions:
    """The open questions of one process."""

    def __init__(self, *, patience_s: float = PATIENCE_S) -> None:
        self._patience_s = patience_s
        self._open: dict[str, Question] = {}

    def open(self) -> tuple[Question, ...]:
        """Every open question, the oldest first."""
        return tuple(self._open.values())

    def of_run(self, run_id: str) -> Question | None:
        """What a run waits for."""
        return next((question for question in self.open() if question.run_id == run_id), None)

    def asker(self, name: str, run_id: str | None = None) -> _Asker:
        """An approver that puts its questions here, for the run of somebody."""
        return _Asker(self, name, run_id)

    def answer(self, question_id: str, answer: ApprovalAnswer) -> Question:
        """Answer a question.

        Raises:
            RecordNotFound: it is not open: answered, given up or too late.
        """
        question = self._open.pop(question_id, None)
        if question is None:
            raise RecordNotFound(
                "this question is not open", hint="it was answered, its run was cancelled, or nobody answered in time"
            )
        question.answered.get_loop().call_soon_threadsafe(_settle, question.answered, answer)
        return question

    async def put(self, request: ApprovalRequest, name: str, run_id: str | None) -> ApprovalAnswer:
        """Put a question and wait for the answer; none in time is no."""
        with self._asked(request, name, run_id) as question:
            try:
                return await asyncio.wait_for(question.answered, self._patience_s)
            except TimeoutError:
                return ApprovalAnswer("reject", f"nobody answered within {self._patience_s:g} seconds")

    @contextmanager
    def _asked(self, request: ApprovalRequest, name: str, run_id: str | None) -> Iterator[Question]:
        now = datetime.now(UTC)
        question = Question(
            f"question_{os.urandom(12).hex()}", request, name, run_id, now, now + timedelta(seconds=self._patience_s),
            asyncio.get_running_loop().create_future(),
        )  # fmt: skip
        self._open[question.id] = question
        try:
            yield question
        finally:
            self._open.pop(question.id, None)


def nobody() -> PolicyApprover:
    """Who answers where a request does not wait for a person."""
    return PolicyApprover("reject", "nobody can be asked over HTTP")


@dataclass(frozen=True, slots=True)
class _Asker:
    questions: Questions
    name: str
    run_id: str | None

    async def ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        """As `Approver.ask`."""
        return await self.questions.put(request, self.name, self.run_id)


def _settle(future: asyncio.Future[ApprovalAnswer], answer: ApprovalAnswer) -> None:
    if not future.done():
        future.set_result(answer)
