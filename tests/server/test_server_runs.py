"""Runs that go on after their request: followed as events, ended, asked about, and never started twice."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

RUNS = "/api/v1/runs"
Script = Callable[..., Path]
ADD = "def execute(parameters):\n    return {'output': parameters['a'] + parameters['b']}\n"
STEPS = """
import skillyard_sdk as sdk
def execute(parameters):
    print("begun", flush=True)
    with sdk.step("one") as current:
        current.output = 1
    with sdk.step("two"):
        pass
    return {"output": 2}
"""


def _events(client: httpx.Client, run_id: str, **headers: str) -> Iterator[tuple[str, str, Any]]:
    """The id, name and data of each event, as it comes."""
    with client.stream("GET", f"{RUNS}/{run_id}/events", headers=headers) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        found: dict[str, str] = {}
        for line in answer.iter_lines():
            name, _, value = line.partition(": ")
            if line:
                found[name] = value
            elif "data" in found:
                yield found["id"], found["event"], json.loads(found["data"])
                found = {}


def _begin(client: Any, skill: str = "adder", **more: Any) -> Any:
    client.post("/api/v1/catalog/refresh")
    answer = client.post(RUNS, json={"skill": skill, "wait": False, **more})
    assert answer.status_code == 202, answer.text
    return answer.json()["data"]


def test_a_run_goes_on_after_its_request_and_is_reported_as_it_goes(live: httpx.Client, script: Script) -> None:
    """It prints, and only ends when it has been heard: were the lines reported at the end, this would never return."""
    script("import time\nprint('begun', flush=True)\nfor _ in range(600):\n    time.sleep(0.05)\n")
    run = _begin(live)
    assert run["state"] in ("queued", "running")
    seen = []
    for _, name, data in _events(live, run["run_id"]):
        seen.append((name, data.get("state") or data.get("text")))
        if name == "log":
            assert live.post(f"{RUNS}/{run['run_id']}/cancel").json()["data"]["state"] == "cancelled"
    assert seen[-3:] == [("log", "begun\n"), ("state", "cancelled"), ("end", None)]


@pytest.mark.row("000-45")
def test_the_events_of_a_run_are_its_states_lines_steps_and_its_end(live: httpx.Client, script: Script) -> None:
    script(STEPS)
    run = _begin(live, parameters={"x": 1})
    reported = list(_events(live, run["run_id"]))
    names = [name for _, name, _ in reported]
    assert sorted(names[-5:-2]) == ["log", "step", "step"]  # on two pipes
    assert names[-2:] == ["state", "end"]
    assert [data["step"]["stepName"] for _, name, data in reported if name == "step"] == ["one", "two"]
    end = reported[-1][2]["run"]
    assert (end["state"], end["output"], end["stdout"]) == ("succeeded", 2, "begun\n")
    assert live.get(f"{RUNS}/{run['run_id']}").json()["data"] == end


def _by_kind(events: list[tuple[str, str, Any]]) -> tuple[str, list[Any], list[Any]]:
    """What the events report of each kind: text, steps, end. Text and steps come on two pipes, so which is first is open."""
    text = "".join(data["text"] for _, name, data in events if name == "log")
    return text, *([data for _, name, data in events if name == kind] for kind in ("step", "end"))


def test_who_comes_back_is_told_the_rest_and_nothing_twice(live: httpx.Client, script: Script) -> None:
    script(STEPS)
    run = _begin(live)
    whole = list(_events(live, run["run_id"]))
    assert [(name, data.get("state")) for _, name, data in whole[-2:]] == [("state", "succeeded"), ("end", None)]
    for at, (event_id, _, _) in enumerate(whole[:-1]):
        rest = list(_events(live, run["run_id"], **{"Last-Event-ID": event_id}))
        assert _by_kind(rest) == _by_kind(whole[at + 1 :])
        assert [name for _, name, _ in rest[-2:]] == [name for _, name, _ in whole[at + 1 :][-2:]]
    assert [name for _, name, _ in _events(live, run["run_id"], **{"Last-Event-ID": "rubbish"})][-1] == "end"


def test_what_a_run_did_is_reported_before_how_it_ended(live: httpx.Client, script: Script) -> None:
    """Whoever looks when it is over is told in the order of whoever followed it."""
    script(STEPS)
    live.post("/api/v1/catalog/refresh")
    run = live.post(RUNS, json={"skill": "adder"}).json()["data"]
    reported = list(_events(live, run["run_id"]))
    assert [name for _, name, _ in reported] == ["log", "step", "step", "state", "end"]
    assert [event_id for event_id, _, _ in reported] == ["0.6.0.0", "0.6.0.1", "0.6.0.2", "3.6.0.2", "3.6.0.2"]


def test_a_run_that_has_ended_is_not_cancelled_any_more(client: TestClient, script: Script) -> None:
    script(ADD)
    client.post("/api/v1/catalog/refresh")
    run = client.post(RUNS, json={"skill": "adder", "parameters": {"a": 1, "b": 2}}).json()["data"]
    assert client.post(f"{RUNS}/{run['run_id']}/cancel").json()["data"]["state"] == "succeeded"
    assert client.post(f"{RUNS}/run_nothing_such/cancel").status_code == 404


def test_the_same_key_and_request_is_one_run(client: TestClient, script: Script) -> None:
    script(ADD)
    client.post("/api/v1/catalog/refresh")
    order = {"skill": "adder", "parameters": {"a": 1, "b": 2}}
    key = {"Idempotency-Key": "k1"}
    first = client.post(RUNS, json=order, headers=key)
    again = client.post(RUNS, json=order, headers=key)
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.json() == again.json()
    assert again.headers["idempotency-replayed"] == "true"
    assert client.get(RUNS).json()["meta"]["total"] == 1
    other = client.post(RUNS, json={**order, "parameters": {"a": 2, "b": 2}}, headers=key)
    assert (other.status_code, other.json()["code"]) == (409, "record_exists")
    assert client.post(RUNS, json=order, headers={"Idempotency-Key": "k2"}).json()["data"]["output"] == 3
    assert client.get(RUNS).json()["meta"]["total"] == 2


def test_runs_are_listed_by_skill_state_and_time_in_pages(client: TestClient, script: Script) -> None:
    script(ADD)
    script("raise SystemExit(3)\n", name="failing")
    client.post("/api/v1/catalog/refresh")
    for a in range(3):
        client.post(RUNS, json={"skill": "adder", "parameters": {"a": a, "b": 0}})
    client.post(RUNS, json={"skill": "failing"})
    listed = client.get(RUNS, params={"limit": 3, "page": 2}).json()
    assert listed["meta"] == {"total": 4, "page": 2, "limit": 3, "totalPages": 2, "runs": 4}
    assert len(listed["data"]) == 1
    assert [one["skill_name"] for one in client.get(RUNS, params={"state": "failed"}).json()["data"]] == ["failing"]
    assert client.get(RUNS, params={"status": "error"}).json()["meta"]["total"] == 1
    assert client.get(RUNS, params={"skill": "adder"}).json()["meta"]["total"] == 3
    newest = client.get(RUNS).json()["data"][0]["created_at"]
    assert client.get(RUNS, params={"since": newest}).json()["meta"]["total"] == 1
    assert client.get(RUNS, params={"since": "yesterday"}).status_code == 400
    assert client.get(RUNS, params={"until": newest}).json()["meta"]["total"] == 3
    assert client.get(RUNS, params={"interface": "http", "caller": "default/local user"}).json()["meta"]["total"] == 4
    assert client.get(RUNS, params={"interface": "cli"}).json()["meta"]["total"] == 0
    version = client.get(RUNS).json()["data"][0]["version"]
    assert client.get(RUNS, params={"version": version or "1.0"}).json()["meta"]["total"] == (4 if version else 0)
    assert client.get(RUNS, params={"version": "9.9"}).json()["meta"]["total"] == 0


def test_runs_are_counted_by_day_and_those_of_a_schedule_folded(client: TestClient, script: Script) -> None:
    script(ADD)
    client.post("/api/v1/catalog/refresh")
    client.post(RUNS, json={"skill": "adder", "parameters": {"a": 1, "b": 0}})
    schedule = {"name": "sums", "skill": "adder", "parameters": {"a": "one", "b": 0}, "cron": "0 8 1 1 *"}
    client.post("/api/v1/schedules", json=schedule)
    for _ in range(2):
        begun = client.post("/api/v1/schedules/sums/run").json()["data"]["run_id"]
        with client.stream("GET", f"{RUNS}/{begun}/events") as reported:
            assert "end" in reported.read().decode()
    folded = client.get(RUNS, params={"fold": "true"}).json()
    assert (folded["meta"]["total"], folded["meta"]["runs"]) == (2, 3)
    assert [(one["schedule"], one["runs"], one["failures"]) for one in folded["data"]] == [("sums", 2, 2), (None, 1, 0)]
    assert [one["failures"] for one in client.get(RUNS).json()["data"]] == [None, None, None]

    counts = client.get(f"{RUNS}/counts").json()["data"]
    assert (counts["period"], len(counts["periods"])) == ("day", 14)
    today = {"succeeded": 1, "failed": 2, "interrupted": 0, "cancelled": 0, "open": 0}
    assert counts["periods"][-1] == {"day": counts["until"], **today}
    of_schedule = client.get(f"{RUNS}/counts", params={"schedule": "sums", "since": f"{counts['until']}T00:00:00Z"})
    assert [one["failed"] for one in of_schedule.json()["data"]["periods"]] == [2]
    year = client.get(f"{RUNS}/counts", params={"since": "1999-01-01T00:00:00Z", "until": "2026-03-01T00:00:00Z"}).json()[
        "data"
    ]
    assert (year["period"], len(year["periods"]), year["until"]) == ("week", 53, "2026-02-28")


def test_insights_add_up_what_ran(client: TestClient, script: Script) -> None:
    script(ADD)
    client.post("/api/v1/catalog/refresh")
    for a in (1, "one"):
        client.post(RUNS, json={"skill": "adder", "parameters": {"a": a, "b": 0}})
    report = client.get("/api/v1/insights", params={"by": "caller", "period": "all"}).json()["data"]
    assert (report["by"], report["complete"], [row["key"] for row in report["rows"]]) == (
        "caller",
        True,
        ["default/local user"],
    )
    figures = report["rows"][0]["figures"]
    assert (figures["runs"], figures["runs_failed"]) == (2, 1)
    assert figures["p50_ms"] > 0
    wrong = client.get("/api/v1/insights", params={"since": "2026-01-02", "until": "2026-01-01"})
    assert (wrong.status_code, wrong.json()["code"]) == (400, "invalid_input")


def test_only_an_administrator_sees_who_asked(keyed: Any) -> None:
    with keyed.client("skills:read") as reader:
        assert reader.get("/api/v1/insights").status_code == 200
        refused = reader.get("/api/v1/insights", params={"by": "caller"})
    assert (refused.status_code, refused.json()["code"]) == (403, "permission_denied")


@pytest.fixture
def asking(home: Path) -> None:
    """A project whose rule wants to be asked about every skill."""
    (home / "project/skillyard.toml").write_text('[permissions.skills]\n"*" = "ask"\n', "utf-8")


@pytest.fixture
def app(request: pytest.FixtureRequest, home: Path) -> FastAPI:
    """As everywhere, with the rule of the project when the test wants one."""
    from skillyard import Catalog
    from skillyard.registry import Registry
    from skillyard.server import create_app

    if "asking" in request.fixturenames:
        request.getfixturevalue("asking")
    catalog = Catalog.discover(cwd=home / "project", home=home)
    return create_app(catalog, Registry.of(catalog))


def _question(live: httpx.Client, run_id: str) -> str:
    reported = next(data for _, name, data in _events(live, run_id) if name == "asked")
    (question,) = live.get("/api/v1/approvals/questions").json()["data"]
    assert (question["id"], question["run_id"], question["skill_name"]) == (reported["question"], run_id, "adder")
    return str(question["id"])


def test_a_run_waits_for_the_answer_of_a_person_and_goes_on(asking: None, live: httpx.Client, script: Script) -> None:
    script(ADD)
    run = _begin(live, parameters={"a": 1, "b": 2})
    answer = live.post(f"/api/v1/approvals/questions/{_question(live, run['run_id'])}", json={"decision": "workspace"})
    assert answer.status_code == 200, answer.text
    *_, (_, _, end) = _events(live, run["run_id"])
    assert (end["run"]["state"], end["run"]["output"]) == ("succeeded", 3)
    (approval,) = live.get("/api/v1/approvals").json()["data"]
    assert approval["skill_id"] == "project:adder"
    assert live.post(RUNS, json={"skill": "adder", "parameters": {"a": 2, "b": 2}}).json()["data"]["output"] == 4
    assert live.delete("/api/v1/approvals", params={"skill": "project:adder"}).status_code == 200
    assert live.delete("/api/v1/approvals", params={"skill": "project:adder"}).status_code == 404
    assert live.post(RUNS, json={"skill": "adder"}).json()["code"] == "approval_rejected"


def test_no_is_the_end_of_the_run_and_an_answer_counts_once(asking: None, live: httpx.Client, script: Script) -> None:
    script(ADD)
    run = _begin(live)
    url = f"/api/v1/approvals/questions/{_question(live, run['run_id'])}"
    assert live.post(url, json={"decision": "reject", "reason": "not today"}).status_code == 200
    *_, (_, _, end) = _events(live, run["run_id"])
    assert (end["run"]["state"], end["run"]["error"]["code"]) == ("failed", "approval_rejected")
    assert "not today" in end["run"]["error"]["message"]
    assert live.post(url, json={"decision": "once"}).status_code == 404


def test_a_cancelled_run_takes_its_question_back(asking: None, live: httpx.Client, script: Script) -> None:
    script(ADD)
    run = _begin(live)
    _question(live, run["run_id"])
    assert live.post(f"{RUNS}/{run['run_id']}/cancel").json()["data"]["state"] == "cancelled"
    assert live.get("/api/v1/approvals/questions").json()["data"] == []


@pytest.mark.both_databases
async def test_a_question_that_nobody_answers_is_answered_with_no(tmp_path: Path, database_address: str) -> None:
    from skillyard.database import Database
    from skillyard.permissions import ApprovalRequest
    from skillyard.server.background.approval_questions import ApprovalQuestions

    database = Database.open(str(tmp_path), database_address)
    questions = ApprovalQuestions(lambda: database, patience_s=0.01)
    answer = await questions.asker("somebody").ask(ApprovalRequest("user:a", "a", "sha256:0", "s"))
    assert (answer.decision, questions.open()) == ("reject", ())
