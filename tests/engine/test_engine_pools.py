"""Worker pools: a run goes to a worker of its pool, once, and ends in one way whatever becomes of either side."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import preloaded
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from sqlalchemy import text, update

from skillyard import Catalog
from skillyard.access import Organisations
from skillyard.database import Database, workers
from skillyard.engine import FINAL_STATES, WorkerRoster
from skillyard.engine.liveness import HeartbeatMonitor
from skillyard.engine.run_files import RunFiles
from skillyard.engine.run_queue import QueueLimits, RunQueue, claim_next
from skillyard.errors import DatabaseUnavailable, DigestMismatch, InvalidInput, SkillNotFound
from skillyard.execution import RunRequest
from skillyard.times import Timing

HEADER = "name: {name}\ndescription: Works in a pool. Use when a test runs.\ntype: {kind}\nconfig:\n  serverId: {pool}\n"
ECHO = "import json, sys\nprint(json.dumps({'output': json.load(sys.stdin)['input'], 'warnings': ['done']}))\n"
SLOW = "import json, sys, time\ntime.sleep(json.load(sys.stdin)['input'].get('s', 60))\nprint(json.dumps({'output': 1}))\n"
REMEMBERS = """
import json
write = {"ownerType": "user", "ownerId": "ada", "type": "preference", "importance": 3, "content": "likes tea"}
print(json.dumps({"output": 1, "memoryWrites": [write]}))
"""
Make = Callable[..., Catalog]
FAST_AND_REAL = pytest.mark.parametrize("timing", ["fast", pytest.param("real", marks=pytest.mark.long)], indirect=True)


@pytest.fixture
def address(address_of: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> str:
    """An empty PostgreSQL database that every catalog of the test uses."""
    url = address_of("postgresql", bare=False, queues=True)
    monkeypatch.setenv("SKILLYARD_DATABASE_URL", url)
    return url


@pytest.fixture
def make(address: str, skills_root: Path, make_skill: Any) -> Iterator[Make]:
    """Give a function that writes the skill `pooled` of the pool `gpu` and finds it."""
    catalogs: list[Catalog] = []

    def catalog(script: str = ECHO, kind: str = "distributed", pool: str = "gpu", more: str = "") -> Catalog:
        header = HEADER.format(name="pooled", kind=kind, pool=pool) + more
        make_skill(skills_root, "pooled", front_matter=header, files={"scripts/execute.py": script})
        catalogs.append(Catalog.discover(roots=[skills_root], cache=False))
        return catalogs[-1]

    yield catalog
    for made in catalogs:
        made.records().close()


@asynccontextmanager
async def working(catalog: Catalog, *pools: str, concurrency: int = 1, grace_s: float = 30.0) -> Any:
    """A worker of those pools in this process, ready to take runs."""
    worker, stop = catalog.worker(*(pools or ("gpu",)), concurrency=concurrency), asyncio.Event()
    serving = asyncio.create_task(worker.serve(stop, grace_s=grace_s))
    await until(
        lambda: any(known.id == worker.id for known in WorkerRoster(catalog.records().database).workers()) or serving.done()
    )
    try:
        yield worker
    finally:
        stop.set()
        await serving


async def until(condition: Callable[[], object], seconds: float = 20) -> None:
    """Wait until it holds."""
    end = time.monotonic() + seconds
    while not await asyncio.to_thread(condition):
        assert time.monotonic() < end, "it never happened"
        await asyncio.sleep(0.02)


def states(catalog: Catalog) -> list[str]:
    return [record.state for record in catalog.records().journal.list()]


def left(catalog: Catalog) -> tuple[int, int]:
    """How many queued runs and jobs there are."""
    with catalog.records().database.read() as connection:
        count = connection.execute(text("SELECT (SELECT count(*) FROM queued_runs), (SELECT count(*) FROM procrastinate_jobs)"))
        found = count.one()
    return int(found[0]), int(found[1])


@pytest.mark.row("000-20")
async def test_a_skill_that_names_a_pool_runs_on_a_worker_of_it(make: Make) -> None:
    catalog = make()
    async with working(catalog) as worker:
        run = await catalog.run("pooled", {"n": 1}, context={"userId": "ada", "apiKey": "secret"})
        assert (run.status, run.output, run.kind) == ("ok", {"n": 1}, "distributed")
        assert "done" in run.warnings
        assert any("apiKey" in warning for warning in run.warnings)
        assert run.isolation not in ("", "none")
        record = catalog.records().journal.get(run.run_id)
        assert (record.state, record.output) == ("succeeded", {"n": 1})
        assert worker.pools == ("gpu",)
        await until(lambda: left(catalog) == (0, 0))


async def test_a_run_of_a_worker_is_below_the_span_in_which_it_was_asked_for(make: Make, spans: InMemorySpanExporter) -> None:
    catalog = make()
    async with working(catalog):
        with trace.get_tracer("host").start_as_current_span("request") as request:
            run = await catalog.run("pooled", {"n": 1})
    assert (run.status, run.kind) == ("ok", "distributed")
    (ended,) = [span for span in spans.get_finished_spans() if span.name == "skillyard.run"]
    assert ended.parent is not None
    assert (ended.parent.trace_id, ended.parent.span_id) == (
        request.get_span_context().trace_id,
        request.get_span_context().span_id,
    )


async def test_the_runs_of_an_organisation_go_to_workers_of_it_and_to_no_others(make: Make) -> None:
    server = make()
    Organisations(lambda: server.records().database).create("acme")
    ours = Organisations(lambda: server.records().database).catalog("acme", server)
    async with working(server):
        assert (await ours.run("pooled", {"a": 1})).kind == "direct"  # what stands in where no worker is
        async with working(ours):
            run = await ours.run("pooled", {"a": 1})
    assert (run.status, run.kind, run.output) == ("ok", "distributed", {"a": 1})
    assert server.records().journal.list() == ()
    ours.records().close()


@pytest.mark.row("000-20", "D-17")
async def test_a_pool_without_a_worker_is_unavailable_and_nothing_has_run(make: Make) -> None:
    catalog = make()
    async with working(catalog, "other"):
        run = await catalog.run("pooled", {"n": 1})
    assert (run.status, run.kind, run.output) == ("ok", "direct", {"n": 1})  # what stands in for it, once
    assert any("skillyard worker --pool gpu" in warning for warning in run.warnings)
    assert states(catalog) == ["succeeded"]
    assert left(catalog) == (0, 0)


@pytest.mark.row("D-17")
async def test_a_run_is_taken_back_when_its_only_worker_leaves_before_it_began(make: Make) -> None:
    catalog = make(SLOW)
    async with working(catalog) as worker:
        first = asyncio.create_task(catalog.run("pooled"))
        await until(lambda: states(catalog) == ["running"])
        second = asyncio.create_task(catalog.run("pooled", {"s": 0}))
        await until(lambda: sorted(states(catalog)) == ["queued", "running"])
        WorkerRoster(catalog.records().database).drain(worker.id)
        run = await asyncio.wait_for(second, 20)
        assert (run.kind, run.output) == ("direct", 1)
        assert any("no worker serves" in warning for warning in run.warnings)
        first.cancel()
        await asyncio.wait([first])
    assert sorted(states(catalog)) == ["cancelled", "succeeded"]


async def test_runs_of_one_worker_work_at_once_up_to_its_number(make: Make) -> None:
    catalog = make("import time, json\ntime.sleep(0.3)\nprint(json.dumps({'output': 1}))\n")
    async with working(catalog, concurrency=4):
        done = await asyncio.gather(*(catalog.run("pooled", {"n": number}) for number in range(8)))
    assert [run.output for run in done] == [1] * 8
    assert states(catalog) == ["succeeded"] * 8


@pytest.mark.row("000-41", "D-18")
async def test_memories_of_a_worker_are_saved_once(make: Make) -> None:
    catalog = make(REMEMBERS)
    async with working(catalog):
        run = await catalog.run("pooled", context={"userId": "ada"})
    assert run.ok
    assert [memory.content for memory in await catalog.memory().list(user_id="ada")] == ["likes tea"]


async def test_a_result_that_may_be_kept_is_kept_by_the_worker_and_given_again(make: Make) -> None:
    catalog = make(more="cacheable: true\n")
    async with working(catalog):
        first, again = [await catalog.run("pooled", {"n": 1}) for _ in range(2)]
    assert (first.cache_hit, again.cache_hit) == (False, True)
    assert again.output == first.output


async def test_cancelling_the_caller_ends_the_run_on_the_worker(make: Make) -> None:
    catalog = make(SLOW)
    async with working(catalog):
        asked = asyncio.create_task(catalog.run("pooled"))
        await until(lambda: states(catalog) == ["running"])
        begun = time.monotonic()
        asked.cancel()
        await asyncio.wait([asked])
        assert states(catalog) == ["cancelled"]
        await until(lambda: left(catalog) == (0, 0))
        assert time.monotonic() - begun < 30  # the script would have gone on for a minute


@pytest.mark.row("000-40")
async def test_a_script_that_fails_on_a_worker_fails_for_its_caller_in_the_same_words(make: Make) -> None:
    catalog = make("import sys\nprint('oh no', file=sys.stderr)\nsys.exit(3)\n")
    async with working(catalog):
        there = await catalog.run("pooled")
        here = await catalog.run("pooled", entry="scripts/execute.py")
    assert there.error == here.error
    assert (there.status, "oh no" in there.stderr) == (here.status, True)


async def test_a_worker_runs_only_the_content_that_was_asked_for(make: Make, skills_root: Path) -> None:
    catalog = make()
    async with working(make()):
        (skills_root / "pooled/scripts/execute.py").write_text(ECHO + "# newer\n")
        run = await catalog.run("pooled", {"n": 2})
        assert run.ok  # the worker looked again
        stale = catalog.get("pooled").digest()
        (skills_root / "pooled/scripts/execute.py").write_text(ECHO + "# newest\n")
        with pytest.raises(DigestMismatch) as refused:
            await catalog.engine().run(RunRequest(catalog.get("pooled"), {}, digest=stale))
    assert "skillyard runs show" in refused.value.hint


async def test_a_worker_without_the_skill_says_so(make: Make, tmp_path: Path) -> None:
    catalog = make()
    async with working(Catalog.discover(roots=[tmp_path / "none"], cache=False)):
        with pytest.raises(SkillNotFound):
            await catalog.run("pooled")
    assert states(catalog) == ["failed"]


@pytest.mark.parametrize("request_text", ["{}", "[1]", "no json", '{"skill": 1, "warnings": []}', "[" * 100_000])
async def test_a_request_that_a_worker_cannot_read_ends_its_run(make: Make, request_text: str) -> None:
    catalog = make()
    queue = RunQueue(catalog.records().database)
    queue.prepare()
    from skillyard.engine.run_call import RunCall

    call = RunCall(RunRequest(catalog.get("pooled"), {}, {}, run_id="run_1"))
    queue.enqueue(call.record(), pool="gpu", request=request_text, cache_key=None)
    async with working(catalog):
        await until(lambda: states(catalog) == ["failed"])
        assert catalog.records().journal.get("run_1").error_code == "invalid_input"
        assert (await catalog.run("pooled", {"n": 2})).output == {"n": 2}
        await until(lambda: left(catalog) == (0, 0))  # a worker that lives removes jobs without a run


async def test_a_worker_runs_nothing_that_a_rule_denies_there(make: Make, tmp_path: Path, skills_root: Path) -> None:
    catalog = make()
    (tmp_path / "skillyard.toml").write_text('[permissions.skills]\npooled = "deny"\n')
    denying = Catalog.discover(roots=[skills_root], cwd=tmp_path, cache=False)
    async with working(denying):
        with pytest.raises(Exception, match="permission") as refused:
            await catalog.run("pooled")
    assert getattr(refused.value, "code", "") == "permission_denied"


async def test_a_worker_that_is_stopped_lets_its_runs_end_within_the_grace(make: Make) -> None:
    catalog = make("import time, json\ntime.sleep(1)\nprint(json.dumps({'output': 1}))\n")
    async with working(catalog):
        asked = asyncio.create_task(catalog.run("pooled"))
        await until(lambda: states(catalog) == ["running"])
    assert (await asked).output == 1


async def test_what_has_not_ended_when_the_grace_is_over_is_interrupted(make: Make) -> None:
    catalog = make(SLOW)
    async with working(catalog, grace_s=0.2):
        asked = asyncio.create_task(catalog.run("pooled"))
        await until(lambda: states(catalog) == ["running"])
    run = await asyncio.wait_for(asked, 20)
    assert (run.status, run.error.code if run.error else None) == ("killed", "INTERRUPTED")
    assert states(catalog) == ["interrupted"]


@asynccontextmanager
async def process(command: tuple[str, ...], skills_root: Path) -> Any:
    """`skillyard worker --pool gpu` as a process of its own, ready."""
    arguments = ("worker", "--pool", "gpu", "--root", str(skills_root), "--json")
    child = await asyncio.to_thread(preloaded.Popen, [*command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        assert child.stdout is not None
        started = json.loads(await asyncio.wait_for(asyncio.to_thread(child.stdout.readline), 60))
        database = Database.open("", os.environ["SKILLYARD_DATABASE_URL"])
        await until(lambda: any(known.id == started["worker"] for known in WorkerRoster(database).workers()))
        yield child
    finally:
        child.kill()
        await asyncio.to_thread(child.communicate)


@FAST_AND_REAL
async def test_a_killed_worker_leaves_an_interrupted_run_that_nobody_runs_again(
    make: Make, skills_root: Path, skillyard_command: tuple[str, ...], timing: Timing
) -> None:
    catalog = make(SLOW)
    async with process(skillyard_command, skills_root) as child:
        asked = asyncio.create_task(catalog.run("pooled"))
        await until(lambda: states(catalog) == ["running"])
        child.kill()
        run = await asyncio.wait_for(asked, 30)
    assert (run.status, run.error.code if run.error else None) == ("killed", "INTERRUPTED")
    async with working(catalog):
        await asyncio.sleep(2 * timing.poll_s)
        assert states(catalog) == ["interrupted"]
    assert left(catalog)[0] == 0


async def test_a_worker_that_is_told_to_stop_finishes_and_leaves(
    make: Make, skills_root: Path, skillyard_command: tuple[str, ...]
) -> None:
    catalog = make("import time, json\ntime.sleep(0.7)\nprint(json.dumps({'output': 1}))\n")
    async with process(skillyard_command, skills_root) as child:
        asked = asyncio.create_task(catalog.run("pooled"))
        await until(lambda: states(catalog) == ["running"])
        child.send_signal(signal.SIGTERM)
        assert (await asyncio.wait_for(asked, 30)).output == 1
        assert await asyncio.to_thread(child.wait, 30) == 0
    assert WorkerRoster(catalog.records().database).workers() == ()


async def test_a_worker_that_slept_and_was_taken_for_dead_changes_nothing_and_remembers_nothing(
    make: Make, skills_root: Path, skillyard_command: tuple[str, ...]
) -> None:
    catalog = make("import time\ntime.sleep(1)\n" + REMEMBERS)
    async with process(skillyard_command, skills_root) as child:
        asked = asyncio.create_task(catalog.run("pooled", context={"userId": "ada"}))
        await until(lambda: states(catalog) == ["running"])
        child.send_signal(signal.SIGSTOP)
        journal = catalog.records().journal
        from skillyard.execution import RunError

        journal.stop(journal.list()[0].id, "interrupted", RunError("INTERRUPTED", "taken for dead"))
        child.send_signal(signal.SIGCONT)
        run = await asyncio.wait_for(asked, 30)
        assert run.error is not None
        await until(lambda: left(catalog) == (0, 0))
    assert states(catalog) == ["interrupted"]
    assert await catalog.memory().list(user_id="ada") == ()


async def test_a_caller_that_is_killed_leaves_no_run_open(
    make: Make, skills_root: Path, skillyard_command: tuple[str, ...]
) -> None:
    catalog = make(SLOW)
    async with working(catalog, grace_s=0.1):
        command = [*skillyard_command, "run", "pooled", "--root", str(skills_root)]
        child = await asyncio.to_thread(preloaded.Popen, command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        await until(lambda: states(catalog) == ["running"], 60)
        child.kill()
        await asyncio.to_thread(child.wait)
        assert states(catalog) == ["running"]  # the worker carries it, and it is the worker's to end
    assert states(catalog) == ["interrupted"]


async def test_connections_that_are_cut_are_made_again(make: Make) -> None:
    catalog = make("import time, json\ntime.sleep(1)\nprint(json.dumps({'output': 1}))\n")
    async with working(catalog):
        asked = asyncio.create_task(catalog.run("pooled"))
        await until(lambda: states(catalog) == ["running"])
        with catalog.records().database.read() as connection:
            connection.execute(
                text(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )
            )
        run = await asyncio.wait_for(asked, 40)
        assert run.status in ("ok", "killed")
        assert states(catalog)[0] in FINAL_STATES
        assert (await asyncio.wait_for(catalog.run("pooled"), 40)).output == 1


async def test_a_claimed_run_waits_again_when_the_database_is_lost_before_it_begins(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog, files, lost = make(), RunFiles.of, list[str]()

    def once_lost(held: RunFiles, run_id: str, *rest: Any) -> Any:
        if not lost:
            lost.append(run_id)
            raise DatabaseUnavailable("the connection was cut", hint="wait")
        return files(held, run_id, *rest)

    monkeypatch.setattr(RunFiles, "of", once_lost)
    async with working(catalog):
        run = await asyncio.wait_for(catalog.run("pooled"), 60)
    assert (run.status, lost) == ("ok", [run.run_id])


def test_many_workers_take_each_run_once(make: Make) -> None:
    catalog = make()
    database = catalog.records().database
    queue = RunQueue(database)
    queue.prepare()
    from skillyard.engine.run_call import RunCall

    ids = [f"run_{number}" for number in range(30)]
    for run_id in ids:
        call = RunCall(RunRequest(catalog.get("pooled"), {}, {}, run_id=run_id))
        queue.enqueue(call.record(), pool="gpu", request="{}", cache_key=None)
    taken: list[str] = []

    def take() -> None:
        while (one := claim_next(database, ["gpu"], "me", QueueLimits(None, {}))) is not None:
            taken.append(one.run_id)

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == sorted(ids)


def test_a_worker_that_is_silent_serves_nothing(make: Make) -> None:
    database, seconds = make().records().database, [0.0]
    roster = WorkerRoster(database, heartbeats=HeartbeatMonitor(lambda: seconds[0]))
    roster.join("w1", ["gpu"], 2)
    assert roster.is_served("gpu")
    with database.write() as connection:
        connection.execute(update(workers).values(seen_at=text("now() - interval '1 minute'")))
    assert roster.is_served("gpu")  # perhaps the clock was set: it must say something soon
    seconds[0] = 8
    assert not roster.is_served("gpu")
    assert [worker.state for worker in roster.workers()] == ["gone"]
    assert roster.heartbeat("w1")
    assert roster.is_served("gpu")
    roster.leave("w1")
    assert not roster.heartbeat("w1")


def test_what_the_list_of_workers_tells(make: Make) -> None:
    catalog = make()
    roster = WorkerRoster(catalog.records().database)
    roster.join("w1", ["gpu", "cpu"], 2)
    queue = RunQueue(catalog.records().database)
    queue.prepare()
    from skillyard.engine.run_call import RunCall

    call = RunCall(RunRequest(catalog.get("pooled"), {}, {}, run_id="run_1"))
    queue.enqueue(call.record(), pool="gpu", request="{}", cache_key=None)
    assert [pool.to_dict() for pool in roster.pools()] == [
        {"name": "cpu", "workers": 1, "waiting": 0, "running": 0},
        {"name": "gpu", "workers": 1, "waiting": 1, "running": 0},
    ]
    (worker,) = roster.workers()
    shape = worker.to_dict()
    assert (shape["pools"], shape["state"], shape["process"]) == (["cpu", "gpu"], "idle", os.getpid())


@pytest.mark.parametrize("pools", [("",), ("gpu", ""), ("a\nb",), ("x" * 101,)])
def test_a_worker_needs_the_name_of_a_pool(make: Make, pools: tuple[str, ...]) -> None:
    with pytest.raises(InvalidInput):
        make().worker(*pools)


async def test_without_postgresql_a_pool_is_unavailable_and_says_what_it_needs(
    skills_root: Path, make_skill: Any, tmp_path: Path
) -> None:
    header = HEADER.format(name="pooled", kind="distributed", pool="gpu")
    make_skill(skills_root, "pooled", front_matter=header, files={"scripts/execute.py": ECHO})
    catalog = Catalog.discover(roots=[skills_root], cache=False)
    run = await catalog.run("pooled")
    assert (run.ok, run.kind) == (True, "direct")
    assert any("PostgreSQL" in warning for warning in run.warnings)
    with pytest.raises(DatabaseUnavailable, match="PostgreSQL"):
        catalog.worker("gpu")


async def test_an_unrecorded_run_never_goes_to_a_pool(make: Make) -> None:
    catalog = make()
    async with working(catalog):
        run = await catalog.run("pooled", record=False)
    assert run.kind == "direct"
    assert any("not recorded" in warning for warning in run.warnings)


async def test_a_worker_takes_a_skill_that_it_never_installed_from_the_store(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "pooled"
    (source / "scripts").mkdir(parents=True)
    header = HEADER.format(name="pooled", kind="distributed", pool="gpu")
    (source / "SKILL.md").write_text(f"---\n{header}---\nDo it.\n")
    (source / "scripts/execute.py").write_text(ECHO)
    monkeypatch.setenv("SKILLYARD_STORE", str(tmp_path / "store"))

    def at(home: str) -> Catalog:
        monkeypatch.setenv("SKILLYARD_HOME", str(tmp_path / home))
        return Catalog.discover(cwd=tmp_path, home=tmp_path / home, cache=False)

    elsewhere = at("worker")
    server = at("server")
    registry = server.registry()
    registry.install(str(source))
    registry.close()
    server.refresh()
    async with working(elsewhere):
        run = await server.run("pooled", {"n": 1})
    assert (run.output, run.warnings) == ({"n": 1}, ("done",))
    for catalog in (elsewhere, server):
        catalog.records().close()


async def test_what_a_worker_runs_is_seen_while_it_works(make: Make) -> None:
    catalog = make("import sys, time\nsys.stderr.write('begun\\n')\nsys.stderr.flush()\ntime.sleep(60)\n")
    journal = catalog.records().journal
    async with working(catalog, grace_s=0.1):
        begun = await catalog.engine().begin(RunRequest(catalog.get("pooled"), {}))
        await until(lambda: [item.body["text"] for item in journal.events_since(begun.run_id)[1]] == ["begun\n"])
        begun.ended.cancel()
        await asyncio.wait([begun.ended])
    assert journal.get(begun.run_id).stderr == "begun\n"
