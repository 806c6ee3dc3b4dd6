"""The clock of PostgreSQL is set by an hour: no run waits for the hour to pass, and nobody who works is taken for dead."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, text, update

from skillyard import Catalog
from skillyard.database import Database, attempts, queued_runs, runs, workers
from skillyard.engine import ProcessIdentity, WorkerRoster
from skillyard.engine.liveness import HeartbeatMonitor
from skillyard.engine.run_call import RunCall
from skillyard.engine.run_queue import QueueLimits, RunQueue, claim_next, recover_abandoned
from skillyard.execution import RunError, RunRequest

HOUR = 3600
REAL = pytest.mark.parametrize("timing", ["real"], indirect=True)  # the test has a clock of its own
JUMPS = pytest.mark.parametrize("jump", [HOUR + 60, -HOUR], ids=["ahead", "back"])
ELSEWHERE = str(replace(ProcessIdentity.current(), host="another"))
NONE = QueueLimits(None, {})
SCRIPT = """
import json, sys, time
time.sleep(json.load(sys.stdin)["input"].get("s", 0))
print(json.dumps({"output": 1}))
"""
FAILS = "import sys\nsys.exit(3)\n"
SetClock = Callable[[int], None]


@pytest.fixture
def catalog(
    clocked_address: str, set_clock: SetClock, skills_root: Path, make_skill: Any, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Catalog]:
    """All runs go through the queue of that server."""
    monkeypatch.setenv("SKILLYARD_DATABASE_URL", clocked_address)
    monkeypatch.setenv("SKILLYARD_ENGINE", "procrastinate")
    header = "name: plain\ndescription: Works. Use when a test runs.\n"
    make_skill(skills_root, "plain", front_matter=header, files={"scripts/execute.py": SCRIPT})
    seen = Catalog.discover(roots=[skills_root], cache=False)
    yield seen
    seen.records().close()


@pytest.fixture
def database(catalog: Catalog) -> Database:
    return catalog.records().database


def hand_over(catalog: Catalog, run_id: str, *, attempts: int = 1) -> RunQueue:
    queue = RunQueue(catalog.records().database)
    queue.prepare()
    record = RunCall(RunRequest(catalog.get("plain"), {}, {}, run_id=run_id)).record()
    queue.enqueue(record, pool="default", request="{}", cache_key=None, attempts=attempts, lasting=True)
    return queue


def join_from_elsewhere(roster: WorkerRoster, database: Database, name: str) -> None:
    """A worker on another machine: nobody here can look whether its process is there."""
    roster.join(name, ["default"], 2)
    with database.write() as connection:
        connection.execute(update(workers).where(workers.c.id == name).values(owner=ELSEWHERE))


@JUMPS
def test_a_run_that_waits_is_taken_at_once(catalog: Catalog, database: Database, set_clock: SetClock, jump: int) -> None:
    queue = hand_over(catalog, "run_a", attempts=2)
    set_clock(jump)
    first = claim_next(database, ["default"], ELSEWHERE, NONE)
    assert first is not None
    set_clock(0)
    assert catalog.records().journal.requeue("run_a", 1, RunError("X", "once more"), wait_s=30)
    assert claim_next(database, ["default"], ELSEWHERE, NONE) is None
    with database.write() as connection:
        connection.execute(text("DELETE FROM procrastinate_jobs"))  # as if a worker had taken the one for the first attempt
    queue.enqueue_again("run_a", 30)
    set_clock(jump)
    queue.wake(["default"], 4)
    with database.read() as connection:
        jobs = connection.execute(text("SELECT count(*) FROM procrastinate_jobs WHERE scheduled_at IS NULL")).scalar()
    assert jobs == (1 if jump < 0 else 0)  # another one where the one for the second is hours away
    again = claim_next(database, ["default"], ELSEWHERE, NONE)
    assert again is not None
    assert again.attempt == 2


def test_those_who_were_asked_for_first_start_first(catalog: Catalog, database: Database, set_clock: SetClock) -> None:
    for number, jump in enumerate((0, -HOUR, HOUR, -HOUR)):
        set_clock(jump)
        hand_over(catalog, f"run_{number}")
    taken = [claim_next(database, ["default"], ELSEWHERE, NONE) for _ in range(4)]
    assert [one.run_id if one else None for one in taken] == ["run_0", "run_1", "run_2", "run_3"]


@REAL
@JUMPS
def test_a_worker_on_another_machine_stays_alive(catalog: Catalog, database: Database, set_clock: SetClock, jump: int) -> None:
    queue, seconds = hand_over(catalog, "run_a"), [0.0]
    silence, roster = (
        HeartbeatMonitor(lambda: seconds[0]),
        WorkerRoster(database, heartbeats=HeartbeatMonitor(lambda: seconds[0])),
    )
    join_from_elsewhere(roster, database, "w1")
    assert claim_next(database, ["default"], ELSEWHERE, NONE) is not None
    assert (roster.is_served("default"), roster.owner_lives(ELSEWHERE)) == (True, True)
    assert recover_abandoned(database, queue, silence, silent=True) == ()
    set_clock(jump)
    seconds[0] = 4  # less than a beat
    assert (roster.is_served("default"), roster.owner_lives(ELSEWHERE)) == (True, True)
    assert recover_abandoned(database, queue, silence, silent=True) == ()
    assert catalog.records().journal.recover() == ()
    roster.join("w2", ["other"], 1)
    for beat in range(20):
        seconds[0] += 5
        assert roster.heartbeat("w1"), beat
        assert (roster.is_served("default"), roster.owner_lives(ELSEWHERE)) == (True, True)
        assert recover_abandoned(database, queue, silence, silent=True) == ()
    with database.read() as connection:
        assert connection.execute(select(runs.c.state)).scalar() == "running"


@REAL
@JUMPS
def test_one_that_died_is_noticed_all_the_same(catalog: Catalog, database: Database, set_clock: SetClock, jump: int) -> None:
    queue, seconds = hand_over(catalog, "run_a", attempts=2), [0.0]
    silence, roster = (
        HeartbeatMonitor(lambda: seconds[0]),
        WorkerRoster(database, heartbeats=HeartbeatMonitor(lambda: seconds[0])),
    )
    join_from_elsewhere(roster, database, "w1")
    assert claim_next(database, ["default"], ELSEWHERE, NONE) is not None
    assert roster.owner_lives(ELSEWHERE)
    assert recover_abandoned(database, queue, silence, silent=True) == ()
    set_clock(jump)
    assert roster.is_served("default")
    seconds[0] = 8
    assert not roster.is_served("default")
    seconds[0] = 61
    assert not roster.owner_lives(ELSEWHERE)
    assert [worker.state for worker in roster.workers() if worker.id == "w1"] in ([], ["gone"])
    assert recover_abandoned(database, queue, silence, silent=True) == ("run_a",)
    again = claim_next(database, ["default"], str(ProcessIdentity.current()), NONE)
    assert again is not None
    assert (again.run_id, again.attempt) == ("run_a", 2)


@JUMPS
async def test_runs_before_during_and_after_end_once(
    catalog: Catalog, database: Database, set_clock: SetClock, jump: int, skills_root: Path, make_skill: Any
) -> None:
    header = "name: again\ndescription: Tries again. Use when a test runs.\nconfig:\n  retry: {attempts: 2, backoff: 2}\n"
    make_skill(skills_root, "again", front_matter=header, files={"scripts/execute.py": FAILS})
    catalog.refresh()
    engine, stop = catalog.engine(), asyncio.Event()
    serving = asyncio.create_task(catalog.worker(concurrency=2).serve(stop, grace_s=5))
    try:
        async with asyncio.timeout(120):
            long = await engine.begin(RunRequest(catalog.get("plain"), {"s": 3}))
            retried = await engine.begin(RunRequest(catalog.get("again"), {}))
            while not await asyncio.to_thread(_count, database, attempts):
                await asyncio.sleep(0.05)
            set_clock(jump)
            later = [await engine.begin(RunRequest(catalog.get("plain"), {})) for _ in range(3)]
            await asyncio.gather(*(one.ended for one in (long, retried, *later)))
            set_clock(0)
            await (await engine.begin(RunRequest(catalog.get("plain"), {}))).ended
    finally:
        stop.set()
        await asyncio.wait_for(serving, 60)
    with database.read() as connection:
        found = connection.execute(select(runs.c.state, runs.c.attempt).order_by(runs.c.created_at)).all()
    assert [(row.state, row.attempt) for row in found] == [("succeeded", 1), ("failed", 2), *[("succeeded", 1)] * 4]
    assert await asyncio.to_thread(_count, database, queued_runs) == 0


def _count(database: Database, table: Any) -> int:
    with database.read() as connection:
        return len(connection.execute(select(table)).all())
