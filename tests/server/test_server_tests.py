"""Tests of a skill over HTTP: begun, followed, kept by version, cancelled."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

SCRIPT = "def execute(parameters):\n    return {'output': parameters['n'] + 1}\n"
HEADER = "name: adder\ndescription: Adds one. Use when a test adds.\nversion: 1.2.0"
EXAMPLES = [{"name": "two", "input": {"n": 1}, "output": 2}, {"name": "wrong", "input": {"n": 1}, "output": 5}]


def _ended(client: TestClient, run_id: str) -> dict[str, Any]:
    deadline = time.monotonic() + 30
    while (run := client.get(f"/api/v1/runs/{run_id}").json()["data"])["state"] in ("queued", "running"):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return dict(run)


@pytest.fixture
def tested(client: TestClient, home: Path, make_skill: Any) -> Callable[[list[Any]], str]:
    """Makes a skill with these examples."""

    def make(examples: list[Any]) -> str:
        files = {"scripts/execute.py": SCRIPT, "tests/examples.json": json.dumps(examples)}
        make_skill(home / "project/.claude/skills", "adder", front_matter=HEADER, files=files)
        client.post("/api/v1/catalog/refresh")
        return "adder"

    return make


def test_a_skill_is_tested_and_each_case_says_what_was_given_expected_and_got(
    client: TestClient, tested: Callable[[list[Any]], str]
) -> None:
    begun = client.post("/api/v1/runs/tests", json={"skill": tested(EXAMPLES)})
    assert begun.status_code == 202, begun.text
    run = _ended(client, begun.json()["data"]["run_id"])
    assert (run["state"], run["error"]) == ("failed", {"code": "TESTS_FAILED", "message": "1 of 2 failed"})
    good, bad = run["output"]["trials"]
    assert (good["name"], good["passed"], bad["passed"]) == ("two", True, False)
    assert (bad["input"], bad["expected"], bad["got"]) == ({"n": 1}, 5, 2)
    assert [(step["stepName"], step["error"]) for step in run["steps"]] == [("two", None), ("wrong", bad["message"])]
    (listed,) = client.get("/api/v1/runs?interface=test&skill=adder").json()["data"]
    assert (listed["version"], listed["interface"]) == ("1.2.0", "test")
    assert client.get("/api/v1/runs?tests=false&skill=adder").json()["meta"]["total"] == 0
    assert client.get("/api/v1/insights?by=skill").json()["data"]["rows"] == []  # a test is no use of a skill


def test_what_has_nothing_to_test_says_so(client: TestClient, tested: Callable[[list[Any]], str]) -> None:
    run = _ended(client, client.post("/api/v1/runs/tests", json={"skill": tested([])}).json()["data"]["run_id"])
    assert run["error"]["message"] == "there is nothing to test"


def test_tests_that_go_on_are_cancelled(client: TestClient, home: Path, make_skill: Any) -> None:
    files = {"scripts/execute.py": SCRIPT, "tests/slow.py": "import time\ntime.sleep(60)\n"}
    make_skill(home / "project/.claude/skills", "slow", files=files)
    client.post("/api/v1/catalog/refresh")
    run_id = client.post("/api/v1/runs/tests", json={"skill": "slow"}).json()["data"]["run_id"]
    assert client.post(f"/api/v1/runs/{run_id}/cancel").json()["data"]["state"] == "cancelled"
    assert _ended(client, run_id)["error"]["code"] == "CANCELLED"
