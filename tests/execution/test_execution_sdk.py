"""`skillyard_sdk` inside the sandbox: steps, memories, the context and failure, in Python and in JavaScript."""

from __future__ import annotations

import asyncio

import pytest

from skillyard.execution import Executor, RunRequest, run, sdk
from skillyard.execution.executor import sdk_files

PYTHON = """
from skillyard_sdk import context, fail, remember, step

@step
def double(x):
    return x * 2

@step("later", id="last")
async def later(x, by=1):
    return x + by

async def execute(parameters):
    with step("validate", input=parameters) as current:
        current.output = {"valid": True}
    remember("likes tea", importance=4, metadata={"cup": 1})
    if parameters.get("fail"):
        fail("nothing to do")
    async with step("work", id="w"):
        value = double(await later(parameters["x"], by=2))
    return {"value": value, "user": context["userId"]}
"""
JAVASCRIPT = """
import { context, fail, remember, step } from 'skillyard_sdk';

export async function execute(parameters) {
  step('validate', (current) => { current.output = { valid: true }; }, { input: parameters });
  remember('likes tea', { importance: 4, metadata: { cup: 1 } });
  if (parameters.fail) fail('nothing to do');
  const value = await step('work', async () => step('double', () => (parameters.x + 2) * 2), { id: 'w' });
  return { value, user: context.userId };
}
"""
SCRIPTS = {"scripts/execute.py": PYTHON, "scripts/execute.mjs": JAVASCRIPT, "scripts/execute.ts": JAVASCRIPT}


@pytest.fixture(params=["bwrap", "landlock"])
def executor(request: pytest.FixtureRequest) -> Executor:
    return Executor(backend=request.param)


@pytest.mark.row("000-35", "000-37", "000-41", "000-45")
@pytest.mark.parametrize("entry", SCRIPTS)
async def test_what_a_script_collects_is_added_to_what_it_returns(write_skill, executor: Executor, entry: str) -> None:
    run = await executor.run(RunRequest(write_skill({entry: SCRIPTS[entry]}), {"x": 19}, context={"userId": "u1"}))
    assert (run.status, run.output, run.warnings) == ("ok", {"value": 42, "user": "u1"}, ()), run.stderr
    assert [(step.step_id, step.step_name) for step in run.steps][:2] == [("step-1", "validate"), ("w", "work")]
    assert (run.steps[0].input, run.steps[0].output) == ({"x": 19}, {"valid": True})
    assert run.steps[-1].output == 42
    assert all(step.duration >= 0 and step.timestamp for step in run.steps)
    (write,) = run.memory_writes
    assert (write.owner_type, write.owner_id, write.importance, write.metadata) == ("user", "u1", 4, {"cup": 1})


async def test_a_traced_function_shows_its_arguments(write_skill, executor: Executor) -> None:
    run = await executor.run(RunRequest(write_skill(PYTHON), {"x": 19}, context={"userId": "u1"}))
    later, double = run.steps[2:]
    assert (later.step_id, later.step_name, later.input, later.output) == ("last", "later", {"0": 19, "by": 2}, 21)
    assert (double.step_name, double.input, double.output) == ("double", 21, 42)


@pytest.mark.row("C-7")
@pytest.mark.parametrize("entry", SCRIPTS)
async def test_importance_is_one_to_five_whatever_the_protocol(write_skill, executor: Executor, entry: str) -> None:
    run = await executor.run(
        RunRequest(write_skill({entry: SCRIPTS[entry]}, protocol="abp"), {"x": 1}, context={"userId": "u1"})
    )
    assert [(write.importance, write.normalized_importance) for write in run.memory_writes] == [(0.8, 0.8)]


@pytest.mark.row("D-19")
@pytest.mark.parametrize("entry", SCRIPTS)
async def test_fail_ends_the_run_with_its_sentence_and_the_steps_so_far(write_skill, executor: Executor, entry: str) -> None:
    run = await executor.run(RunRequest(write_skill({entry: SCRIPTS[entry]}), {"x": 1, "fail": True}, context={"userId": "u1"}))
    assert run.error is not None
    assert (run.status, run.error.message, run.memory_writes, run.stderr) == ("error", "nothing to do", (), "")
    assert [step.step_name for step in run.steps] == ["validate"]


