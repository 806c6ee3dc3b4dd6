"""A run that is cancelled ends as cancelled, at whatever moment: the record decides, and is written before the run is ended."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from skillyard import Catalog, Run, Skill
from skillyard.database import Database
from skillyard.engine import LocalEngine, PoolEngine, ProcessIdentity, Records
from skillyard.engine.journal import Journal
from skillyard.engine.run_queue import RunQueue
from skillyard.engine.worker_roster import WorkerRoster
from skillyard.errors import DatabaseUnavailable
from skillyard.execution import MemoryWrite, RunError, RunRequest
from skillyard.times import Timing

Write = Callable[..., Skill]
CANCELLED = RunError("CANCELLED", "the run was cancelled")
TEA = MemoryWrite("user", "ada", "preference", 3, 0.6, "likes tea")


class Scripted:
    """A runner that does what the test says."""

    def __init__(self, work: Callable[[str], Any]) -> None:
        self.work = work

    def can_run(self, skill: object) -> bool:
        return True

    async def run(self, request: RunRequest) -> Run:
        result = await self.work(request.run_id)
        return result if isinstance(result, Run) else Run(request.run_id, request.skill.id, "ok", output=result)


class Held:
    """Holds what a method of a class does in its thread, before it begins or after it is done, until `go` is set."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, *, after: bool) -> None:
        self.reached, self.go = threading.Event(), threading.Event()
        method = getattr(owner, name)

        def held(*arguments: Any, **named: Any) -> Any:
            given = method(*arguments, **named) if after else None
            self.reached.set()
            assert self.go.wait(60)
            return given if after else method(*arguments, **named)

        monkeypatch.setattr(owner, name, held)

    async def wait(self) -> None:
        """Wait until somebody is held."""
        assert await asyncio.to_thread(self.reached.wait, 60)


async def _until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not await asyncio.to_thread(condition):
            await asyncio.sleep(0.01)


def _state(records: Records, run_id: str) -> tuple[str, str | None]:
    record = records.journal.get(run_id)
    return record.state, record.error_code


class Waits:
    """Work that goes on until it is cancelled, and says then what the record said."""

    def __init__(self, records: Records, *, deaf: bool = False, steps: int = 0) -> None:
        self.begun, self.ids, self.said, self.cleaned = asyncio.Event(), list[str](), list[str | None](), False
        self._records, self._deaf, self._steps = records, deaf, steps

    async def __call__(self, run_id: str) -> Run:
        self.ids.append(run_id)
        self.begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.said.append(self._records.journal.state(run_id))
            for _ in range(self._steps):
                await asyncio.sleep(0)
            self.cleaned = True
            if not self._deaf:
                raise
        return Run(run_id, "user:x", "killed", error=RunError("SANDBOX_EXECUTION_ERROR", "the run was ended by SIGKILL"))


async def test_that_a_run_is_cancelled_is_written_down_before_it_is_ended(records: Records, write: Write) -> None:
    work = Waits(records)
    engine = LocalEngine(Scripted(work), records)
    running = asyncio.create_task(engine.run(RunRequest(write("pass"), {})))
    await work.begun.wait()
    assert await engine.cancel(work.ids[0])
    assert (await running).error == CANCELLED
    assert work.said == ["cancelled"]


async def test_what_takes_being_cancelled_for_an_end_of_its_own_has_been_cancelled(records: Records, write: Write) -> None:
    work = Waits(records, deaf=True)
    engine = LocalEngine(Scripted(work), records)
    running = asyncio.create_task(engine.run(RunRequest(write("pass"), {})))
    await work.begun.wait()
    assert await engine.cancel(work.ids[0])
    assert (await running).error == CANCELLED
    assert _state(records, work.ids[0]) == ("cancelled", "CANCELLED")


