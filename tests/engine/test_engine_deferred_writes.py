"""A database that is away when a run ends: the end is written down when it is back, and nobody waits for ever."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from skillyard import Catalog, Executor
from skillyard.engine import LocalEngine, ProcessIdentity, Records
from skillyard.engine.run_queue import RunQueue
from skillyard.engine.worker_roster import WorkerRoster
from skillyard.errors import DatabaseUnavailable
from skillyard.execution import RunRequest

HEADER = "name: pooled\ndescription: Works in a pool. Use when a test runs.\ntype: distributed\nconfig:\n  serverId: gpu\n"
REMEMBERS = """
import json
write = {"ownerType": "user", "ownerId": "ada", "type": "preference", "importance": 3, "content": "likes tea"}
print(json.dumps({"output": 1, "memoryWrites": [write]}))
"""


class Away:
    """Lets the methods of something fail, as they do while the database is away, until `back`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, owner: Any, *names: str) -> None:
        self.back = False
        self.refused = 0
        for name in names:
            monkeypatch.setattr(owner, name, self._failing(getattr(owner, name)))

    def _failing(self, method: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: Any, **named: Any) -> object:
            if self.back:
                return method(*arguments, **named)
            self.refused += 1
            raise DatabaseUnavailable("it is away", hint="wait")

        return call


def _remembered(records: Records) -> int:
    with records.database.read() as connection:
        return int(connection.execute(text("SELECT count(*) FROM memories")).scalar_one())


async def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + 20
    while not await asyncio.to_thread(condition):
        assert time.monotonic() < end, "it never happened"
        await asyncio.sleep(0.05)


async def test_the_end_of_a_run_is_written_down_when_the_database_is_back(
    records: Records, write: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, journal = LocalEngine(Executor(), records), records.journal
    away = Away(monkeypatch, type(journal), "finish")
    run = await engine.run(RunRequest(write(REMEMBERS), {}, context={"userId": "ada"}))
    assert run.ok
    assert any("not recorded yet" in warning for warning in run.warnings)
    assert journal.get(run.run_id).state == "running"
    away.back = True
    await until(lambda: journal.get(run.run_id).state == "succeeded")
    await until(lambda: _remembered(records) == 1)


async def test_that_a_run_was_cancelled_is_written_down_when_the_database_is_back(
    records: Records, write: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, journal = LocalEngine(Executor(), records), records.journal
    away = Away(monkeypatch, type(journal), "stop")
    asked = asyncio.create_task(engine.run(RunRequest(write("import time\ntime.sleep(60)\n"), {})))
    await until(lambda: [record.state for record in journal.list()] == ["running"])
    asked.cancel()
    await asyncio.wait([asked])
    assert [record.state for record in journal.list()] == ["running"]
    away.back = True
    await until(lambda: [record.state for record in journal.list()] == ["cancelled"])


@pytest.fixture
def pooled(address_of: Callable[..., str], monkeypatch: pytest.MonkeyPatch, skills_root: Path, make_skill: Any) -> Catalog:
    """A catalog with a skill of the pool `gpu`, on PostgreSQL."""
    monkeypatch.setenv("SKILLYARD_DATABASE_URL", address_of("postgresql", bare=False))
    make_skill(skills_root, "pooled", front_matter=HEADER, files={"scripts/execute.py": REMEMBERS})
    return Catalog.discover(roots=[skills_root], cache=False)


async def test_a_worker_that_could_not_let_go_of_a_run_does_so_later(pooled: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    away = Away(monkeypatch, RunQueue, "release")
    worker, stop = pooled.worker("gpu"), asyncio.Event()
    serving = asyncio.create_task(worker.serve(stop, grace_s=5))
    await until(lambda: WorkerRoster(pooled.records().database).workers())
    asked = asyncio.create_task(pooled.run("pooled", context={"userId": "ada"}))
    await until(lambda: away.refused)
    away.back = True
    assert (await asyncio.wait_for(asked, 20)).output == 1
    await until(lambda: _handovers(pooled) == 0)
    stop.set()
    await serving


async def test_nobody_waits_for_a_worker_that_was_killed_after_its_run_had_ended(pooled: Catalog) -> None:
    roster, database = WorkerRoster(pooled.records().database), pooled.records().database
    RunQueue(database).prepare()
    roster.join("w1", ["gpu"], 1)
    asked = asyncio.create_task(pooled.run("pooled"))
    await until(lambda: [record.state for record in pooled.records().journal.list()] == ["queued"])
    gone = str(ProcessIdentity.current()).rpartition("|")[0] + "|0"  # this process number, and another process
    with database.write() as connection:
        ended = "UPDATE runs SET state = 'succeeded', status = 'ok', output = '7', owner = :gone, finished_at = now()"
        connection.execute(text(ended), {"gone": gone})
    assert (await asyncio.wait_for(asked, 20)).output == 7
    assert _handovers(pooled) == 0


def test_a_queue_that_fails_while_a_run_is_handed_over_is_reported_as_the_database(pooled: Catalog) -> None:
    from skillyard.engine.run_call import RunCall

    queue = RunQueue(pooled.records().database)  # its tables are not there
    with pytest.raises(DatabaseUnavailable):
        queue.enqueue(
            RunCall(RunRequest(pooled.get("pooled"), {}, {}, run_id="run_1")).record(), pool="gpu", request="{}", cache_key=None
        )
    assert pooled.records().journal.list() == ()


def test_what_ended_long_ago_and_nobody_let_go_of_is_forgotten(pooled: Catalog) -> None:
    from skillyard.engine.run_call import RunCall

    queue = RunQueue(pooled.records().database)
    queue.prepare()
    for name, when in (("run_1", "1 minute"), ("run_2", "1 second"), ("run_3", "")):
        queue.enqueue(
            RunCall(RunRequest(pooled.get("pooled"), {}, {}, run_id=name)).record(), pool="gpu", request="{}", cache_key=None
        )
        if when:
            with pooled.records().database.write() as connection:
                ended = "UPDATE runs SET state = 'failed', finished_at = now() - CAST(:since AS interval) WHERE id = :name"
                connection.execute(text(ended), {"since": when, "name": name})
    queue.forget_ended()
    assert _handovers(pooled) == 2


def _handovers(catalog: Catalog) -> int:
    with catalog.records().database.read() as connection:
        return int(connection.execute(text("SELECT count(*) FROM queued_runs")).scalar_one())
