"""Rows that somebody else has put into the queue: a worker runs nothing by them, loses nothing, and goes on."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text, update

from skillyard import Catalog
from skillyard.database import runs
from skillyard.engine import WorkerRoster
from skillyard.engine.run_call import RunCall, read_request, write_request
from skillyard.engine.run_queue import RunQueue
from skillyard.errors import InvalidInput
from skillyard.execution import RunRequest

ECHO = "def execute(parameters):\n    return {'output': parameters}\n"
JOB = "INSERT INTO procrastinate_jobs (queue_name, task_name, args) VALUES ('default', :task, cast(:args AS jsonb))"
ARGUMENTS = (
    "{}",
    "[]",
    "7",
    '"run_over"',
    '{"run_id": 7}',
    '{"run_id": "run_of_somebody"}',
    '{"run_id": "run_over", "more": 1}',
)


@pytest.fixture
def catalog(
    address_of: Callable[..., str], monkeypatch: pytest.MonkeyPatch, skills_root: Path, make_skill: Any
) -> Iterator[Catalog]:
    """A catalog whose runs all go through the queue, with the skill `echo`."""
    monkeypatch.setenv("SKILLYARD_DATABASE_URL", address_of("postgresql", bare=False))
    monkeypatch.setenv("SKILLYARD_ENGINE", "procrastinate")
    make_skill(skills_root, "echo", files={"scripts/execute.py": ECHO})
    found = Catalog.discover(roots=[skills_root], cache=False)
    yield found
    found.records().close()


@asynccontextmanager
async def _working(catalog: Catalog) -> AsyncIterator[None]:
    stop = asyncio.Event()
    serving = asyncio.create_task(catalog.worker().serve(stop, grace_s=5))
    await _until(lambda: WorkerRoster(catalog.records().database).is_served("default") or serving.done())
    try:
        yield
    finally:
        stop.set()
        await serving


async def _until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + 120
    while not await asyncio.to_thread(condition):
        assert time.monotonic() < end, "it never happened"
        await asyncio.sleep(0.05)


def _requests(catalog: Catalog) -> dict[str, str]:
    """What a worker is told, made wrong in one way each."""
    skill = catalog.get("echo")
    good = json.loads(
        write_request(RunCall(RunRequest(skill, {}, {}, digest=skill.digest(), run_id="run_x")), timeout_ms=60_000)
    )
    wrong: dict[str, dict[str, Any]] = {
        "digest": {"digest": "sha256:" + "0" * 64},
        "skill": {"skill": "../../etc"},
        "no_time": {"timeout_ms": 0},
        "past": {"timeout_ms": -5},
        "truth": {"timeout_ms": True},
        "ever": {"timeout_ms": 10**12},
        "entry": {"entry": {"a": "b"}},
        "outside": {"entry": "../../../etc/passwd"},
        "more": {"owner": "me"},
    }
    return {f"run_{name}": json.dumps(good | change) for name, change in wrong.items()} | {"run_deep": "[" * 100_000}


@pytest.mark.abuse("H8")
async def test_what_others_put_into_the_queue_runs_nothing_and_holds_nothing_up(catalog: Catalog) -> None:
    database = catalog.records().database
    queue = RunQueue(database)
    queue.prepare()
    wrong = _requests(catalog)
    for run_id, request in (wrong | {"run_over": "{}"}).items():
        call = RunCall(RunRequest(catalog.get("echo"), {}, {}, run_id=run_id))
        queue.enqueue(call.record(), pool="default", request=request, cache_key=None, lasting=True)
    with database.write() as connection:
        connection.execute(update(runs).where(runs.c.id == "run_over").values(state="succeeded", output="mine"))
        for args in (*ARGUMENTS, json.dumps({"run_id": "x" * 1_000_000})):
            for task in ("skillyard.run", "os.system"):
                connection.execute(text(JOB), {"task": task, "args": args})
    journal = catalog.records().journal
    async with _working(catalog):
        await _until(lambda: all(journal.get(run_id).state == "failed" for run_id in wrong))
        assert (await asyncio.wait_for(catalog.run("echo", {"n": 1}), 120)).output == {"n": 1}
    over = journal.get("run_over")
    assert (over.state, over.output) == ("succeeded", "mine")
    assert {journal.get(run_id).output for run_id in wrong} == {None}


@pytest.mark.abuse("H8")
@pytest.mark.parametrize("change", [{"timeout_ms": 0}, {"timeout_ms": 600_001}, {"timeout_ms": 1.5}, {"entry": []}])
def test_a_request_that_runs_for_ever_or_nothing_is_none(change: dict[str, Any]) -> None:
    good = {"skill": "a", "digest": "b", "parameters": {}, "context": {}, "entry": None, "timeout_ms": 600_000, "warnings": []}
    assert read_request(json.dumps(good)).timeout_ms == 600_000
    with pytest.raises(InvalidInput):
        read_request(json.dumps(good | change))
