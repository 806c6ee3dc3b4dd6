"""What every engine promises about time, priorities, cancelling and attempts, in each database, here and through the queue."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from skillyard import Executor, Skill
from skillyard.catalog import Configuration
from skillyard.engine import LocalEngine, Records
from skillyard.errors import InvalidInput
from skillyard.execution import RunError, RunRequest

Write = Callable[..., Skill]
SLEEPS = "import json, sys, time\ntime.sleep(json.load(sys.stdin)['input'].get('s', 60))\nprint(json.dumps({'output': 1}))\n"
RETRY = "config:\n  retry:\n    attempts: 3\n    backoff: 0\n"
FAILS = "import sys\nsys.exit('not today')\n"
HALF = """
from skillyard_sdk import step


@step("download")
def download(address):
    return {"from": address, "bytes": 42}


def execute(parameters):
    with step("look") as looking:
        again, looking.output = looking.finished, "done"
    found = download(parameters["address"])
    if not again:
        raise RuntimeError("interrupted in the middle")
    with step("count", input=found) as counting:
        counting.output = found["bytes"] * 2
    return counting.output
"""
CANCELLED = RunError("CANCELLED", "by another process")


async def _until(engine: LocalEngine, records: Records, state: str, number: int = 1) -> list[str]:
    """The ids of so many runs in that state, as soon as there are."""
    for _ in range(2000):
        found = await asyncio.to_thread(lambda: [record.id for record in records.journal.list() if record.state == state])
        if len(found) == number:
            return found
        await asyncio.sleep(0.02)
    raise AssertionError(f"there were never {number} runs {state}")


async def test_a_run_that_takes_longer_than_it_may_is_ended(engine: LocalEngine, records: Records, write: Write) -> None:
    quick = engine.through(Executor.from_configuration(Configuration(), timeout_ms=300))
    run = await quick.run(RunRequest(write(SLEEPS), {}))
    record = records.journal.get(run.run_id)
    assert (run.status, record.state, record.status) == ("timeout", "failed", "timeout")


async def test_the_more_important_of_those_that_wait_goes_first(engine: LocalEngine, records: Records, write: Write) -> None:
    skill = write(SLEEPS)
    blocking = [asyncio.create_task(engine.run(RunRequest(skill, {}))) for _ in range(2)]
    ids = await _until(engine, records, "running", 2)
    waiting = []
    for priority in (0, -5, 5):
        waiting.append(asyncio.create_task(engine.run(RunRequest(skill, {"s": 0, "p": priority}, priority=priority))))
        await _until(engine, records, "queued", len(waiting))
    records.journal.stop(ids[0], "cancelled", CANCELLED)
    done = await asyncio.gather(*waiting)
    records_of = sorted((records.journal.get(run.run_id) for run in done), key=lambda record: record.started_at or 0)  # type: ignore[arg-type,return-value]
    assert [(record.parameters["p"], record.priority) for record in records_of] == [(5, 5), (0, 0), (-5, -5)]
    records.journal.stop(ids[1], "cancelled", CANCELLED)
    await asyncio.gather(*blocking)


async def test_a_priority_that_is_none_is_refused_and_nothing_is_recorded(
    engine: LocalEngine, records: Records, write: Write
) -> None:
    with pytest.raises(InvalidInput, match="priority"):
        await engine.run(RunRequest(write(SLEEPS), {}, priority=101))
    assert records.journal.list() == ()


async def test_who_cancels_from_elsewhere_ends_what_waits_and_what_works(
    engine: LocalEngine, records: Records, write: Write
) -> None:
    skill = write(SLEEPS)
    tasks = [await engine.begin(RunRequest(skill, {})) for _ in range(3)]
    working = await _until(engine, records, "running", 2)
    (waiting,) = await _until(engine, records, "queued", 1)
    for run_id in (waiting, *working):
        assert records.journal.stop(run_id, "cancelled", CANCELLED)
    for begun in tasks:
        await asyncio.wait_for(asyncio.wait([begun.ended]), 20)
    found = {record.id: record for record in records.journal.list()}
    assert {record.state for record in found.values()} == {"cancelled"}
    assert found[waiting].started_at is None
    assert engine.working() == ()


async def test_a_skill_that_says_so_is_tried_again_and_each_attempt_is_recorded(
    engine: LocalEngine, records: Records, write: Write
) -> None:
    run = await engine.run(RunRequest(write(FAILS, header=RETRY), {}))
    record = records.journal.get(run.run_id)
    assert (record.state, record.attempt) == ("failed", 3)
    assert [(attempt.number, attempt.error_code) for attempt in record.attempts] == [
        (1, "SANDBOX_EXECUTION_ERROR"),
        (2, "SANDBOX_EXECUTION_ERROR"),
    ]
    assert all(attempt.started_at and attempt.started_at <= attempt.finished_at for attempt in record.attempts)
    assert "not today" in str(record.error_message)


async def test_nothing_is_tried_again_that_does_not_say_so(engine: LocalEngine, records: Records, write: Write) -> None:
    run = await engine.run(RunRequest(write(FAILS), {}))
    assert (records.journal.get(run.run_id).attempt, records.journal.get(run.run_id).attempts) == (1, ())


async def test_what_would_fail_again_is_not_tried_again(engine: LocalEngine, records: Records, write: Write) -> None:
    run = await engine.run(RunRequest(write("def broken(:\n", header=RETRY), {}))
    assert (run.status, records.journal.get(run.run_id).attempt) == ("error", 1)


async def test_finished_steps_are_not_done_again_where_the_skill_declares_them_idempotent(
    engine: LocalEngine, records: Records, write: Write
) -> None:
    run = await engine.run(
        RunRequest(write(HALF, header=RETRY + "  idempotentSteps: [look, download]\n"), {"address": "there"})
    )
    record = records.journal.get(run.run_id)
    assert (run.output, record.state, record.attempt) == (84, "succeeded", 2)
    assert [step.step_name for step in record.steps] == ["look", "download", "count"]
    assert record.steps[1].output == {"from": "there", "bytes": 42}


async def test_a_step_that_is_not_declared_is_done_again(engine: LocalEngine, records: Records, write: Write) -> None:
    run = await engine.run(RunRequest(write(HALF, header=RETRY + "  idempotentSteps: [download]\n"), {"address": "there"}))
    record = records.journal.get(run.run_id)
    assert (record.state, record.attempt) == ("failed", 3)
    assert "interrupted in the middle" in str(record.error_message)


async def test_a_run_that_waits_for_its_next_attempt_can_be_cancelled(
    engine: LocalEngine, records: Records, write: Write
) -> None:
    begun = await engine.begin(RunRequest(write(FAILS, header=RETRY.replace("backoff: 0", "backoff: 600")), {}))
    for _ in range(1000):
        if (record := await asyncio.to_thread(records.journal.get, begun.run_id)).attempt == 2:
            break
        await asyncio.sleep(0.02)
    assert (record.state, len(record.attempts)) == ("queued", 1)
    records.journal.stop(begun.run_id, "cancelled", CANCELLED)
    assert (await asyncio.wait_for(begun.ended, 20)).status == "killed"
    assert records.journal.get(begun.run_id).state == "cancelled"


def test_an_older_attempt_changes_nothing_any_more(records: Records, write: Write) -> None:
    from skillyard import Run
    from skillyard.engine.run_call import RunCall

    journal = records.journal
    journal.queue(RunCall(RunRequest(write("pass"), {}, {}, run_id="run_a")).record())
    journal.start("run_a")
    assert journal.requeue("run_a", 1, CANCELLED)
    assert not journal.requeue("run_a", 1, CANCELLED)
    journal.start("run_a")
    assert not journal.finish(Run("run_a", "x", "ok", output="old"), attempt=1)
    assert not journal.stop("run_a", "failed", CANCELLED, attempt=1)
    assert journal.finish(Run("run_a", "x", "ok", output="new"), attempt=2)
    assert (journal.get("run_a").output, journal.get("run_a").state) == ("new", "succeeded")
