"""A run that goes on by itself: recorded before the answer, agreed to before it starts, ended from anywhere."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from skillyard import Skill
from skillyard.engine import LocalEngine, ProcessIdentity, Records, RunFilter
from skillyard.engine.journal import Journal
from skillyard.errors import ApprovalRejected, RecordExists
from skillyard.execution import RunError, RunRequest
from skillyard.sandbox import listen_to_output

Write = Callable[..., Skill]


async def test_a_run_that_was_begun_is_recorded_at_once_and_goes_on(
    engine: LocalEngine, records: Records, write: Write
) -> None:
    begun = await engine.begin(RunRequest(write("print(1)"), {"a": 1}))
    assert records.journal.get(begun.run_id).parameters == {"a": 1}
    assert (await begun.ended).ok
    assert records.journal.get(begun.run_id).state == "succeeded"
    assert engine.working() == ()


async def test_the_same_id_is_begun_once_only(engine: LocalEngine, write: Write) -> None:
    skill = write("print(1)")
    begun = await engine.begin(RunRequest(skill, {}, run_id="run_mine"))
    with pytest.raises(RecordExists):
        await engine.begin(RunRequest(skill, {}, run_id="run_mine"))
    assert (await begun.ended).run_id == "run_mine"


async def test_a_run_waits_for_consent_and_runs_exactly_what_was_agreed_to(
    engine: LocalEngine, records: Records, write: Write
) -> None:
    skill, asked = write("print(1)"), asyncio.Event()

    async def consent() -> str:
        await asked.wait()
        return skill.digest()

    begun = await engine.begin(RunRequest(skill, {}), consent=consent)
    assert records.journal.get(begun.run_id).state == "queued"
    asked.set()
    await begun.ended
    assert records.journal.get(begun.run_id).digest == skill.digest()


async def test_a_run_that_nobody_agreed_to_has_failed_and_says_why(engine: LocalEngine, records: Records, write: Write) -> None:
    async def consent() -> str:
        raise ApprovalRejected("somebody said no")

    begun = await engine.begin(RunRequest(write("print(1)"), {}), consent=consent)
    with pytest.raises(ApprovalRejected):
        await begun.ended
    record = records.journal.get(begun.run_id)
    assert (record.state, record.error_code, record.error_message) == ("failed", "approval_rejected", "somebody said no")


async def test_a_run_is_cancelled_while_it_waits_for_consent(engine: LocalEngine, records: Records, write: Write) -> None:
    begun = await engine.begin(RunRequest(write("print(1)"), {}), consent=asyncio.Event().wait)  # type: ignore[arg-type] # never answers
    while not await engine.cancel(begun.run_id):
        await asyncio.sleep(0)
    assert (await begun.ended).status == "killed"
    assert records.journal.get(begun.run_id).state == "cancelled"


async def test_who_ends_the_record_in_another_process_ends_the_run(engine: LocalEngine, records: Records, write: Write) -> None:
    begun = await engine.begin(RunRequest(write("import time; time.sleep(60)"), {}))
    while records.journal.state(begun.run_id) != "running":
        await asyncio.sleep(0.01)
    assert Journal(records.journal.database, owner=str(ProcessIdentity.current())).stop(
        begun.run_id, "cancelled", RunError("CANCELLED", "from elsewhere")
    )
    assert (await begun.ended).status == "killed"
    assert records.journal.get(begun.run_id).error_message == "from elsewhere"


@pytest.mark.here
async def test_a_run_is_heard_line_by_line_while_it_works(engine: LocalEngine, write: Write) -> None:
    received: list[tuple[str, str]] = []
    first = asyncio.Event()

    def listener(stream: str, text: str) -> None:
        received.append((stream, text))
        first.set()

    script = "import sys, time\nprint('one\\ntwo', flush=True)\nprint('bad', file=sys.stderr)\nprint('rest', end='')\n"
    with listen_to_output(listener):
        begun = await engine.begin(RunRequest(write(script), {}))
    await first.wait()
    await begun.ended
    assert "".join(text for stream, text in received if stream == "stdout") == "one\ntwo\nrest"
    assert ("stderr", "bad\n") in received


async def test_runs_are_counted_and_given_in_pages(engine: LocalEngine, records: Records, write: Write) -> None:
    good, bad = write("print(1)"), write("raise SystemExit(1)", name="other")
    for skill in (good, bad, good):
        await engine.run(RunRequest(skill, {}))
    journal = records.journal
    newest, middle, oldest = journal.list()
    assert [record.id for record in journal.list(limit=1, offset=1)] == [middle.id]
    assert (journal.count(), journal.count(RunFilter(states=["failed"])), journal.count(RunFilter(skill="example"))) == (
        3,
        1,
        2,
    )
    assert [record.id for record in journal.list(RunFilter(statuses=["error"]))] == [middle.id]
    assert [record.id for record in journal.list(RunFilter(since=middle.created_at))] == [newest.id, middle.id]
    assert journal.count(RunFilter(since=oldest.created_at)) == 3
