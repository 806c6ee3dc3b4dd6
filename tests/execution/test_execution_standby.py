"""Skills whose sandboxes stand ready: the same runs, within the same approvals, as often as their owner allows."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from skillyard.catalog import Configuration
from skillyard.errors import InvalidInput, InvalidPolicy, PermissionDenied
from skillyard.execution import Executor, RunRequest
from skillyard.packages import tree_digest

SCRIPT = """
import json, os
def execute(parameters, context=None):
    mark = os.path.exists("/tmp/mark")
    open("/tmp/mark", "w").close()
    return {"output": [parameters, context, mark], "format": "object"}
"""


async def standing(executor: Executor, count: int) -> None:
    for _ in range(3000):
        if executor._pool.standing == count:
            return
        await asyncio.sleep(0.01)
    raise AssertionError("no sandbox stands ready")


@pytest.mark.row("000-20")
async def test_a_skill_that_has_run_is_run_again_from_a_sandbox_of_its_own(write_skill) -> None:
    skill, executor = write_skill(SCRIPT), Executor(prewarm=2)
    for number in range(4):
        run = await executor.run(RunRequest(skill, {"number": number}, context={"userId": f"user-{number}"}))
        assert (run.status, run.output) == ("ok", [{"number": number}, {"userId": f"user-{number}"}, False])
        await standing(executor, 2)
    await executor.close()
    await standing(executor, 0)


async def test_approved_content_alone_runs_in_a_sandbox_that_stood_ready(write_skill) -> None:
    skill, executor = write_skill(SCRIPT), Executor(prewarm=1)
    digest = tree_digest(skill.directory)
    for _ in range(2):
        assert (await executor.run(RunRequest(skill, {}, digest=digest))).status == "ok"
        await standing(executor, 1)
    Path(skill.directory, "scripts/execute.py").write_text("print('changed')\n", "utf-8")
    with pytest.raises(PermissionDenied):
        await executor.run(RunRequest(skill, {}, digest=digest))
    with pytest.raises(PermissionDenied):
        await executor.run(RunRequest(skill, {}, digest="sha256:" + "0" * 64))
    assert (await executor.run(RunRequest(skill, {}))).output == "changed"
    await executor.close()


def test_an_executor_serves_one_loop_after_another(write_skill) -> None:
    skill, executor = write_skill(SCRIPT), Executor(prewarm=1)

    async def twice() -> list[str]:
        first = await executor.run(RunRequest(skill, {}))
        await standing(executor, 1)
        return [first.status, (await executor.run(RunRequest(skill, {}))).status]

    assert [asyncio.run(twice()) for _ in range(2)] == [["ok", "ok"]] * 2


async def test_the_operator_decides_how_many_stand_ready(write_skill) -> None:
    skill = write_skill(SCRIPT)
    executor = Executor.from_configuration(Configuration(sandbox={"prewarm": 2}))
    await executor.run(RunRequest(skill, {}))
    await standing(executor, 2)
    await executor.close()
    assert Executor.from_configuration(Configuration(sandbox={"prewarm": 2}), prewarm=0)._pool is None
    assert Executor.from_configuration(Configuration())._pool is None


@pytest.mark.parametrize("count", [9, -1, True, "2", 1.5])
def test_a_number_that_cannot_be_meant_is_refused(count: object) -> None:
    with pytest.raises(InvalidPolicy, match="prewarm"):
        Executor.from_configuration(Configuration(sandbox={"prewarm": count}))


@pytest.mark.parametrize("count", [9, -1])
def test_more_than_may_stand_ready_is_refused(count: int) -> None:
    with pytest.raises(InvalidInput, match="sandboxes ready"):
        Executor(prewarm=count)


def test_a_project_does_not_decide_it() -> None:
    with pytest.raises(InvalidPolicy, match="a project cannot decide prewarm"):
        Executor.from_configuration(Configuration(project_sandbox={"prewarm": 2}))
