"""A result is kept only for skills that say so, only where it would come out the same, and only as long as they say."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from skillyard import Skill
from skillyard.database import runs
from skillyard.engine import LocalEngine, Records
from skillyard.execution import RunRequest
from skillyard.memory import SqlMemoryService

Write = Callable[..., Skill]
SCRIPT = """
import os
def execute(parameters, context):
    memory = {"ownerType": "user", "ownerId": str(context.get("userId")), "type": "fact", "importance": 3, "content": "ran"}
    return {"output": os.urandom(8).hex(), "message": "hello", "status": parameters.get("status", "success"),
            "intermediateSteps": [{"stepName": "throw", "duration": 1}],
            "memoryWrites": [memory] if context.get("userId") else []}
"""
SCHEMA = "input_schema:\n  type: object\n  properties:\n    n: {type: integer, default: 1}\n"


async def _outputs(engine: LocalEngine, skill: Skill, *parameters: dict[str, object], **options: Any) -> list[object]:
    return [(await engine.run(RunRequest(skill, given, **options))).output for given in parameters]


@pytest.mark.row("000-22", "C-24")
async def test_a_result_is_given_again_for_the_same_request(engine: LocalEngine, records: Records, write: Write) -> None:
    skill = write(SCRIPT, header=f"ttl: 60\n{SCHEMA}")
    first = await engine.run(RunRequest(skill, {"n": 1}))
    again = await engine.run(RunRequest(skill, {}))  # the schema's default makes it the same request
    assert (again.output, again.message, again.format) == (first.output, "hello", "text")
    assert (again.cache_hit, again.duration_ms, again.memory_writes) == (True, 0, ())
    assert (again.isolation, again.limits, again.steps) == (first.isolation, first.limits, first.steps)
    assert again.to_dict()["cache_hit"] is True
    assert first.to_dict()["cache_hit"] is False
    assert (await engine.run(RunRequest(skill, {"n": 2}))).output != first.output
    hit = records.journal.get(again.run_id)
    assert (hit.state, hit.cache_hit, hit.cached_from, hit.output) == ("succeeded", True, first.run_id, first.output)
    kept = records.journal.get(first.run_id)
    assert kept.expires_at is not None
    assert kept.finished_at is not None
    assert kept.expires_at - kept.finished_at == timedelta(seconds=60)


@pytest.mark.row("000-22")
@pytest.mark.parametrize(
    "header",
    ["", "cacheable: false\nttl: 60\n", "type: preprocessor\ncacheable: true\nttl: 60\n"],
    ids=["silent", "no", "before"],
)
async def test_nothing_is_kept_of_a_skill_that_does_not_say_so(engine: LocalEngine, write: Write, header: str) -> None:
    one, two = await _outputs(engine, write(SCRIPT, header=header), {}, {})
    assert one != two


@pytest.mark.row("000-22")
async def test_cacheable_alone_keeps_for_an_hour(engine: LocalEngine, records: Records, write: Write) -> None:
    run = await engine.run(RunRequest(write(SCRIPT, header="cacheable: true\n"), {}))
    record = records.journal.get(run.run_id)
    assert record.expires_at is not None
    assert record.finished_at is not None
    assert record.expires_at - record.finished_at == timedelta(hours=1)


@pytest.mark.row("C-24")
async def test_a_result_is_not_given_after_its_time(engine: LocalEngine, records: Records, write: Write) -> None:
    skill = write(SCRIPT, header="ttl: 60\n")
    (first,) = await _outputs(engine, skill, {})
    with records.database.write() as connection:
        connection.execute(update(runs).values(expires_at=datetime.now(UTC) - timedelta(seconds=1)))
    assert await _outputs(engine, skill, {}) != [first]


@pytest.mark.row("000-22")
async def test_a_failure_is_never_kept(engine: LocalEngine, write: Write) -> None:
    skill = write(SCRIPT, header="ttl: 60\n")
    for _ in range(2):
        run = await engine.run(RunRequest(skill, {"status": "error"}))
        assert (run.ok, run.cache_hit) == (False, False)


@pytest.mark.row("D-35")
async def test_nobody_is_given_the_result_of_another(engine: LocalEngine, write: Write) -> None:
    skill = write(SCRIPT, header="ttl: 60\n")
    (ada,) = await _outputs(engine, skill, {}, context={"userId": "ada", "sessionId": "1", "timestamp": 1})
    assert await _outputs(engine, skill, {}, context={"userId": "ada", "sessionId": "2", "timestamp": 2}) == [ada]
    for other in ({"userId": "bob"}, {}, {"userId": "ada", "householdId": "h"}):
        assert await _outputs(engine, skill, {}, context=other) != [ada]


@pytest.mark.row("D-35")
async def test_a_change_of_the_skill_or_another_entry_is_another_result(engine: LocalEngine, write: Write) -> None:
    skill = write(SCRIPT, header="ttl: 60\n")
    (first,) = await _outputs(engine, skill, {})
    assert await _outputs(engine, skill, {}, entry="scripts/execute.py") != [first]
    Path(skill.directory, "notes.md").write_text("new")
    assert await _outputs(engine, skill, {}) != [first]
    Path(skill.directory, "notes.md").unlink()
    assert await _outputs(engine, skill, {}) == [first]


@pytest.mark.here
@pytest.mark.row("D-35")
async def test_a_skill_that_changes_while_it_runs_keeps_nothing(engine: LocalEngine, records: Records, write: Write) -> None:
    skill = write(SCRIPT, header="ttl: 60\n")
    runner = (engine if isinstance(engine, LocalEngine) else engine._local)._runner
    run = runner.run

    async def change_and_run(*arguments: Any, **options: Any) -> Any:
        Path(skill.directory, "notes.md").write_text("new")
        return await run(*arguments, **options)

    runner.run = change_and_run  # type: ignore[method-assign]
    done = await engine.run(RunRequest(skill, {}))
    assert records.journal.get(done.run_id).expires_at is None


@pytest.mark.row("000-22")
async def test_fresh_runs_again_and_its_result_is_the_one_that_is_kept(engine: LocalEngine, write: Write) -> None:
    skill = write(SCRIPT, header="ttl: 60\n")
    (first,) = await _outputs(engine, skill, {})
    (fresh,) = await _outputs(engine, skill, {}, fresh=True)
    assert fresh != first
    assert await _outputs(engine, skill, {}) == [fresh]


@pytest.mark.row("D-18")
async def test_a_kept_result_remembers_nothing_twice(engine: LocalEngine, records: Records, write: Write) -> None:
    skill = write(SCRIPT, header="ttl: 60\n")
    for _ in range(3):
        await engine.run(RunRequest(skill, {}, context={"userId": "ada"}))
    assert len(await SqlMemoryService(lambda: records.database).list(user_id="ada")) == 1


async def test_without_records_nothing_is_kept(write: Write, engine: LocalEngine) -> None:
    one, two = await _outputs(engine.unrecorded(), write(SCRIPT, header="ttl: 60\n"), {}, {})
    assert one != two