@pytest.mark.row("000-45")
@pytest.mark.parametrize(
    ("entry", "source"),
    [
        (
            "scripts/execute.py",
            "from skillyard_sdk import step\ndef execute(p):\n    with step('boom', input=1):\n        raise KeyError('gone')",
        ),
        (
            "scripts/execute.mjs",
            "import { step } from 'skillyard_sdk';\n"
            "export const execute = () => step('boom', () => { throw new RangeError('gone'); }, { input: 1 });",
        ),
    ],
)
async def test_a_step_that_an_error_ends_is_kept_with_the_error(
    write_skill, executor: Executor, entry: str, source: str
) -> None:
    run = await executor.run(RunRequest(write_skill({entry: source}), {}))
    (step,) = run.steps
    assert run.error is not None
    assert "gone" in run.error.message.splitlines()[0]
    assert (step.step_name, step.input) == ("boom", 1)
    assert isinstance(step.error, dict)
    assert "gone" in step.error["message"]


@pytest.mark.row("000-37")
@pytest.mark.parametrize(
    "returned",
    [
        "{'output': 'x', 'steps': [{'stepId': 'own'}], 'memory_writes': []}",
        "{'output': 'x', 'intermediateSteps': [{'stepId': 'own'}], 'message': 'm'}",
    ],
)
async def test_an_outcome_of_ones_own_keeps_its_fields_and_comes_first(write_skill, executor: Executor, returned: str) -> None:
    source = f"from skillyard_sdk import step\ndef execute(p):\n    with step('more', id='more'): pass\n    return {returned}"
    run = await executor.run(RunRequest(write_skill(source), {}))
    assert (run.output, [step.step_id for step in run.steps]) == ("x", ["own", "more"])


async def test_bytes_stay_bytes_beside_steps(write_skill, executor: Executor) -> None:
    source = "from skillyard_sdk import step\ndef execute(p):\n    with step('a'): return b'\\0'"
    run = await executor.run(RunRequest(write_skill(source), {}))
    assert (run.format, run.output, len(run.steps)) == ("binary", "AA==", 1)


async def test_require_and_import_collect_in_one_place(write_skill, executor: Executor) -> None:
    files = {
        "scripts/execute.mjs": "import { step } from 'skillyard_sdk'; import helper from './helper.cjs';\n"
        "export const execute = () => step('outer', () => helper());",
        "scripts/helper.cjs": "const { step } = require('skillyard_sdk'); module.exports = () => step('inner', () => 1);",
    }
    run = await executor.run(RunRequest(write_skill(files), {}))
    assert [step.step_name for step in run.steps] == ["outer", "inner"]


async def test_a_plain_script_can_fail_and_is_told_that_its_steps_are_lost(write_skill, executor: Executor) -> None:
    run = await executor.run(RunRequest(write_skill("from skillyard_sdk import fail\nfail('no execute here')"), {}))
    assert run.error is not None
    assert run.error.message == "no execute here"
    run = await executor.run(RunRequest(write_skill("from skillyard_sdk import remember\nremember('x')\nprint('[1]')"), {}))
    assert (run.output, run.memory_writes) == ([1], ())
    assert "only for a script that defines execute" in run.stderr


async def test_a_module_of_the_skill_with_the_same_name_is_its_own(write_skill, executor: Executor) -> None:
    files = {
        "scripts/execute.py": "import skillyard_sdk\ndef execute(p):\n    return skillyard_sdk.mine",
        "scripts/skillyard_sdk.py": "mine = 1",
    }
    assert (await executor.run(RunRequest(write_skill(files), {}))).output == 1


async def test_steps_of_tasks_that_run_together_are_each_their_own() -> None:
    before = len(sdk._steps)

    @sdk.step
    async def work(number: int) -> int:
        await asyncio.sleep(0.01 / number)
        return number

    assert await asyncio.gather(work(1), work(2), work(3)) == [1, 2, 3]
    assert [(item["input"], item["output"]) for item in sdk._steps[before:]] == [(1, 1), (2, 2), (3, 3)]
    del sdk._steps[before:]


def test_the_module_knows_the_fields_of_an_outcome() -> None:
    assert sdk._OUTCOME == run._FIELDS
    names = ("__init__.py", "index.cjs", "index.mjs", "package.json", "testing.cjs", "testing.mjs")
    assert set(sdk_files()) == {f"skillyard_sdk/{name}" for name in names}
