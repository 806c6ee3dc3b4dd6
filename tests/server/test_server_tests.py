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


PROMPTS = [
    {"query": "add one to a number", "should_trigger": True},
    {"query": "xylophone lessons nearby", "should_trigger": True},
    {"query": "what is the weather", "should_trigger": False},
]


def test_prompts_of_a_skill_are_tried_and_each_says_what_was_found(client: TestClient, home: Path, make_skill: Any) -> None:
    files = {"evals/triggers.json": json.dumps(PROMPTS), "evals/broken.json": "[{", "evals/deep/no.json": "[]"}
    make_skill(home / "project/.claude/skills", "adder", front_matter=HEADER, files=files)
    make_skill(home / "project/.claude/skills", "other", description="Does something else with lessons.")
    client.post("/api/v1/catalog/refresh")
    begun = client.post("/api/v1/runs/triggers", json={"skill": "adder"})
    assert begun.status_code == 202, begun.text
    run = _ended(client, begun.json()["data"]["run_id"])
    assert (run["state"], run["error"]["message"], run["interface"], run["version"]) == (
        "failed",
        "1 of 3 failed",
        "eval",
        "1.2.0",
    )
    hit, miss, quiet = run["steps"]
    assert (hit["stepName"], hit["error"], hit["output"]["rank"]) == ("add one to a number", None, 1)
    assert hit["output"]["found"][0]["name"] == "adder"
    assert (miss["output"]["passed"], miss["error"]) == (False, "adder is not among the first 10")
    assert (quiet["error"], quiet["output"]["expected"]) == (None, False)
    assert (run["output"]["hits"]["1"], run["output"]["misses"]) == (0.5, ["xylophone lessons nearby"])
    assert run["output"]["suggestions"] == []  # three prompts are too few for one
    assert len(run["warnings"]) == 1
    assert "evals/broken.json cannot be read" in run["warnings"][0]
    assert client.get("/api/v1/runs?tests=false&skill=adder").json()["meta"]["total"] == 0
    assert client.get("/api/v1/insights?by=interface").json()["data"]["rows"] == []


def test_a_better_description_is_proposed_for_prompts_that_do_not_find_the_skill(
    client: TestClient, home: Path, make_skill: Any
) -> None:
    words = ("ledger", "invoice", "ledger invoice", "my ledger", "an invoice", "the ledger")
    files = {
        "evals/triggers.json": json.dumps([{"query": f"reconcile {text} of march", "should_trigger": True} for text in words])
    }
    make_skill(home / "project/.claude/skills", "adder", front_matter=HEADER, files=files)
    make_skill(home / "project/.claude/skills", "balance", description="Keeps the balance of totals.")
    client.post("/api/v1/catalog/refresh")
    run = _ended(client, client.post("/api/v1/runs/triggers", json={"skill": "adder"}).json()["data"]["run_id"])
    (change,) = run["output"]["suggestions"]
    assert change["description"].startswith("Adds one. Use when a test adds. Also for:")
    assert "ledger" in change["added"]
    assert change["after"] > change["before"]


def test_a_skill_without_prompts_says_so(client: TestClient, tested: Callable[[list[Any]], str]) -> None:
    run = _ended(client, client.post("/api/v1/runs/triggers", json={"skill": tested([])}).json()["data"]["run_id"])
    assert run["error"]["message"] == "there is nothing to test"
    assert client.post("/api/v1/runs/triggers", json={"skill": "nosuch"}).status_code == 404
