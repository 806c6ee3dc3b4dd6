"""Every run is recorded before it starts, and ends in exactly one final state, whatever happens to it."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import preloaded
import pytest
from sqlalchemy import update

from skillyard import Catalog, Executor, Run, Skill, SkillTools
from skillyard.catalog import Configuration, skill_files
from skillyard.database import runs
from skillyard.document import parse_document
from skillyard.engine import FINAL_STATES, LocalEngine, ProcessIdentity, Records, RunFilter, RunRecord
from skillyard.engine.journal import Journal
from skillyard.engine.run_record import ALL_RUNS
from skillyard.errors import DatabaseUnavailable, FileMissing, PermissionDenied, RecordNotFound
from skillyard.execution import RunError, RunRequest, StepTrace
from skillyard.sandbox import preparation

Write = Callable[..., Skill]
STEPS = """
import json
print(json.dumps({"output": {"n": 1}, "warnings": ["careful"], "tokenUsage": {"total": 3}, "intermediateSteps": [
    {"stepId": "a", "stepName": "read", "input": {"apiKey": "k", "x": 1}, "output": [1], "duration": 900, "timestamp": 5},
    {"stepId": "b", "stepName": "write", "duration": 200, "error": "disk full"}]}))
"""
RECORD = RunRecord("run_a", "user:x", "x", "direct", "queued", datetime(2026, 1, 1, tzinfo=UTC))


class Scripted:
    """A runner that does what the test says, so that an engine can be watched between start and end."""

    def __init__(self, work: Callable[[str], Any]) -> None:
        self.work = work

    def can_run(self, skill: object) -> bool:
        return True

    async def run(self, request: RunRequest) -> Run:
        result = self.work(request.run_id)
        if asyncio.iscoroutine(result):
            result = await result
        return result if isinstance(result, Run) else Run(request.run_id, request.skill.id, "ok", output=result)


async def test_a_run_parses_its_skill_once(engine: LocalEngine, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[bytes] = []

    def parse(data: bytes, **options: Any) -> Any:
        parsed.append(data)
        return parse_document(data, **options)

    skill_files._parsed.cache_clear()
    monkeypatch.setattr(skill_files, "parse_document", parse)
    skill = write(STEPS, header="ttl: 60\ncacheable: true\n")
    assert (await engine.run(RunRequest(skill, {"text": "once"}))).ok
    assert len(parsed) == 1
    file = Path(skill.path)
    file.write_text(file.read_text("utf-8").replace("ttl: 60", "ttl: 90"), "utf-8")
    assert skill.document().metadata.ttl == 90
    assert len(parsed) == 2


@pytest.mark.row("000-38", "000-45")
async def test_a_run_is_recorded_with_all_that_is_known_of_it(engine: LocalEngine, records: Records, write: Write) -> None:
    run = await engine.run(
        RunRequest(write(STEPS), {"text": "hello", "api_key": "s3cret"}, context={"userId": "ada", "authToken": "t"})
    )
    record = records.journal.get(run.run_id)
    assert (record.state, record.status, record.output, record.error_code) == ("succeeded", "ok", {"n": 1}, None)
    assert (record.skill_id, record.skill_name, record.kind) == ("config:example", "example", "direct")
    assert record.parameters == {"text": "hello", "api_key": "[redacted]"}
    assert record.context == {"userId": "ada", "authToken": "[redacted]"}
    assert "careful" in record.warnings
    assert record.token_usage == {"total": 3}
    assert record.started_at is not None
    assert record.finished_at is not None
    assert record.created_at <= record.started_at <= record.finished_at
    assert {"timeout_ms", "network"} <= {str(limit["name"]) for limit in record.limits}
    assert record.isolation == run.isolation != "none"
    assert [(step.step_name, step.duration, step.error, step.timestamp) for step in record.steps] == [
        ("read", 900, None, 5),
        ("write", 200, "disk full", None),
    ]
    assert record.steps[0].input == {"apiKey": "[redacted]", "x": 1}


async def test_the_row_is_there_before_anything_starts(records: Records, write: Write) -> None:
    seen: list[str] = []
    skill = write("pass")
    engine = LocalEngine(Scripted(lambda run_id: seen.append(records.journal.get(run_id).state)), records)
    run = await engine.run(RunRequest(skill, {}))
    assert seen == ["running"]
    assert records.journal.get(run.run_id).state == "succeeded"


@pytest.mark.row("000-40")
async def test_a_run_that_fails_is_recorded_as_failed_with_its_logs(
    engine: LocalEngine, records: Records, write: Write
) -> None:
    run = await engine.run(RunRequest(write("import sys\nprint('half')\nsys.exit('no such table')\n"), {}))
    record = records.journal.get(run.run_id)
    assert (record.state, record.status, record.error_code) == ("failed", "error", "SANDBOX_EXECUTION_ERROR")
    assert "no such table" in record.stderr
    assert record.stdout == "half\n"


async def test_a_run_that_takes_too_long_says_so(records: Records, write: Write) -> None:
    engine = LocalEngine(Executor.from_configuration(Configuration(), timeout_ms=200), records)
    run = await engine.run(RunRequest(write("import time; time.sleep(60)"), {}))
    assert (records.journal.get(run.run_id).state, records.journal.get(run.run_id).status) == ("failed", "timeout")


async def test_what_could_not_be_started_is_recorded_and_raised(engine: LocalEngine, records: Records, write: Write) -> None:
    skill = write("print(1)")
    with pytest.raises(FileMissing):
        await engine.run(RunRequest(skill, {}, entry="scripts/other.py"))
    with pytest.raises(PermissionDenied):
        await engine.run(RunRequest(skill, {}, digest="sha256:" + "0" * 64))
    found = records.journal.list()
    assert [(record.state, record.error_code) for record in found] == [
        ("failed", "permission_denied"),
        ("failed", "file_not_found"),
    ]


async def test_a_defect_of_the_runner_still_ends_the_run(records: Records, write: Write) -> None:
    engine = LocalEngine(Scripted(lambda _: 1 // 0), records)
    with pytest.raises(ZeroDivisionError):
        await engine.run(RunRequest(write("pass"), {}))
    (record,) = records.journal.list()
    assert (record.state, record.error_code) == ("failed", "UNKNOWN_ERROR")


async def test_cancelling_ends_the_run_and_tells_its_caller(engine: LocalEngine, records: Records, write: Write) -> None:
    running = asyncio.create_task(engine.run(RunRequest(write("import time; time.sleep(60)"), {})))
    run_id = await _working(engine, records)
    assert await engine.cancel(run_id)
    run = await running
    assert run.error == RunError("CANCELLED", "the run was cancelled")
    assert records.journal.get(run_id).state == "cancelled"
    assert not await engine.cancel(run_id)


async def test_a_caller_that_goes_away_cancels_its_run(engine: LocalEngine, records: Records, write: Write) -> None:
    running = asyncio.create_task(engine.run(RunRequest(write("import time; time.sleep(60)"), {})))
    run_id = await _working(engine, records)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert records.journal.get(run_id).state == "cancelled"
    assert engine.working() == ()


@pytest.mark.here
async def test_a_run_that_is_cancelled_while_its_copy_is_made_leaves_none(
    engine: LocalEngine, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    skill = write("print(1)")
    await engine.run(RunRequest(skill, {}))  # the sandboxes were tried with copies of their own
    stage, go, copies = preparation._stage, threading.Event(), []

    def slow(*arguments: Any) -> Any:
        copies.append(Path((made := stage(*arguments)).tree))
        go.wait(30)
        return made

    monkeypatch.setattr(preparation, "_stage", slow)
    task = asyncio.create_task(engine.run(RunRequest(skill, {})))
    while not copies:
        await asyncio.sleep(0.01)
    assert copies[0].exists()
    assert await engine.cancel(engine.working()[0])  # from now on it is interrupted
    go.set()
    assert (await task).error == RunError("CANCELLED", "the run was cancelled")
    assert not copies[0].exists()


async def _working(engine: LocalEngine, records: Records) -> str:
    for _ in range(1000):
        for run_id in engine.working():
            if records.journal.get(run_id).state == "running":
                return run_id
        await asyncio.sleep(0.01)
    raise AssertionError("the run never started")


async def test_no_more_runs_work_at_once_than_there_are_turns(records: Records, write: Write) -> None:
    working = most = 0

    async def work() -> None:
        nonlocal working, most
        working += 1
        most = max(most, working)
        await asyncio.sleep(0.01)
        working -= 1

    engine = LocalEngine(Scripted(lambda _: work()), records, concurrency=2)
    skill = write("pass")
    done = await asyncio.gather(*(engine.run(RunRequest(skill, {})) for _ in range(8)))
    assert most == 2
    assert len({run.run_id for run in done}) == 8
    assert {record.state for record in records.journal.list()} == {"succeeded"}


async def test_a_run_that_waits_can_be_cancelled_before_its_turn(records: Records, write: Write) -> None:
    go = asyncio.Event()
    engine = LocalEngine(Scripted(lambda _: go.wait()), records, concurrency=1)
    skill = write("pass")
    first = asyncio.create_task(engine.run(RunRequest(skill, {})))
    running = await _working(engine, records)
    second = asyncio.create_task(engine.run(RunRequest(skill, {})))
    while len(engine.working()) < 2:
        await asyncio.sleep(0.01)
    waiting = next(run_id for run_id in engine.working() if run_id != running)
    await engine.cancel(waiting)
    assert (await second).error is not None
    go.set()
    assert (await first).ok
    assert records.journal.get(waiting).started_at is None


def test_an_engine_serves_several_event_loops(records: Records, write: Write) -> None:
    skill = write("pass")
    engine = LocalEngine(Scripted(lambda _: 1), records, concurrency=1)

    async def several() -> list[Run]:
        return await asyncio.gather(*(engine.run(RunRequest(skill, {})) for _ in range(3)))

    for _ in range(2):
        assert [run.output for run in asyncio.run(several())] == [1, 1, 1]


async def test_a_database_that_cannot_be_opened_starts_nothing(tmp_path: Path, write: Write) -> None:
    (tmp_path / "file").write_text("")
    started: list[str] = []
    engine = LocalEngine(Scripted(started.append), Records(str(tmp_path / "file")))
    with pytest.raises(DatabaseUnavailable) as refused:
        await engine.run(RunRequest(write("pass"), {}))
    assert started == []
    assert refused.value.hint


async def test_a_result_is_not_lost_when_its_end_cannot_be_recorded(records: Records, write: Write) -> None:
    def break_it(run_id: str) -> str:
        with records.database.write() as connection:
            connection.exec_driver_sql("ALTER TABLE runs RENAME TO lost")
        return "precious"

    run = await LocalEngine(Scripted(break_it), records).run(RunRequest(write("pass"), {}))
    assert run.output == "precious"
    assert "not recorded yet" in run.warnings[-1]


async def test_a_run_ends_whatever_a_skill_says_of_its_steps(records: Records, write: Write) -> None:
    odd = (StepTrace("a", "a\0\ud800", duration=10**300), StepTrace("b", "b", {1, 2}, float("nan"), error=["x"] * 3))
    engine = LocalEngine(Scripted(lambda run_id: Run(run_id, "user:x", "ok", output="fine", steps=odd)), records)
    run = await engine.run(RunRequest(write("pass"), {"when": datetime.now(UTC), "deep": _nested(500)}))
    record = records.journal.get(run.run_id)
    assert (record.state, record.output, run.warnings) == ("succeeded", "fine", ())
    assert [step.duration for step in record.steps] == [1e12, 0]
    assert record.steps[1].output == "nan"


def _nested(depth: int) -> object:
    value: object = 1
    for _ in range(depth):
        value = [value]
    return value


async def test_a_record_that_cannot_be_written_whole_still_ends(records: Records, write: Write) -> None:
    def odd(run_id: str) -> Run:
        return Run(run_id, "user:x", "ok", output="precious", duration_ms=10**30)

    run = await LocalEngine(Scripted(odd), records).run(RunRequest(write("pass"), {}))
    assert run.output == "precious"
    record = records.journal.get(run.run_id)
    assert (record.state, record.error_code) == ("succeeded", "RECORD_INCOMPLETE")


async def test_without_records_nothing_is_opened_or_written(tmp_path: Path, write: Write) -> None:
    run = await LocalEngine(Executor()).run(RunRequest(write("print(1)"), {}))
    assert run.ok
    assert not (tmp_path / "skillyard.db").exists()


def test_a_run_that_ended_is_never_changed_again(records: Records) -> None:
    journal = records.journal
    journal.queue(RECORD)
    assert journal.start("run_a")
    assert journal.finish(Run("run_a", "user:x", "ok", output=1))
    assert not journal.start("run_a")
    assert not journal.finish(Run("run_a", "user:x", "error"))
    assert not journal.stop("run_a", "cancelled", RunError("CANCELLED", ""))
    assert (journal.get("run_a").state, journal.get("run_a").output) == ("succeeded", 1)


async def test_a_run_whose_process_was_killed_ends_as_interrupted_at_the_next_start(
    database_address: str, tmp_path: Path, write: Write
) -> None:
    skill = write("import time; time.sleep(600)")
    script = (
        "import asyncio\nfrom skillyard import Catalog, Executor, RunRequest\n"
        "from skillyard.engine import LocalEngine, Records\n"
        f"records = Records({str(tmp_path)!r}, {database_address!r})\n"
        f"skill = Catalog.discover(roots=[{str(Path(skill.directory).parent)!r}], cache=False).get('example')\n"
        "asyncio.run(LocalEngine(Executor(), records).run(RunRequest(skill, {})))\n"
    )
    doomed = preloaded.Popen([sys.executable, "-c", script])
    watching = Records(str(tmp_path), database_address)
    try:
        while not (found := watching.journal.list(RunFilter(states=["running"]))):
            assert doomed.poll() is None
            await asyncio.sleep(0.05)
        assert watching.journal.recover() == ()  # its process lives
    finally:
        doomed.kill()
        doomed.wait(timeout=30)
    record = Records(str(tmp_path), database_address).journal.get(found[0].id)
    assert (record.state, record.error_code) == ("interrupted", "INTERRUPTED")
    assert record.finished_at is not None
    watching.close()


@pytest.mark.parametrize(
    ("change", "alive"),
    [
        ({}, True),
        ({"boot": "another"}, False),
        ({"started": "1"}, False),
        ({"pid": 2**22 + 1}, False),
        ({"host": "another"}, None),
        ({"space": "pid:[1]"}, None),
    ],
)
def test_an_owner_is_one_process_of_one_boot(change: dict[str, Any], alive: bool | None) -> None:
    owner = replace(ProcessIdentity.current(), **change)
    assert ProcessIdentity.read(str(owner)) == owner
    assert owner.alive() is alive
    assert ProcessIdentity.read("nobody") is None


def test_what_another_host_carries_counts_as_gone_after_a_day(records: Records) -> None:
    for run_id, age in (("run_new", timedelta(hours=1)), ("run_old", timedelta(days=2))):
        records.journal.queue(replace(RECORD, id=run_id, created_at=datetime.now(UTC) - age))
    with records.database.write() as connection:
        connection.execute(update(runs).values(owner=str(replace(ProcessIdentity.current(), host="another"))))
    assert records.journal.recover() == ("run_old",)
    assert records.journal.recover() == ()


def test_runs_are_found_by_skill_state_and_id(records: Records) -> None:
    journal: Journal = records.journal
    for number, name in enumerate(("pdf", "csv", "pdf")):
        when = RECORD.created_at + timedelta(seconds=number)
        journal.queue(
            replace(
                RECORD, id=f"run_0000000{number}_abcdefg{number}", skill_id=f"user:{name}", skill_name=name, created_at=when
            )
        )
    journal.stop("run_00000000_abcdefg0", "cancelled", RunError("CANCELLED", ""))
    assert [record.id[-1] for record in journal.list()] == ["2", "1", "0"]
    assert [record.id[-1] for record in journal.list(RunFilter(skill="pdf"))] == ["2", "0"]
    assert [record.id[-1] for record in journal.list(RunFilter(skill="user:pdf", states=["cancelled"]))] == ["0"]
    assert [record.id[-1] for record in journal.list(limit=1)] == ["2"]
    assert [record.state in FINAL_STATES for record in journal.list()] == [False, False, True]
    assert journal.get("abcdefg1").id.endswith("1")
    for unclear in ("run_0000", "defg1", "run_%_abcdefg1", ""):
        with pytest.raises(RecordNotFound):
            journal.get(unclear)


def test_runs_are_counted_by_time_and_those_of_a_schedule_are_one_row(records: Records) -> None:
    journal: Journal = records.journal
    schedules = (None, "daily", "daily", "hourly", None, "daily")
    for number, schedule in enumerate(schedules):
        when = RECORD.created_at + timedelta(hours=number)
        journal.queue(replace(RECORD, id=f"run_{number}", created_at=when, schedule=schedule))
    for number in (1, 2, 4):
        journal.stop(f"run_{number}", "failed" if number < 4 else "cancelled", RunError("EXECUTION_ERROR", ""))

    def folded(only: RunFilter = ALL_RUNS, **page: int) -> list[tuple[str, int, int]]:
        return [(row.newest.id[-1], row.runs, row.failures) for row in journal.list_folded(only, **page)]

    assert folded() == [("5", 3, 2), ("4", 1, 0), ("3", 1, 0), ("0", 1, 0)]
    assert journal.count_folded() == 4
    assert folded(limit=2, offset=1) == [("4", 1, 0), ("3", 1, 0)]
    failed = RunFilter(states=["failed"])
    assert (folded(failed), journal.count_folded(failed)) == ([("2", 2, 2)], 1)
    assert folded(RunFilter(until=RECORD.created_at + timedelta(hours=2))) == [("1", 1, 1), ("0", 1, 0)]

    edges = [RECORD.created_at + timedelta(hours=hours) for hours in (0, 2, 5)]
    times = list(pairwise(edges))
    assert journal.count_by_state(ALL_RUNS, times) == (
        {"queued": 1, "failed": 1},
        {"queued": 1, "failed": 1, "cancelled": 1},
    )
    assert journal.count_by_state(RunFilter(schedule="daily"), times) == ({"failed": 1}, {"failed": 1})


@pytest.mark.row("003-11")
async def test_every_door_records(write: Write, home: Path) -> None:
    skill = write("print(1)")
    root = Path(skill.directory).parent
    catalog = Catalog.discover(roots=[root], cache=False)
    await catalog.run("example")
    await catalog.run("example", record=False)
    assert (await SkillTools(catalog).call("run_skill", {"skill": "example"}, session="chat")).ok
    assert (await SkillTools(catalog, record=False).call("run_skill", {"skill": "example"})).ok
    found = catalog.records().journal.list()
    assert [record.context for record in found] == [{"sessionId": "chat"}, {}]
    assert (home / "skillyard/skillyard.db").is_file()


async def test_a_tool_says_when_runs_cannot_be_recorded(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKILLYARD_DATABASE_URL", "sqlite:////proc/none/skillyard.db")
    catalog = Catalog.discover(roots=[Path(write("print(1)").directory).parent], cache=False)
    result = await SkillTools(catalog).call("run_skill", {"skill": "example"})
    assert (result.ok, result.code) == (False, "database_unavailable")


async def test_a_run_that_was_ended_before_its_turn_does_not_start(records: Records, write: Write) -> None:
    started: list[str] = []
    go = asyncio.Event()
    engine = LocalEngine(Scripted(lambda run_id: go.wait() if not started.append(run_id) else None), records, concurrency=1)
    skill = write("pass")
    first = asyncio.create_task(engine.run(RunRequest(skill, {})))
    await _working(engine, records)
    second = asyncio.create_task(engine.run(RunRequest(skill, {})))
    while not records.journal.list(RunFilter(states=["queued"])):
        await asyncio.sleep(0.01)
    (waiting,) = records.journal.list(RunFilter(states=["queued"]))
    records.journal.stop(waiting.id, "cancelled", RunError("CANCELLED", "by another process"))
    go.set()
    assert (await second).error == RunError("CANCELLED", "the run was cancelled")
    await first
    assert waiting.id not in started
