"""Approvals that are answered later: a tool call that needs one is deferred until somebody has decided."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from skillyard.errors import ApprovalRejected, SkillyardError
from skillyard.permissions import ApprovalAnswer, ApprovalRequest
from skillyard.text import shorten, single_line

if TYPE_CHECKING:
    from skillyard.catalog import Skill
    from skillyard.tools import ToolResult


_PENDING: Final = "pending"
_FILES: Final = 100
_NAME: Final = 200  # characters of a file's name
_DESCRIPTION: Final = 1024
_SENTENCE: Final = 500
_SENTENCES: Final = 50


@dataclass(frozen=True, slots=True)
class ApprovalDecision:
    """What somebody decided about one call: the answer, and the content (`sha256:…`) that was looked at."""

    answer: ApprovalAnswer
    digest: str


_decided: Final[ContextVar[ApprovalDecision | None]] = ContextVar("decided", default=None)


class DeferredApprover:
    """An approver that asks nobody now: it gives the decision that the current call carries, else puts the call aside.

    A decision about other content than the skill has now does not count: the question is put again. With `find`, which gives a
    skill for its id, the question tells what files it has and what it may do.
    """

    def __init__(self, find: Callable[[str], Skill | None] | None = None) -> None:
        self._find = find

    async def ask(self, request: ApprovalRequest) -> ApprovalAnswer:
        """The decision that was made, when it is about exactly this content.

        Raises:
            ApprovalRejected: nobody has decided yet; `pending` finds the question in the tool's answer.
        """
        decided = _decided.get()
        if decided is not None and (decided.digest == request.digest or decided.answer.decision == "reject"):
            return decided.answer
        raise ApprovalRejected(
            f"the skill {request.skill_name!r} waits for somebody's approval",
            hint="it was asked for; go on when there is an answer",
            **{_PENDING: await asyncio.to_thread(self._question, request)},
        )

    def _question(self, request: ApprovalRequest) -> dict[str, object]:
        skill = self._find(request.skill_id) if self._find else None
        return question_data(request) | (_skill_summary(skill) if skill is not None else {})


@contextmanager
def decision_in_context(decided: ApprovalDecision | None) -> Iterator[None]:
    """Let the calls inside carry this decision."""
    token = _decided.set(decided)
    try:
        yield
    finally:
        _decided.reset(token)


def question_data(request: ApprovalRequest) -> dict[str, object]:
    """A question as plain data: the request (row 001-18), and what the skill says it is for."""
    described = shorten(single_line(request.description), _DESCRIPTION)
    return {**request.to_dict(), "skillName": request.skill_name, "description": described}


def _skill_summary(skill: Skill) -> dict[str, object]:
    """What a person should see before they agree: the skill's files, and what it may do."""
    from skillyard.registry import read_powers

    try:
        files = [{"name": shorten(single_line(file.name), _NAME), "size": file.size} for file in skill.files()[:_FILES]]
        powers = read_powers(skill.directory, skill.document()).sentences()
        may = [shorten(single_line(sentence), _SENTENCE) for sentence in powers[:_SENTENCES]]
        return {"files": files, "may": may, "source": skill.source}
    except (SkillyardError, OSError):
        return {"files": [], "may": []}


def pending_question(result: ToolResult) -> dict[str, object] | None:
    """The question that a call waits for, when it was put aside."""
    found = result.data.get(_PENDING) if result.code == ApprovalRejected.code else None
    return {str(key): value for key, value in found.items()} if isinstance(found, Mapping) else None
