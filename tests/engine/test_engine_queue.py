"""All runs through the queue: a run outlives who asked for it, is taken over where that is safe, and nobody waits for ever."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import preloaded
import pytest
from psycopg_pool import AsyncConnectionPool
from sqlalchemy import text, update

from skillyard import Catalog
from skillyard.access import Organisations
from skillyard.database import runs, workers
from skillyard.engine import ProcessIdentity, Slots, WorkerGroup, WorkerRoster
from skillyard.engine.liveness import HeartbeatMonitor
from skillyard.engine.run_call import RunCall
from skillyard.engine.run_queue import QueueLimits, RunQueue, claim_next, recover_abandoned
from skillyard.errors import DatabaseUnavailable, RecordExists
from skillyard.execution import RunError, RunRequest

SLEEPS = "import json, sys, time\ntime.sleep(json.load(sys.stdin)['input'].get('s', 1.5))\nprint(json.dumps({'output': 1}))\n"
SAFE = "config:\n  retry: {attempts: 3, backoff: 0}\n"
STEPPING = """
import time
from skillyard_sdk import step


def execute(parameters):
    with step("find") as finding:
        if finding.finished:
            return finding.output
        finding.output = "found before"
    time.sleep(60)
"""
NONE = QueueLimits(None, {})
FAST_AND_REAL = pytest.mark.parametrize("timing", ["fast", pytest.param("real", marks=pytest.mark.long)], indirect=True)


@pytest.fixture
def catalog(
    address_of: Callable[..., str], monkeypatch: pytest.MonkeyPatch, skills_root: Path, make_skill: Any
) -> Iterator[Catalog]:
    """A catalog whose runs all go through the queue, with the skills `plain` and `safe`."""
    monkeypatch.setenv("SKILLYARD_DATABASE_URL", address_of("postgresql", bare=False, queues=True))
    monkeypatch.setenv("SKILLYARD_ENGINE", "procrastinate")
    for name, more in (("plain", ""), ("safe", SAFE)):
        header = f"name: {name}\ndescription: Sleeps. Use when a test runs.\n{more}"
        make_skill(skills_root, name, front_matter=header, files={"scripts/execute.py": SLEEPS})
    found = Catalog.discover(roots=[skills_root], cache=False)
    yield found
    found.records().close()


@asynccontextmanager
async def working(serves: Any, catalog: Catalog) -> Any:
    """Workers in this process, ready."""
    stop = asyncio.Event()
    serving = asyncio.create_task(serves.serve(stop, grace_s=5))
    await until(lambda: WorkerRoster(catalog.records().database).is_served("default") or serving.done())
    try:
        yield
    finally:
        stop.set()
        await serving


@asynccontextmanager
async def process(command: tuple[str, ...], skills_root: Path, database: Any) -> Any:
    """`skillyard worker` as a process of its own, ready."""
    arguments = ("worker", "--root", str(skills_root), "--json")
    child = await asyncio.to_thread(preloaded.Popen, [*command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        assert child.stdout is not None
        started = json.loads(await asyncio.wait_for(asyncio.to_thread(child.stdout.readline), 60))
        assert started["pools"] == ["default"]
        await until(lambda: any(known.id == started["worker"] for known in WorkerRoster(database).workers()))
        yield child
    finally:
        child.kill()
        await asyncio.to_thread(child.communicate)


async def until(condition: Callable[[], object], seconds: float = 60) -> None:
    """Wait until it holds."""
    end = time.monotonic() + seconds
    while not await asyncio.to_thread(condition):
        assert time.monotonic() < end, "it never happened"
        await asyncio.sleep(0.02)


def states(catalog: Catalog) -> list[str]:
    return [record.state for record in catalog.records().journal.list()]


def hand_over(catalog: Catalog, run_id: str, skill: str = "plain", **more: Any) -> None:
    queue = RunQueue(catalog.records().database)
    queue.prepare()
    call = RunCall(RunRequest(catalog.get(skill), {}, {}, priority=more.pop("priority", 0), run_id=run_id))
    queue.enqueue(call.record(), pool="default", request="{}", cache_key=None, lasting=True, **more)


async def test_a_run_waits_for_a_worker_and_outlives_who_asked_for_it(
    catalog: Catalog, skills_root: Path, skillyard_command: tuple[str, ...]
) -> None:
    command = [*skillyard_command, "run", "plain", "--root", str(skills_root), "--input", '{"s": 0}']
    child = await asyncio.to_thread(preloaded.Popen, command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    await until(lambda: states(catalog) == ["queued"])
    child.kill()
    await asyncio.to_thread(child.wait)
    assert catalog.records().journal.recover() == ()
    async with working(catalog.worker(), catalog):
        await until(lambda: states(catalog) == ["succeeded"])


async def test_who_leaves_stops_waiting_and_the_run_goes_on(catalog: Catalog) -> None:
    engine = catalog.engine()
    begun = await engine.begin(RunRequest(catalog.get("plain"), {"s": 0}))
    await catalog.stop_waiting()
    run = await begun.ended
    assert (run.status, run.error.code if run.error else "") == ("killed", "NOT_WAITED_FOR")
    assert states(catalog) == ["queued"]
    async with working(catalog.worker(), catalog):
        await until(lambda: states(catalog) == ["succeeded"])
    with pytest.raises(RecordExists):
        await engine.begin(RunRequest(catalog.get("plain"), {}, run_id=begun.run_id))


async def test_a_worker_that_is_stopped_while_it_connects_leaves_no_task_behind(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    connecting, leaving, stop = asyncio.Event(), asyncio.Event(), asyncio.Event()
    connect, drain, loop = AsyncConnectionPool._connect, WorkerRoster.drain, asyncio.get_running_loop()

    async def slow(pool: AsyncConnectionPool[Any], timeout: float | None = None) -> Any:
        connecting.set()
        await leaving.wait()
        return await connect(pool, timeout)

    def drained(roster: WorkerRoster, worker_id: str) -> None:
        drain(roster, worker_id)
        loop.call_soon_threadsafe(leaving.set)

    monkeypatch.setattr(AsyncConnectionPool, "_connect", slow)
    monkeypatch.setattr(WorkerRoster, "drain", drained)
    before = asyncio.all_tasks()
    serving = asyncio.create_task(catalog.worker().serve(stop, grace_s=0))
    await connecting.wait()
    stop.set()
    await serving
    assert asyncio.all_tasks() == before


@FAST_AND_REAL
async def test_a_killed_worker_is_followed_by_another_where_the_skill_says_that_is_safe(
    catalog: Catalog, skills_root: Path, skillyard_command: tuple[str, ...]
) -> None:
    begun = [await catalog.engine().begin(RunRequest(catalog.get(name), {})) for name in ("safe", "plain")]
    async with process(skillyard_command, skills_root, catalog.records().database) as child:
        await until(lambda: "running" in states(catalog))
        child.kill()
        await asyncio.to_thread(child.wait)
    async with process(skillyard_command, skills_root, catalog.records().database):
        safe, plain = [await asyncio.wait_for(one.ended, 60) for one in begun]
    assert (safe.ok, plain.ok) == (True, True)  # one worked on by both, one waited all the time
    record = catalog.records().journal.get(safe.run_id)
    assert (record.attempt, [attempt.error_code for attempt in record.attempts]) == (2, ["INTERRUPTED"])


@FAST_AND_REAL
async def test_a_step_that_a_killed_worker_had_finished_is_not_done_again(
    catalog: Catalog, skills_root: Path, make_skill: Any, skillyard_command: tuple[str, ...]
) -> None:
    header = f"name: stepping\ndescription: Takes steps. Use when a test runs.\n{SAFE}  idempotentSteps: true\n"
    make_skill(skills_root, "stepping", front_matter=header, files={"scripts/execute.py": STEPPING})
    catalog.refresh()
    begun = await catalog.engine().begin(RunRequest(catalog.get("stepping"), {}))
    journal = catalog.records().journal
    async with process(skillyard_command, skills_root, catalog.records().database) as child:
        await until(lambda: any("step" in item.body for item in journal.events_since(begun.run_id)[1]))
        child.kill()
        await asyncio.to_thread(child.wait)
    async with process(skillyard_command, skills_root, catalog.records().database):
        run = await asyncio.wait_for(begun.ended, 60)
    assert (run.output, [step.step_name for step in run.steps]) == ("found before", ["find"])
    assert journal.get(run.run_id).attempt == 2


async def test_a_job_that_was_lost_is_made_again(catalog: Catalog) -> None:
    hand_over(catalog, "run_a")
    with catalog.records().database.write() as connection:
        connection.execute(text("DELETE FROM procrastinate_jobs"))
    async with working(catalog.worker(), catalog):
        await until(lambda: states(catalog) == ["failed"])  # its request is none


def test_limits_hold_for_all_workers_together_and_let_others_pass(catalog: Catalog) -> None:
    database = catalog.records().database
    for run_id, skill in (("run_a", "plain"), ("run_b", "plain"), ("run_c", "safe")):
        hand_over(catalog, run_id, skill)
    limits = QueueLimits(None, {"plain": 1})
    taken = [claim_next(database, ["default"], f"worker {number}", limits) for number in range(3)]
    assert [one.run_id if one else None for one in taken] == ["run_a", "run_c", None]
    catalog.records().journal.stop("run_a", "failed", RunError("X", ""))
    found = claim_next(database, ["default"], "worker", limits)
    assert found is not None
    assert found.run_id == "run_b"
    hand_over(catalog, "run_d", "safe")
    assert claim_next(database, ["default"], "worker", QueueLimits(2, {})) is None
    assert claim_next(database, ["other"], "worker", NONE) is None


def test_the_most_important_comes_first_and_one_that_ended_is_passed_over(catalog: Catalog) -> None:
    for run_id, priority in (("run_a", 0), ("run_b", 9), ("run_c", 5)):
        hand_over(catalog, run_id, priority=priority)
    database = catalog.records().database
    with database.write() as connection:
        connection.execute(update(runs).where(runs.c.id == "run_b").values(state="cancelled"))
    found = [claim_next(database, ["default"], "worker", NONE) for _ in range(3)]
    assert [one.run_id if one else None for one in found] == ["run_c", "run_a", None]


def test_a_worker_that_says_nothing_loses_its_runs(catalog: Catalog) -> None:
    database = catalog.records().database
    queue, roster, seconds = RunQueue(database), WorkerRoster(database), [0.0]
    silence = HeartbeatMonitor(lambda: seconds[0])
    hand_over(catalog, "run_a", attempts=2)
    hand_over(catalog, "run_b")
    roster.join("w1", ["default"], 2)
    for _ in range(2):
        assert claim_next(database, ["default"], str(ProcessIdentity.current()), NONE) is not None
    with database.write() as connection:
        connection.execute(update(workers).values(seen_at=text("now() - interval '2 minutes'")))
    assert recover_abandoned(database, queue, silence, silent=False) == ()  # its process is there
    seconds[0] = 61
    assert recover_abandoned(database, queue, silence, silent=False) == ()
    assert sorted(recover_abandoned(database, queue, silence, silent=True)) == ["run_a", "run_b"]
    journal = catalog.records().journal
    assert (journal.get("run_a").state, journal.get("run_a").attempt) == ("queued", 2)
    assert (journal.get("run_b").state, journal.get("run_b").error_code) == ("interrupted", "INTERRUPTED")
    assert not journal.stop("run_a", "failed", RunError("X", "too late"), attempt=1)
    again = claim_next(database, ["default"], "another", NONE)
    assert again is not None
    assert (again.run_id, again.attempt) == ("run_a", 2)


async def test_a_crew_gives_every_organisation_its_turn(catalog: Catalog) -> None:
    organisations = Organisations(lambda: catalog.records().database)
    organisations.create("acme")
    acme = organisations.catalog("acme", catalog)
    many = [await catalog.engine().begin(RunRequest(catalog.get("plain"), {"s": 0.1})) for _ in range(6)]
    few = await acme.engine().begin(RunRequest(acme.get("plain"), {"s": 0}))
    slots = Slots(1)
    crew = WorkerGroup(
        lambda: [known.name for known in organisations.all()],
        lambda name: organisations.catalog(name, catalog).worker(concurrency=1, slots=slots),
        timing=catalog.timing,
    )
    async with working(crew, catalog):
        await asyncio.wait_for(few.ended, 60)
        assert not all(one.ended.done() for one in many)
        await asyncio.wait([one.ended for one in many], timeout=60)
    assert states(catalog) == ["succeeded"] * 6
    assert [record.state for record in acme.records().journal.list()] == ["succeeded"]
    await asyncio.gather(*(one.ended for one in many))
    acme.records().close()


async def test_without_postgresql_the_queue_is_refused_and_nothing_is_recorded(
    catalog: Catalog, skills_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SKILLYARD_DATABASE_URL")
    here = Catalog.discover(roots=[skills_root], cache=False)
    with pytest.raises(DatabaseUnavailable, match="procrastinate") as refused:
        await here.run("plain")
    assert "postgresql://" in str(refused.value.hint)
    assert here.records().journal.list() == ()
    assert os.environ["SKILLYARD_ENGINE"] == "procrastinate"
    here.records().close()
