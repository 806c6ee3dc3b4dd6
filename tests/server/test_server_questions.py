"""A question about a run is open exactly as long as the run waits for its answer, whoever ends the run and when."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime
from typing import Any

import pytest

from skillyard.database import Database
from skillyard.engine import RunRecord
from skillyard.engine.journal import Journal
from skillyard.errors import RecordNotFound
from skillyard.execution import RunError
from skillyard.permissions import ApprovalAnswer, ApprovalRequest
from skillyard.server.background import approval_questions as module
from skillyard.server.background.approval_questions import ApprovalQuestions

pytestmark = pytest.mark.both_databases
REQUEST = ApprovalRequest("user:a", "a", "sha256:0", "s")
CANCELLED = RunError("CANCELLED", "the run was cancelled")


@pytest.fixture
def journal(database: Database) -> Journal:
    """A journal with a run that waits."""
    journal = Journal(database)
    journal.queue(RunRecord("run_a", "user:a", "a", "direct", "queued", datetime.now(UTC)))
    return journal


async def _asked(questions: ApprovalQuestions) -> str:
    async with asyncio.timeout(60):
        while not (found := await asyncio.to_thread(questions.open)):
            await asyncio.sleep(0.01)
    return found[0].id


async def test_the_end_of_a_run_closes_its_question_in_the_same_moment(database: Database, journal: Journal) -> None:
    """Nobody who waits for the answer has done anything yet: not one step of the loop lies between."""
    questions = ApprovalQuestions(lambda: database)
    asking = asyncio.create_task(questions.asker("ada", "run_a").ask(REQUEST))
    await _asked(questions)
    assert journal.stop("run_a", "cancelled", CANCELLED)
    assert questions.open() == ()
    assert questions.for_run("run_a") is None
    async with asyncio.timeout(60):
        assert (await asking).decision == "reject"


async def test_a_question_is_not_opened_for_a_run_that_has_ended(database: Database, journal: Journal) -> None:
    assert journal.stop("run_a", "cancelled", CANCELLED)
    questions = ApprovalQuestions(lambda: database)
    async with asyncio.timeout(60):
        answer = await questions.asker("ada", "run_a").ask(REQUEST)
    assert (answer.decision, questions.open()) == ("reject", ())


async def test_a_run_that_is_cancelled_while_its_question_is_written_leaves_none(
    database: Database, journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever comes first: the question is not kept yet, and the run is about to end."""
    questions, tell, ending = ApprovalQuestions(lambda: database), module._announce, list[threading.Thread]()

    def between(*arguments: Any) -> None:
        tell(*arguments)
        ending.append(threading.Thread(target=journal.stop, args=("run_a", "cancelled", CANCELLED)))
        ending[0].start()
        ending[0].join(0.3)  # it waits for the question, or has ended

    monkeypatch.setattr(module, "_announce", between)
    async with asyncio.timeout(60):
        answer = await questions.asker("ada", "run_a").ask(REQUEST)
    await asyncio.to_thread(ending[0].join)
    assert (answer.decision, journal.state("run_a"), questions.open()) == ("reject", "cancelled", ())


async def test_an_answer_that_comes_when_the_run_is_cancelled_is_too_late(database: Database, journal: Journal) -> None:
    questions = ApprovalQuestions(lambda: database)
    asking = asyncio.create_task(questions.asker("ada", "run_a").ask(REQUEST))
    question = await _asked(questions)
    assert journal.stop("run_a", "cancelled", CANCELLED)
    with pytest.raises(RecordNotFound):
        questions.answer(question, ApprovalAnswer("once"))
    await asking


async def test_an_answer_that_came_before_the_run_was_cancelled_does_not_start_it(database: Database, journal: Journal) -> None:
    questions = ApprovalQuestions(lambda: database)
    asking = asyncio.create_task(questions.asker("ada", "run_a").ask(REQUEST))
    question = await _asked(questions)
    questions.answer(question, ApprovalAnswer("once"))
    assert journal.stop("run_a", "cancelled", CANCELLED)
    await asking
    assert not journal.start("run_a")


@pytest.mark.parametrize("steps", range(12))
async def test_who_is_cancelled_while_he_asks_leaves_no_question(database: Database, journal: Journal, steps: int) -> None:
    """Once, and once more while the question is taken back; whichever step of the loop lies between."""
    questions = ApprovalQuestions(lambda: database)
    asking = asyncio.create_task(questions.asker("ada", "run_a").ask(REQUEST))
    await _asked(questions)
    for _ in range(3):
        asking.cancel()
        for _ in range(steps):
            await asyncio.sleep(0)
    async with asyncio.timeout(60):
        await asyncio.wait([asking])
    assert asking.cancelled()
    assert questions.open() == ()