async def test_the_same_when_its_caller_goes_away(records: Records, write: Write) -> None:
    work = Waits(records, deaf=True)
    engine = LocalEngine(Scripted(work), records)
    running = asyncio.create_task(engine.run(RunRequest(write("pass"), {})))
    await work.begun.wait()
    running.cancel()
    await asyncio.wait([running])
    assert running.cancelled()
    assert work.said == ["cancelled"]
    assert _state(records, work.ids[0]) == ("cancelled", "CANCELLED")


async def test_the_same_while_the_database_is_away(records: Records, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run is ended all the same, and what it then claims to be its end is not written down when the database is back."""
    work = Waits(records, deaf=True)
    engine, away, stop = LocalEngine(Scripted(work), records), True, Journal.stop

    def refuses(journal: Journal, *arguments: Any, **named: Any) -> bool:
        if away:
            raise DatabaseUnavailable("it is away", hint="wait")
        return stop(journal, *arguments, **named)

    monkeypatch.setattr(Journal, "stop", refuses)
    running = asyncio.create_task(engine.run(RunRequest(write("pass"), {})))
    await work.begun.wait()
    assert await engine.cancel(work.ids[0])
    assert (await running).error == CANCELLED
    assert _state(records, work.ids[0]) == ("running", None)
    away = False
    await _until(lambda: _state(records, work.ids[0]) == ("cancelled", "CANCELLED"))


async def test_a_run_is_ended_although_its_database_takes_long(
    database_address: str, tmp_path: Path, timing: Timing, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = Records(str(tmp_path), database_address, timing=timing._replace(decide_s=0.01))
    work, held = Waits(records, deaf=True), Held(monkeypatch, Journal, "stop", after=False)
    engine = LocalEngine(Scripted(work), records)
    running = asyncio.create_task(engine.run(RunRequest(write("pass"), {})))
    await work.begun.wait()
    cancelling = asyncio.create_task(engine.cancel(work.ids[0]))
    await _until(lambda: work.cleaned)
    assert not held.go.is_set()
    held.go.set()
    assert await cancelling
    assert (await running).error == CANCELLED
    assert _state(records, work.ids[0]) == ("cancelled", "CANCELLED")
    records.close()


async def test_a_run_that_others_took_for_dead_is_ended_when_its_caller_goes_away(records: Records, write: Write) -> None:
    work = Waits(records)
    engine = LocalEngine(Scripted(work), records)
    running = asyncio.create_task(engine.run(RunRequest(write("pass"), {})))
    await work.begun.wait()
    assert records.journal.stop(work.ids[0], "interrupted", RunError("INTERRUPTED", "its process is gone"))
    running.cancel()
    async with asyncio.timeout(60):
        await asyncio.wait([running])
    assert work.cleaned
    assert _state(records, work.ids[0]) == ("interrupted", "INTERRUPTED")


async def test_without_records_too(records: Records, write: Write) -> None:
    work = Waits(records, deaf=True)
    engine = LocalEngine(Scripted(work))
    running = asyncio.create_task(engine.run(RunRequest(write("pass"), {})))
    await work.begun.wait()
    assert await engine.cancel(work.ids[0])
    assert (await running).error == CANCELLED


async def test_who_is_cancelled_again_and_again_still_clears_up(records: Records, write: Write) -> None:
    work = Waits(records, steps=20)
    engine = LocalEngine(Scripted(work), records)
    running = asyncio.create_task(engine.run(RunRequest(write("pass"), {})))
    await work.begun.wait()
    both = [asyncio.create_task(engine.cancel(work.ids[0])) for _ in range(3)]
    await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    running.cancel()
    await asyncio.sleep(0)
    running.cancel()
    await asyncio.wait([running, *both])
    assert work.cleaned
    assert len(work.said) == 1
    assert [task.result() for task in both] == [True] * 3
    assert _state(records, work.ids[0]) == ("cancelled", "CANCELLED")


async def test_who_is_too_late_to_cancel_a_run_changes_nothing_of_it(
    records: Records, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is noted as ended, and its memories are yet to be saved."""

    async def work(run_id: str) -> Run:
        return Run(run_id, "config:example", "ok", output=1, memory_writes=(TEA,))

    held = Held(monkeypatch, Journal, "finish", after=True)
    engine = LocalEngine(Scripted(work), records)
    running = asyncio.create_task(engine.run(RunRequest(write("pass"), {}, context={"userId": "ada"})))
    await held.wait()
    (run_id,) = engine.working()
    cancelled = await engine.cancel(run_id)
    held.go.set()
    run = await running
    assert (cancelled, run.output, run.error) == (False, 1, None)
    assert _state(records, run_id) == ("succeeded", None)
    assert _count(records, "memories") == 1


async def test_a_caller_that_goes_away_too_late_loses_none_of_its_memories(
    records: Records, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(run_id: str) -> Run:
        return Run(run_id, "config:example", "ok", output=1, memory_writes=(TEA,))

    held = Held(monkeypatch, Journal, "finish", after=True)
    engine = LocalEngine(Scripted(work), records)
    running = asyncio.create_task(engine.run(RunRequest(write("pass"), {}, context={"userId": "ada"})))
    await held.wait()
    (run_id,) = engine.working()
    running.cancel()
    for _ in range(5):
        await asyncio.sleep(0)
    held.go.set()
    await asyncio.wait([running])
    assert _state(records, run_id) == ("succeeded", None)
    assert _count(records, "memories") == 1


async def test_a_run_that_is_cancelled_as_its_end_is_about_to_be_written_down_was_cancelled(
    records: Records, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(run_id: str) -> Run:
        return Run(run_id, "config:example", "ok", output=1, memory_writes=(TEA,))

    held = Held(monkeypatch, Journal, "finish", after=False)
    engine = LocalEngine(Scripted(work), records)
    running = asyncio.create_task(engine.run(RunRequest(write("pass"), {}, context={"userId": "ada"})))
    await held.wait()
    (run_id,) = engine.working()
    cancelling = asyncio.create_task(engine.cancel(run_id))
    await _until(lambda: records.journal.state(run_id) == "cancelled")
    held.go.set()
    assert await cancelling
    assert (await running).error == CANCELLED
    assert _state(records, run_id) == ("cancelled", "CANCELLED")
    assert _count(records, "memories") == 0


@pytest.mark.parametrize("how", ["run", "begin"])
async def test_a_caller_that_goes_away_while_its_run_is_written_down_leaves_none_that_waits(
    engine: LocalEngine, records: Records, write: Write, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    queued = getattr(engine, "_everything", None) is not None
    held = Held(monkeypatch, RunQueue if queued else Journal, "enqueue" if queued else "queue", after=True)
    asking = asyncio.create_task(getattr(engine, how)(RunRequest(write("import time; time.sleep(60)"), {})))
    await held.wait()
    asking.cancel()
    for _ in range(5):
        await asyncio.sleep(0)
    held.go.set()
    await asyncio.wait([asking])
    assert asking.cancelled()
    (record,) = records.journal.list()
    assert (record.state, record.error_code) == ("cancelled", "CANCELLED")


async def test_a_run_that_another_process_cancels_before_its_first_step_was_cancelled(
    engine: LocalEngine, records: Records, write: Write
) -> None:
    begun = await engine.begin(RunRequest(write("import time; time.sleep(60)"), {}))
    assert records.journal.stop(begun.run_id, "cancelled", CANCELLED)
    assert (await begun.ended).error == CANCELLED
    assert _state(records, begun.run_id) == ("cancelled", "CANCELLED")


async def test_the_same_while_it_waits_for_consent(engine: LocalEngine, records: Records, write: Write) -> None:
    agreed = asyncio.Event()

    async def consent() -> str | None:
        await agreed.wait()
        return None

    begun = await engine.begin(RunRequest(write("import time; time.sleep(60)"), {}), consent=consent)
    assert records.journal.stop(begun.run_id, "cancelled", CANCELLED)
    agreed.set()
    assert (await begun.ended).error == CANCELLED
    assert _state(records, begun.run_id) == ("cancelled", "CANCELLED")


async def test_a_run_that_no_worker_has_taken_is_ended_here_when_another_process_cancels_it(
    address_of: Callable[..., str], tmp_path: Path, write: Write, monkeypatch: pytest.MonkeyPatch, timing: Timing
) -> None:
    """It was taken back, and works in this process from then on."""
    records = Records(str(tmp_path), address_of("postgresql", bare=False), timing=timing)
    work, served = Waits(records), [True]
    monkeypatch.setattr(WorkerRoster, "is_served", lambda *_: served.pop() if served else False)
    RunQueue(records.database).prepare()
    engine = PoolEngine(LocalEngine(Scripted(work), records), records)
    running = asyncio.create_task(
        engine.run(RunRequest(write("pass", header="type: distributed\nconfig:\n  serverId: gpu\n"), {}))
    )
    async with asyncio.timeout(60):
        await work.begun.wait()
        assert Journal(records.database).stop(work.ids[0], "cancelled", RunError("CANCELLED", "from elsewhere"))
        assert (await running).error == CANCELLED
    assert _state(records, work.ids[0]) == ("cancelled", "CANCELLED")
    records.close()


def _count(records: Records, table: str) -> int:
    with records.database.read() as connection:
        return int(connection.execute(text(f"SELECT count(*) FROM {table}")).scalar_one())


@pytest.fixture
def pooled(address_of: Callable[..., str], monkeypatch: pytest.MonkeyPatch, skills_root: Any, make_skill: Any) -> Catalog:
    """A catalog whose runs all go through the queue of PostgreSQL."""
    monkeypatch.setenv("SKILLYARD_DATABASE_URL", address_of("postgresql", bare=False))
    script = {"scripts/execute.py": "import time; time.sleep(60)"}
    header = "name: slow\ndescription: Takes a minute. Use when a test runs.\n"
    make_skill(skills_root, "slow", front_matter=header, files=script)
    return Catalog.discover(roots=[skills_root], cache=False)


async def _waiting(catalog: Catalog) -> tuple[str, RunQueue]:
    """A run in the queue, and the queue."""
    from skillyard.engine.run_call import RunCall, write_request

    skill, queue = catalog.get("slow"), RunQueue(catalog.records().database)
    queue.prepare()
    call = RunCall(RunRequest(skill, {}, {}, digest=skill.digest(), run_id="run_waits"))
    request = write_request(call, timeout_ms=60_000)
    queue.enqueue(call.record(), pool="default", request=request, cache_key=None, lasting=True)
    return call.run_id, queue


async def _leave(serving: asyncio.Task[None]) -> None:
    """Stop a worker at once, as a second signal does."""
    serving.cancel()
    for _ in range(50):
        await asyncio.sleep(0.01)


def _waits_again(catalog: Catalog, run_id: str) -> bool:
    with catalog.records().database.read() as connection:
        query = "SELECT state, owner, attempt, waiting FROM runs JOIN queued_runs ON run_id = id WHERE id = :id"
        return tuple(connection.execute(text(query), {"id": run_id}).one()) == ("queued", "queue", 1, True)


async def test_a_worker_that_is_stopped_while_it_takes_a_run_leaves_it_to_others(
    pooled: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    from skillyard.engine import worker as module

    run_id, _ = await _waiting(pooled)
    held = Held(monkeypatch, module, "claim_next", after=True)
    serving = asyncio.create_task(pooled.worker("default").serve(asyncio.Event(), grace_s=0))
    await held.wait()
    assert pooled.records().journal.state(run_id) == "running"
    await _leave(serving)
    held.go.set()
    with suppress(asyncio.CancelledError):
        await serving
    assert _waits_again(pooled, run_id)


async def test_a_worker_that_is_stopped_before_it_begins_a_run_leaves_it_to_others(
    pooled: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    from skillyard.engine import worker as module

    run_id, _ = await _waiting(pooled)
    held = Held(monkeypatch, module, "cache_policy_of", after=True)
    serving = asyncio.create_task(pooled.worker("default").serve(asyncio.Event(), grace_s=0))
    await held.wait()
    await _leave(serving)
    held.go.set()
    with suppress(asyncio.CancelledError):
        await serving
    assert _waits_again(pooled, run_id)


async def test_a_run_that_is_cancelled_while_a_worker_takes_it_is_not_begun(
    pooled: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    from skillyard.engine import worker as module

    run_id, _ = await _waiting(pooled)
    held = Held(monkeypatch, module, "claim_next", after=True)
    stop = asyncio.Event()
    worker = pooled.worker("default")
    serving = asyncio.create_task(worker.serve(stop, grace_s=60))
    await held.wait()
    assert pooled.records().journal.stop(run_id, "cancelled", CANCELLED)
    held.go.set()
    await _until(lambda: not worker._slots._of_loop or all(not line.working for line in worker._slots._of_loop.values()))
    stop.set()
    await serving
    assert _state(pooled.records(), run_id) == ("cancelled", "CANCELLED")
    assert pooled.records().journal.get(run_id).duration_ms is None


def _somebody_waits(database: Database) -> bool:
    """Whether a transaction of PostgreSQL waits for another one."""
    waits = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    with database.read() as connection:
        return bool(connection.execute(text(waits)).scalar_one())


async def test_who_cancels_a_run_and_who_takes_it_do_not_wait_for_each_other(
    pooled: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One holds the row of the run, the other its place in the queue: PostgreSQL would end one of them."""
    from skillyard.engine import journal as module
    from skillyard.engine.run_queue import QueueLimits, claim_next

    run_id, _ = await _waiting(pooled)
    database, forget = pooled.records().database, module.delete_live_events
    taken: list[object] = []
    taking = threading.Thread(
        target=lambda: taken.append(claim_next(database, ["default"], str(ProcessIdentity.current()), QueueLimits(None, {})))
    )

    def between(*arguments: Any) -> None:
        """The run is noted as cancelled, its place in the queue is still there; now somebody takes it."""
        forget(*arguments)
        taking.start()
        while taking.is_alive() and not _somebody_waits(database):
            taking.join(0.05)

    monkeypatch.setattr(module, "delete_live_events", between)
    assert await asyncio.to_thread(pooled.records().journal.stop, run_id, "cancelled", CANCELLED)
    await asyncio.to_thread(taking.join)
    assert taken == [None]
    assert _state(pooled.records(), run_id) == ("cancelled", "CANCELLED")
    assert _count(pooled.records(), "queued_runs") == 0


async def test_who_takes_a_run_back_and_who_takes_it_do_not_wait_for_each_other(pooled: Catalog) -> None:
    from skillyard.engine.run_queue import QueueLimits, claim_next

    run_id, queue = await _waiting(pooled)
    database = pooled.records().database
    taken: list[object] = []
    taking = threading.Thread(
        target=lambda: taken.append(claim_next(database, ["default"], str(ProcessIdentity.current()), QueueLimits(None, {})))
    )
    with database.write() as connection:
        connection.execute(text("SELECT 1 FROM queued_runs WHERE run_id = :id FOR UPDATE"), {"id": run_id})
        back = asyncio.create_task(asyncio.to_thread(queue.reclaim, run_id))
        await _until(lambda: _somebody_waits(database))
        state = "SELECT 1 FROM runs WHERE id = :id FOR UPDATE NOWAIT"  # who waits for the queue holds nothing of the run
        connection.execute(text(state), {"id": run_id})
        taking.start()
        await asyncio.to_thread(taking.join, 60)
        assert taken == [None], "who takes a run passes by the one whose place somebody holds"
    assert await back
    assert _state(pooled.records(), run_id) == ("running", None)
