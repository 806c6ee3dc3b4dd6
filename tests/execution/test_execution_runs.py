"""Running skills from end to end, in the real sandbox."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from skillyard.catalog import Configuration, Skill, SkillCatalog
from skillyard.document import Document, Security
from skillyard.errors import (
    FileMissing,
    InvalidPolicy,
    NotExecutable,
    PathRefused,
    PermissionDenied,
    SandboxUnavailable,
)
from skillyard.execution import Executor, RunRequest
from skillyard.sandbox import Policy

DECORATED = """
import functools
def plain(function):
    @functools.wraps(function)
    def inner(*values):
        return function(*values)
    return inner
@plain
def execute(parameters):
    return parameters["x"]
"""


@pytest.fixture
def executor() -> Executor:
    return Executor()


@pytest.mark.row("000-36", "D-1")
@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("def execute(parameters):\n    return parameters['x'] * 2", 42),
        ("async def execute(p, context, config):\n    return [p['x'], context['userId'], config['unit']]", [21, "u1", "C"]),
        ("def execute(parameters, *, context):\n    return context['userId']", "u1"),
        ("def execute(*values):\n    return len(values)", 3),
        ("def execute():\n    return 'nothing asked'", "nothing asked"),
        ("execute = lambda parameters: parameters", {"x": 21}),
        ("from helper import execute", {"helped": 21}),
        (DECORATED, 21),
        ("class Tool:\n    def run(self, p, context):\n        return context\nexecute = Tool().run", {"userId": "u1"}),
    ],
)  # fmt: skip
async def test_execute_is_called_with_what_it_takes(write_skill, executor: Executor, source: str, expected: object) -> None:
    helper = "def execute(parameters):\n    return {'helped': parameters['x']}\n"
    skill = write_skill({"scripts/execute.py": source, "scripts/helper.py": helper}, config={"unit": "C"})
    run = await executor.run(RunRequest(skill, {"x": 21}, context={"userId": "u1"}))
    assert (run.status, run.output, run.error) == ("ok", expected, None), run.stderr
    assert run.isolation == "bwrap"


@pytest.mark.row("000-37", "000-39")
@pytest.mark.parametrize(
    ("returned", "format_", "output"),
    [
        ("'text'", "text", "text"),
        ("None", "void", None),
        ("7", "primitive", 7),
        ("True", "primitive", True),
        ("[1, {'a': None}]", "object", [1, {"a": None}]),
        ("b'\\x00\\xff'", "binary", "AP8="),
        ("{'output': 'x', 'format': 'object', 'message': 'm', 'tokenUsage': {'total': 3}}", "object", "x"),
        ("{'data': {1, 2}}", "object", {"data": [1, 2]}),
        ("__import__('pathlib').Path('a/b')", "text", "a/b"),
        ("__import__('datetime').date(2020, 1, 2)", "text", "2020-01-02"),
    ],
)  # fmt: skip
async def test_what_execute_returns_is_the_output(
    write_skill,
    executor: Executor,
    returned: str,
    format_: str,
    output: object,
) -> None:
    run = await executor.run(RunRequest(write_skill(f"def execute(p):\n    return {returned}"), {}))
    assert (run.status, run.format, run.output) == ("ok", format_, output), run.stderr


@pytest.mark.row("D-19", "000-37")
async def test_a_skill_that_says_error_is_an_error(write_skill, executor: Executor) -> None:
    write = {"ownerType": "user", "ownerId": "u", "type": "fact", "importance": 3, "content": "c"}
    outcome = {"status": "error", "output": None, "message": "no such city", "memoryWrites": [write]}
    skill = write_skill(f"def execute(p):\n    return {outcome}")
    run = await executor.run(RunRequest(skill, {}))
    assert run.status == "error"
    assert run.error is not None
    assert (run.error.code, run.error.message) == ("SANDBOX_EXECUTION_ERROR", "no such city")
    assert run.memory_writes == ()


@pytest.mark.row("000-40")
@pytest.mark.parametrize(
    ("source", "status", "code"),
    [
        ("def execute(p):\n    raise ValueError('broken inside')", "error", "SANDBOX_EXECUTION_ERROR"),
        ("def execute(p)\n    return 1", "error", "COMPILATION_ERROR"),
        ("import a_package_nobody_has\ndef execute(p): return 1", "error", "DEPENDENCY_RESOLUTION_ERROR"),
        ("def execute(p):\n    while True: pass", "timeout", "RESOURCE_LIMIT_ERROR"),
        ("def execute(p):\n    keep = [bytearray(1 << 22) for _ in range(1000)]", "memory", "RESOURCE_LIMIT_ERROR"),
        ("def execute(p):\n    while True: print('x' * 10000)", "output_limit", "RESOURCE_LIMIT_ERROR"),
        ("import os\nos.write(3, b'NaN')", "result_invalid", "SANDBOX_EXECUTION_ERROR"),
        ("def execute(p):\n    return float('nan')", "error", "SANDBOX_EXECUTION_ERROR"),
        ("def execute(p):\n    return object()", "error", "SANDBOX_EXECUTION_ERROR"),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)", "killed", "SANDBOX_EXECUTION_ERROR"),
    ],
)  # fmt: skip
async def test_each_failure_has_its_status_and_code(
    write_skill, executor: Executor, source: str, status: str, code: str
) -> None:
    skill = write_skill(source, security={"timeout_ms": 1500 if status == "timeout" else 60_000, "memory_mb": 64})
    run = await executor.run(RunRequest(skill, {}))
    assert run.status == status, run
    assert run.error is not None
    assert run.error.code == code
    assert "runner.py" not in run.stderr


async def test_an_error_ends_with_what_the_skill_wrote(write_skill, executor: Executor) -> None:
    run = await executor.run(RunRequest(write_skill("def execute(p):\n    raise ValueError('the city is empty')"), {}))
    assert run.error is not None
    assert "exit code 1" in run.error.message
    assert "ValueError: the city is empty" in run.error.message
    assert "scripts/execute.py" in run.error.message


@pytest.mark.row("000-40", "000-37")
async def test_parameters_that_do_not_fit_start_nothing(write_skill, executor: Executor) -> None:
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False}
    skill = write_skill("raise SystemExit('it was started')", input_schema=schema)
    for parameters in ({}, {"city": 7}, {"city": "Oslo", "more": 1}):
        run = await executor.run(RunRequest(skill, parameters))
        assert (run.status, run.isolation, run.limits) == ("error", "none", ())
        assert run.error is not None
        assert run.error.code == "VALIDATION_FAILED"
    assert "city" in run.error.message or "more" in run.error.message


async def test_defaults_of_the_schema_are_filled_in(write_skill, executor: Executor) -> None:
    schema = {"type": "object", "properties": {"top": {"type": "integer", "default": 5}, "name": {"type": "string"}}}
    skill = write_skill("def execute(p):\n    return p", input_schema=schema)
    assert (await executor.run(RunRequest(skill, {"name": "n"}))).output == {"top": 5, "name": "n"}
    assert (await executor.run(RunRequest(skill, {"top": 1}))).output == {"top": 1}


@pytest.mark.row("000-37")
async def test_output_that_does_not_fit_is_a_warning(write_skill, executor: Executor) -> None:
    skill = write_skill("def execute(p):\n    return {'n': 'x'}", output_schema={"properties": {"n": {"type": "integer"}}})
    run = await executor.run(RunRequest(skill, {}))
    assert run.status == "ok"
    assert any("output_schema" in warning for warning in run.warnings)


async def test_a_schema_that_is_none_or_refers_elsewhere_is_a_warning(write_skill, executor: Executor) -> None:
    for schema in ({"type": "no-such-type"}, {"$ref": "http://127.0.0.1:9/schema.json"}, {"pattern": "(((", "type": "string"}):
        run = await executor.run(RunRequest(write_skill("def execute(p):\n    return 1", input_schema=schema), {}))
        assert run.status == "ok"
        assert any("input_schema" in warning for warning in run.warnings), schema


@pytest.mark.row("003-11", "C-28")
@pytest.mark.parametrize(
    ("name", "source", "output"),
    [
        ("main.py", "import json, sys\nprint(json.dumps({'got': json.load(sys.stdin)['input']}))", {"got": {"a": 1}}),
        ("main.py", "print('just text')", "just text"),
        ("main.py", "print(42)", 42),
        ("main.py", "import os\nos.write(int(os.environ['SKILL_RESULT_FD']), b'[\"pipe\"]')\nprint('a log')", ["pipe"]),
        ("main.py", "if __name__ == '__main__':\n    print('as main')", "as main"),
        ("main.py", "print('left')\nexit() if 'x' else quit()", "left"),
        ("main.sh", "echo '{\"output\": '$(cat | wc -c)', \"status\": \"success\"}' >&3", 34),
        ("run.bash", "echo hello; echo problem >&2", "hello"),
    ],
)  # fmt: skip
async def test_plain_scripts_read_json_and_answer_by_pipe_or_output(
    write_skill,
    executor: Executor,
    name: str,
    source: str,
    output: object,
) -> None:
    run = await executor.run(RunRequest(write_skill({f"scripts/{name}": source}), {"a": 1}, context={}))
    assert run.status == "ok", run.stderr
    assert run.output == output


async def test_installed_packages_of_the_interpreter_are_found_when_asked_for(write_skill, executor: Executor) -> None:
    source = """
    import sys, importlib.util
    def execute(p):
        before = [path for path in sys.path if "packages" in path]
        importlib.util.find_spec("a_package_nobody_has")
        return [before, any("packages" in path for path in sys.path)]
    """
    run = await executor.run(RunRequest(write_skill(source), {}))
    assert run.output == [[], True], run.stderr


@pytest.mark.row("000-45", "000-41", "C-7")
async def test_steps_and_memory_writes_come_back_with_the_run(write_skill, executor: Executor) -> None:
    source = """
    def execute(parameters, context):
        return {
            "output": "done",
            "memoryWrites": [
                {"ownerType": "user", "ownerId": context["userId"], "type": "fact", "importance": 4, "content": "likes tea"},
                {"ownerType": "user", "ownerId": "someone else", "type": "fact", "importance": 4, "content": "steals"},
                {"ownerType": "user", "ownerId": context["userId"], "type": "fact", "importance": 9, "content": "too much"},
            ],
            "intermediateSteps": [{"stepId": "s1", "stepName": "read", "input": 1, "output": 2, "duration": 3.5}],
            "warnings": ["careful"],
        }
    """
    run = await executor.run(RunRequest(write_skill(source), {}, context={"userId": "u1"}))
    shape = run.to_dict()
    assert shape["steps"] == [{"stepId": "s1", "stepName": "read", "input": 1, "output": 2, "duration": 3.5}]
    (write,) = shape["memory_writes"]
    assert (write["content"], write["importance"], write["normalizedImportance"]) == ("likes tea", 4, 0.8)
    assert len([warning for warning in run.warnings if "memoryWrites" in warning]) == 2
    assert "careful" in run.warnings


async def test_the_shape_of_a_run_is_plain_json(write_skill, executor: Executor) -> None:
    run = await executor.run(RunRequest(write_skill("def execute(p):\n    return 1"), {}))
    shape = json.loads(json.dumps(run.to_dict()))
    assert list(shape) == [
        "run_id", "status", "output", "error", "steps", "memory_writes", "limits", "isolation", "warnings", "duration_ms",
        "format",
        "message", "token_usage", "interpreter", "contacts", "cache_hit", "files", "exit_code", "memory_usage", "ran_as",
    ]  # fmt: skip
    assert {"name", "value", "enforced", "by"} == set(shape["limits"][0])
    later = await executor.run(RunRequest(write_skill("def execute(p):\n    return 1"), {}))
    assert later.run_id > run.run_id


@pytest.mark.row("000-20")
async def test_a_skills_own_policy_holds_and_the_operators_ceiling_wins(write_skill) -> None:
    skill = write_skill(
        "import os\ndef execute(p):\n    return [os.environ['UNIT'], os.getcwd()]",
        security={"timeout_ms": 60_000, "memory_mb": 128, "filesystem": "read-write", "environment": {"UNIT": "celsius"}},
    )
    run = await Executor(ceiling=Policy.ceiling({"timeout-ms": 2_000})).run(RunRequest(skill, {}))
    limits = {limit.name: limit.value for limit in run.limits}
    assert (limits["timeout_ms"], limits["memory_mb"], limits["filesystem"]) == (2_000, 128, "read-write")
    assert run.output == ["celsius", "/workspace"]
    assert any("60000" in warning for warning in run.warnings)
    strict = await Executor(ceiling=Policy.ceiling({"filesystem": "none"})).run(RunRequest(skill, {}))
    assert strict.output == ["celsius", "/skill"]


async def test_an_impossible_policy_and_an_unmet_one_are_refused(write_skill, executor: Executor) -> None:
    with pytest.raises(InvalidPolicy):
        await executor.run(RunRequest(write_skill("x = 1", security={"timeout_ms": -1}), {}))
    network = {"network": "allowlist", "network_allowlist": ["api.example.com"]}
    with pytest.raises(SandboxUnavailable) as caught:
        await Executor(backend="landlock").run(RunRequest(write_skill("x = 1", security=network), {}))
    assert caught.value.details["unmet"]
    denied = Executor(ceiling=Policy.ceiling({"network": "none"}))
    run = await denied.run(RunRequest(write_skill("def execute(p):\n    return 1", security=network), {}))
    assert run.status == "ok"
    assert any("network" in warning for warning in run.warnings)


@pytest.mark.row("003-11", "D-13")
async def test_another_script_of_the_skill_can_be_named_and_nothing_else(write_skill, executor: Executor) -> None:
    skill = write_skill(
        {
            "scripts/execute.py": "print('default')",
            "scripts/other.py": "print('other')",
            "sub/scripts/a.sh": "echo tool",
            "b.sh": "",
        }
    )
    assert (await executor.run(RunRequest(skill, {}, entry="scripts/other.py"))).output == "other"
    assert (await executor.run(RunRequest(skill, {}, entry="./sub/scripts/a.sh"))).output == "tool"
    assert (await executor.run(RunRequest(skill, {}))).output == "default"
    for path in ("../x.py", "/etc/passwd", "scripts/../../x.py", "~/x.py"):
        with pytest.raises(PathRefused):
            await executor.run(RunRequest(skill, {}, entry=path))
    with pytest.raises(NotExecutable, match=r"b\.sh is not in scripts/"):
        await executor.run(RunRequest(skill, {}, entry="b.sh"))
    with pytest.raises(FileMissing) as caught:
        await executor.run(RunRequest(skill, {}, entry="scripts/othr.py"))
    assert "scripts/other.py" in caught.value.details["candidates"]
    with pytest.raises(NotExecutable):
        await executor.run(RunRequest(write_skill({"SKILL.md": "x"}), {}, entry="SKILL.md"))


@pytest.mark.row("000-20")
async def test_what_requires_files_does_not_start_where_the_operator_allows_none(write_skill) -> None:
    skill = write_skill("print('ran')", security=Security(requires_filesystem=True))
    run = await Executor(ceiling=Policy.ceiling({"filesystem": "none"})).run(RunRequest(skill, {}))
    assert (run.status, run.error and run.error.code) == ("denied", "SECURITY_VALIDATION_ERROR")
    assert run.error is not None
    assert "requires_filesystem" in run.error.message


@pytest.mark.parametrize("kind", ["direct", "preprocessor", "internal"])
async def test_kinds_with_code_run_it(write_skill, executor: Executor, kind: str) -> None:
    skill = write_skill("def execute(p):\n    return 'ran'", kind=kind)
    assert executor.can_run(skill)
    assert (await executor.run(RunRequest(skill, {}))).output == "ran"


async def test_parameters_that_are_no_json_are_refused(write_skill, executor: Executor) -> None:
    skill = write_skill("x = 1")
    for value in (float("nan"), object(), "\ud800"):
        run = await executor.run(RunRequest(skill, {"value": value}))
        assert run.error is not None
        assert run.error.code == "VALIDATION_FAILED"


async def test_an_approved_skill_runs_only_as_it_was_approved(write_skill, executor: Executor) -> None:
    from skillyard.packages.digest import tree_digest

    skill = write_skill({"scripts/execute.py": "print('good')", "SKILL.md": "x", ".hidden": "h"})
    approved = tree_digest(skill.directory)
    assert (await executor.run(RunRequest(skill, {}, digest=approved))).output == "good"
    changed = write_skill({"scripts/execute.py": "print('bad')"})
    with pytest.raises(PermissionDenied):
        await executor.run(RunRequest(changed, {}, digest=approved))


def test_an_executor_follows_the_operators_settings() -> None:
    operator = Configuration(sandbox={"timeout-ms": 5_000, "backend": "landlock"})
    executor = Executor.from_configuration(operator, timeout_ms=9_000)
    assert (executor._ceiling.timeout_ms, executor._backend) == (5_000, "landlock")
    assert Executor.from_configuration(Configuration(), timeout_ms=100)._ceiling.timeout_ms == 100
    with pytest.raises(InvalidPolicy):
        Executor.from_configuration(Configuration(sandbox={"timeout-ms": "long"}))


def test_a_project_lowers_the_ceiling_and_never_raises_it() -> None:
    project = {"memory-mb": 40_000, "timeout-ms": 600_000, "pids": 8}
    ceiling = Executor.from_configuration(Configuration(project_sandbox=project))._ceiling
    assert (ceiling.memory_mb, ceiling.timeout_ms, ceiling.pids) == (256, 30_000, 8)


async def test_a_skill_whose_policy_is_read_from_another_moment_does_not_run(
    skills_root: Path, make_skill, executor: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    header = "name: swapped\ndescription: Swapped.\nsecurity: {timeout_ms: 1000}"
    folder = make_skill(skills_root, "swapped", front_matter=header, files={"scripts/execute.py": "print('good')"})
    skill = SkillCatalog.discover(roots=[skills_root], cache=False).get("swapped")
    approved, good = skill.digest(), (folder / "SKILL.md").read_bytes()
    (folder / "SKILL.md").write_bytes(good.replace(b"1000", b"9000"))
    read = Skill.document

    def swap_back(self: Skill, *, copy: str | None = None) -> Document:
        document = read(self, copy=copy)
        (folder / "SKILL.md").write_bytes(good)
        return document

    monkeypatch.setattr(Skill, "document", swap_back)
    with pytest.raises(PermissionDenied):
        await executor.run(RunRequest(skill, {}, digest=approved))
    assert (await executor.run(RunRequest(skill, {}, digest=approved))).output == "good"


async def test_the_named_backend_is_the_one_used(write_skill) -> None:
    skill = write_skill("def execute(p):\n    return 1")
    assert (await Executor(backend="landlock").run(RunRequest(skill, {}))).isolation == "landlock"
