"""Which kind runs a skill, what stands in for one that is unavailable, and what never does."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from skillyard.errors import NotExecutable, PermissionDenied
from skillyard.execution import Executor, Run, RunError, RunRequest, execution_response
from skillyard.execution.kinds import fallback_kinds
from skillyard.packages import tree_digest
from skillyard.sandbox import Policy

SCRIPT = {"scripts/execute.py": "def execute(p):\n    return {'ran': p}\n"}


@pytest.mark.row("000-11")
@pytest.mark.parametrize(
    ("kind", "order"),
    [
        ("direct", ("direct",)),
        ("preprocessor", ("preprocessor",)),
        ("internal", ("internal",)),
        ("static", ("static", "direct")),
        ("service", ("service", "direct")),
        ("distributed", ("distributed", "service", "direct")),
        ("unheard-of", ("direct",)),
    ],
)
def test_each_kind_has_its_order_and_none_comes_twice(kind: str, order: tuple[str, ...]) -> None:
    assert fallback_kinds(kind) == order


@pytest.mark.row("D-17")
@pytest.mark.parametrize(
    ("kind", "config", "reason"),
    [
        ("service", {}, "no config.endpoint"),
        ("static", {}, "no config.dataPath"),
        ("distributed", {}, "no config.serverId"),
        ("distributed", {"serverId": "pool"}, "worker pool 'pool'"),
        ("distributed", {"serverId": "nowhere", "toolName": "t"}, "no server 'nowhere' is registered"),
    ],
)
async def test_a_script_stands_in_for_a_kind_that_is_not_set_up_and_the_run_says_so(
    write_skill: Any, kind: str, config: dict[str, Any], reason: str
) -> None:
    skill = write_skill(SCRIPT, kind=kind, config=config)
    assert Executor().can_run(skill)
    run = await Executor().run(RunRequest(skill, {"a": 1}))
    assert (run.status, run.output, run.kind) == ("ok", {"ran": {"a": 1}}, "direct")
    assert run.warnings[0].startswith(f"the kind {kind} is unavailable (")
    assert reason in run.warnings[0]
    assert run.warnings[0].endswith("direct was used in its place")


@pytest.mark.row("D-17")
async def test_a_host_that_nobody_answers_at_gives_way_for_nothing_was_sent(write_skill: Any) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        host = f"http://127.0.0.1:{free.getsockname()[1]}"
    security = {"network": "allowlist", "network_allowlist": [host]}
    ceiling = Policy.ceiling({"network-allowlist": [host], "private-networks": True})
    skill = write_skill(SCRIPT, kind="service", config={"endpoint": host}, security={"network": "none"} | security)
    policy_free = Executor(ceiling=ceiling)
    run = await policy_free.run(RunRequest(skill, {}))
    assert (run.output, run.kind) == ({"ran": {}}, "direct")
    assert "does not answer" in run.warnings[0]
    Path(skill.directory, "scripts/execute.py").unlink()
    run = await policy_free.run(RunRequest(skill, {}))
    assert (run.status, run.error and run.error.code) == ("unavailable", "kind_unavailable")


@pytest.mark.row("D-17")
async def test_a_script_that_fails_runs_once_whatever_its_kind(write_skill: Any, tmp_path: Path) -> None:
    source = "import sys\ndef execute():\n    print('ran', file=sys.stderr)\n    raise SystemExit(3)\n"
    for kind in ("direct", "preprocessor", "internal", "service", "distributed", "static"):
        run = await Executor().run(RunRequest(write_skill({"scripts/execute.py": source}, kind=kind), {}))
        assert (run.status, run.stderr.count("ran\n")) == ("error", 1)


@pytest.mark.row("000-11")
@pytest.mark.parametrize("kind", ["service", "distributed"])
async def test_a_kind_without_anything_to_stand_in_is_unavailable(write_skill: Any, kind: str) -> None:
    skill = write_skill({"SKILL.md": "x"}, kind=kind, config={"serverId": "workers"})
    run = await Executor().run(RunRequest(skill, {}))
    assert (run.status, run.kind) == ("unavailable", None)
    assert run.error is not None
    assert run.error.code == "kind_unavailable"
    assert not Executor().can_run(skill)
    strict = write_skill({"SKILL.md": "x"}, kind=kind, config={"serverId": "workers"}, input_schema={"required": ["city"]})
    assert (await Executor().run(RunRequest(strict, {}))).status == "unavailable"  # and no word of parameters it could not use
    if kind == "distributed":
        assert "through PostgreSQL" in run.error.message
        assert "as service: it has no config.endpoint" in run.error.message
    with pytest.raises(NotExecutable, match="dataPath"):
        await Executor().run(RunRequest(write_skill({"SKILL.md": "x"}, kind="static"), {}))


@pytest.mark.row("D-17", "D-21")
async def test_a_static_file_that_is_missing_or_outside_is_no_reason_to_run_a_script(write_skill: Any) -> None:
    for path in ("missing.json", "../other.json"):
        skill = write_skill(SCRIPT, kind="static", config={"dataPath": path})
        with pytest.raises(Exception, match="json"):
            await Executor().run(RunRequest(skill, {}))


async def test_only_the_approved_content_is_read_or_asked(write_skill: Any) -> None:
    static = write_skill({"data.json": "[1]"}, kind="static", config={"dataPath": "data.json"})
    digest = tree_digest(static.directory)
    assert (await Executor().run(RunRequest(static, {}, digest=digest))).output == [1]
    Path(static.directory, "data.json").write_text("[2]")
    for kind, config in (("static", {"dataPath": "data.json"}), ("service", {"endpoint": "https://example.com"})):
        with pytest.raises(PermissionDenied):
            await Executor().run(RunRequest(write_skill({"x": ""}, kind=kind, config=config), {}, digest=digest))


@pytest.mark.row("000-40")
async def test_credentials_of_the_caller_do_not_reach_a_skill(write_skill: Any) -> None:
    skill = write_skill("def execute(p, context):\n    return context\n")
    context = {"userId": "u", "api_key": "k", "nested": {"accessToken": "t", "city": "Oslo"}, "Password": "p", "x-secret": 1}
    run = await Executor().run(RunRequest(skill, {}, context=context))
    assert run.output == {"userId": "u", "nested": {"city": "Oslo"}}
    assert run.warnings == (
        "removed from the context, for they may be credentials: api_key, nested.accessToken, Password, x-secret",
    )


@pytest.mark.row("000-38", "000-39")
async def test_a_run_fits_into_the_one_envelope(write_skill: Any) -> None:
    source = "def execute(p):\n    return {'output': p['x'], 'tokenUsage': {'total': 3}, 'warnings': ['w']}\n"
    run = await Executor().run(RunRequest(write_skill(source, kind="preprocessor"), {"x": {"a": 1}}))
    found = execution_response(run)
    metadata = found.pop("metadata")
    assert found == {"success": True, "result": {"status": "success", "format": "object", "data": {"a": 1}}, "warnings": ["w"]}
    assert metadata.pop("executionTime") == run.duration_ms
    assert metadata.pop("timestamp") > 1_700_000_000_000  # type: ignore[operator] # milliseconds
    assert metadata.pop("memoryUsage") == run.memory_usage
    assert metadata == {
        "tokenUsage": {"total": 3}, "cacheHit": False, "executionType": "preprocessor",
    }  # fmt: skip


@pytest.mark.row("000-38", "000-39", "D-19")
def test_the_envelope_knows_text_nothing_and_failure() -> None:
    name = "run_0000000000000001aaaaaaaaaa"
    text = execution_response(Run(name, "x", "ok", output="said", format="text"))
    assert text["result"] == {"status": "success", "format": "text", "message": "said"}
    assert execution_response(Run(name, "x", "ok"))["result"] == {"status": "success", "format": "void"}
    failed = execution_response(Run(name, "x", "error", output={}, error=RunError("UNKNOWN_ERROR", "m"), cache_hit=True))
    assert (failed["success"], failed["error"]) == (False, {"code": "UNKNOWN_ERROR", "message": "m"})
    assert "result" not in failed
