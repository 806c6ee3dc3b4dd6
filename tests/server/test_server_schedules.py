"""Schedules over HTTP: made, listed, paused, removed; the server begins their runs, once."""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from skillyard import Catalog
from skillyard.access import Keys
from skillyard.registry import Registry
from skillyard.server import create_app

SCHEDULES = "/api/v1/schedules"
SCRIPT = "def execute(parameters):\n    return {'output': parameters['n']}\n"


@pytest.fixture
def reporter(client: TestClient, home: Path, make_skill: Any) -> str:
    """A skill that gives back what it is given."""
    make_skill(home / "project/.claude/skills", "reporter", files={"scripts/execute.py": SCRIPT})
    client.post("/api/v1/catalog/refresh")
    return "reporter"


def _soon(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()


def test_a_schedule_is_made_listed_paused_and_removed(client: TestClient, reporter: str) -> None:
    body = {"name": "nightly", "skill": reporter, "cron": "0 3 * * *", "time_zone": "Europe/Berlin", "missed": "skip"}
    made = client.post(SCHEDULES, json=body)
    assert made.status_code == 201, made.text
    assert made.json()["data"]["next_at"]
    assert client.post(SCHEDULES, json=body).status_code == 409
    assert [found["name"] for found in client.get(SCHEDULES).json()["data"]] == ["nightly"]
    assert client.post(f"{SCHEDULES}/nightly/pause").json()["data"]["paused"]
    assert not client.post(f"{SCHEDULES}/nightly/resume").json()["data"]["paused"]
    assert client.get(f"{SCHEDULES}/nightly").json()["data"]["missed"] == "skip"
    assert client.delete(f"{SCHEDULES}/nightly").status_code == 200
    assert client.get(f"{SCHEDULES}/nightly").status_code == 404


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"cron": "whenever"}, 400),
        ({"cron": None}, 400),
        ({"skill": "nothing"}, 404),
        ({"priority": 200}, 400),
        ({"at": "now"}, 400),
    ],
)
def test_a_schedule_that_cannot_be_meant_is_a_clear_problem(
    client: TestClient, reporter: str, change: dict[str, Any], status: int
) -> None:
    answer = client.post(SCHEDULES, json={"name": "a", "skill": reporter, "cron": "* * * * *"} | change)
    assert (answer.status_code, answer.json()["success"]) == (status, False)
    assert client.get(SCHEDULES).json()["data"] == []


def test_the_server_begins_what_has_come_due_once_and_the_run_says_whose_it_is(
    client: TestClient, reporter: str, app: FastAPI
) -> None:
    client.post(SCHEDULES, json={"name": "soon", "skill": reporter, "parameters": {"n": 5}, "at": _soon(1)})
    runs = _until(lambda: client.get("/api/v1/runs?schedule=soon&state=succeeded").json()["data"])
    assert [(run["schedule"], run["skill_name"]) for run in runs] == [("soon", "reporter")]
    run = client.get(f"/api/v1/runs/{runs[0]['run_id']}").json()["data"]
    assert (run["output"], run["context"]) == (5, {"userId": "default/local user"})
    kept = client.get(f"{SCHEDULES}/soon").json()["data"]
    assert (kept["next_at"], kept["last_run"]) == (None, run["run_id"])
    assert client.get("/api/v1/runs?schedule=other").json()["data"] == []


def test_a_schedule_says_who_made_it_and_how_its_last_run_ended(client: TestClient, reporter: str) -> None:
    made = client.post(SCHEDULES, json={"name": "soon", "skill": reporter, "parameters": {"n": 5}, "at": _soon(1)}).json()[
        "data"
    ]
    assert (made["made_by"], made["last_state"]) == ("local user", None)
    _until(lambda: client.get("/api/v1/runs?schedule=soon&state=succeeded").json()["data"])
    (listed,) = client.get(SCHEDULES).json()["data"]
    assert listed["last_state"] == "succeeded"
    assert client.get(f"{SCHEDULES}/soon").json()["data"] == listed


def test_a_schedule_is_changed_in_parts_and_its_secrets_stay(client: TestClient, reporter: str) -> None:
    made = {"name": "nightly", "skill": reporter, "cron": "0 3 * * *", "parameters": {"n": 1, "password": "hunter2"}}
    shown = client.post(SCHEDULES, json=made).json()["data"]
    change = {"cron": "0 4 * * *", "time_zone": "Asia/Shanghai", "paused": True, "parameters": shown["parameters"] | {"n": 2}}
    changed = client.patch(f"{SCHEDULES}/nightly", json=change)
    assert changed.status_code == 200, changed.text
    after = changed.json()["data"]
    assert (after["cron"], after["time_zone"], after["paused"], after["missed"]) == ("0 4 * * *", "Asia/Shanghai", True, "once")
    assert after["next_at"] != shown["next_at"]
    kept = Catalog.discover(cache=False).schedules().get("nightly")
    assert kept.parameters == {"n": 2, "password": "hunter2"}
    assert client.patch(f"{SCHEDULES}/nightly", json={"at": _soon(900)}).json()["data"]["cron"] is None
    assert client.patch(f"{SCHEDULES}/nightly", json={"cron": "whenever"}).status_code == 400
    assert client.patch(f"{SCHEDULES}/nightly", json={"version": "1.0"}).json()["code"] == "invalid_input"
    assert client.patch(f"{SCHEDULES}/other", json={"paused": True}).status_code == 404


def test_a_schedule_is_run_now_and_comes_due_as_before(client: TestClient, reporter: str) -> None:
    made = client.post(SCHEDULES, json={"name": "nightly", "skill": reporter, "cron": "0 3 * * *", "parameters": {"n": 7}})
    begun = client.post(f"{SCHEDULES}/nightly/run")
    assert begun.status_code == 202, begun.text
    runs = _until(lambda: client.get("/api/v1/runs?schedule=nightly&state=succeeded").json()["data"])
    assert [run["run_id"] for run in runs] == [begun.json()["data"]["run_id"]]
    after = client.get(f"{SCHEDULES}/nightly").json()["data"]
    assert (after["last_run"], after["next_at"]) == (runs[0]["run_id"], made.json()["data"]["next_at"])


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ({"cron": "0 8 1 1 *"}, ["01-01T08:00:00Z"] * 5),
        ({"cron": "0 8 1 7 *", "time_zone": "Europe/Berlin"}, ["07-01T06:00:00Z"] * 5),
        ({"at": "2090-01-31T08:00", "time_zone": "Asia/Shanghai"}, ["01-31T00:00:00Z"]),
        ({"at": "2090-01-31T08:00+02:00", "time_zone": "Asia/Shanghai"}, ["01-31T06:00:00Z"]),
    ],
)
def test_when_a_schedule_would_come_due_is_reported_before_it_is_made(
    client: TestClient, times: dict[str, str], expected: list[str]
) -> None:
    reported = client.post(f"{SCHEDULES}/preview", json=times).json()["data"]
    assert [moment[5:] for moment in reported] == expected
    assert reported == sorted(set(reported))
    assert client.get(SCHEDULES).json()["data"] == []


@pytest.mark.parametrize(
    "times",
    [
        {},
        {"cron": "* * * * *", "at": "2090-01-31T08:00"},
        {"cron": "0 0 30 2 *"},
        {"at": "2020-01-31T08:00"},
        {"time_zone": "Mars"},
    ],
)
def test_a_time_that_cannot_be_meant_is_reported_before_a_schedule_is_made(client: TestClient, times: dict[str, str]) -> None:
    answer = client.post(f"{SCHEDULES}/preview", json=times)
    assert (answer.status_code, answer.json()["success"]) == (400, False)


def test_a_single_time_without_an_offset_is_one_of_the_time_zone(client: TestClient, reporter: str) -> None:
    body = {"name": "once", "skill": reporter, "at": "2090-01-31T08:00", "time_zone": "Asia/Shanghai"}
    assert client.post(SCHEDULES, json=body).json()["data"]["next_at"] == "2090-01-31T00:00:00.000Z"


def _until(look: Callable[[], list[Any]]) -> list[Any]:
    for _ in range(600):
        if found := look():
            return found
        time.sleep(0.05)
    raise AssertionError("it never came")


@pytest.mark.row("000-13")
def test_an_event_that_is_sent_runs_what_waits_for_it_once(client: TestClient, home: Path, make_skill: Any) -> None:
    header = "name: greeter\ndescription: Greets. Use in a test.\ntriggers: {event_types: ['door.*']}"
    make_skill(home / "project/.claude/skills", "greeter", front_matter=header, files={"scripts/execute.py": SCRIPT})
    client.post("/api/v1/catalog/refresh")
    body = {"type": "door.opened", "data": {"n": 7}, "id": "door-1", "wait": True}
    sent = client.post("/api/v1/events", json=body)
    assert sent.status_code == 202, sent.text
    fired = sent.json()["data"]
    assert [(run["skill"], run["state"], run["status"]) for run in fired["runs"]] == [("project:greeter", "begun", "ok")]
    assert client.get(f"/api/v1/runs/{fired['runs'][0]['run_id']}").json()["data"]["output"] == 7
    assert client.post("/api/v1/events", json=body).json()["data"]["runs"][0]["state"] == "repeated"
    trail = client.get("/api/v1/audit", params={"action": "events.fire"}).json()["data"]
    assert [(one["subject"], one["details"]["id"]) for one in trail] == [("door.opened", "door-1")] * 2
    assert client.post("/api/v1/events", json={"type": "door.*"}).status_code == 400
    assert client.post("/api/v1/events", json={"type": "a", "context": {"userId": "other"}}).status_code == 400
    made = client.post(SCHEDULES, json={"name": "morning", "skill": "event:door.opened", "cron": "0 8 * * *"})
    assert made.json()["data"]["skill"] == "event:door.opened"


HOOKS = "/api/v1/webhooks"


def _signed(secret: str, body: bytes) -> dict[str, str]:
    digest = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    return {"X-Hub-Signature-256": f"sha256={digest}", "Content-Type": "application/json"}


@pytest.fixture
def hook(client: TestClient, home: Path, make_skill: Any) -> str:
    """The secret of the webhook `door`, and a skill that waits for its event."""
    header = "name: greeter\ndescription: Greets. Use in a test.\ntriggers: {event_types: ['door.*']}"
    make_skill(home / "project/.claude/skills", "greeter", front_matter=header, files={"scripts/execute.py": SCRIPT})
    client.post("/api/v1/catalog/refresh")
    made = client.post(HOOKS, json={"name": "door", "event": "door.opened"})
    assert made.status_code == 201, made.text
    assert made.json()["data"]["path"] == f"{HOOKS}/door"
    return str(made.json()["data"]["secret"])


@pytest.mark.row("000-13")
def test_a_signed_request_to_a_webhook_runs_what_waits_for_its_event_once(client: TestClient, hook: str) -> None:
    body = b'{"n": 7}'
    sent = client.post(f"{HOOKS}/door", content=body, headers=_signed(hook, body))
    assert sent.status_code == 202, sent.text
    taken = sent.json()["data"]
    assert (taken["type"], taken["begun"], taken["repeated"]) == ("door.opened", 1, 0)
    again = client.post(f"{HOOKS}/door", content=body, headers=_signed(hook, body) | {"X-GitHub-Delivery": "another"})
    assert (again.json()["data"]["begun"], again.json()["data"]["repeated"]) == (0, 1)
    (run,) = _until(lambda: client.get("/api/v1/runs?state=succeeded").json()["data"])
    assert client.get(f"/api/v1/runs/{run['run_id']}").json()["data"]["output"] == 7
    _, fired = client.get("/api/v1/audit", params={"action": "events.fire"}).json()["data"]
    assert (fired["actor"], fired["details"]["source"]) == ("webhook door", "webhook door")
    ping = client.post(f"{HOOKS}/door", content=b"{}", headers=_signed(hook, b"{}") | {"X-GitHub-Event": "ping"})
    assert (ping.status_code, ping.json()["data"]["begun"]) == (202, 0)


def test_a_webhook_takes_nothing_from_who_does_not_know_its_secret(client: TestClient, hook: str) -> None:
    body = b'{"n": 7}'
    for headers in (
        {},
        {"Authorization": "Bearer whs_wrong"},
        _signed("whs_wrong", body),
        _signed(hook, b"another body"),
        _signed(hook, body) | {"X-Hub-Signature-256": "sha256="},
    ):
        refused = client.post(f"{HOOKS}/door", content=body, headers=headers)
        assert (refused.status_code, refused.json()["code"]) == (401, "sign_in_required")
    unknown = client.post(f"{HOOKS}/window", content=body, headers=_signed(hook, body))
    assert (unknown.status_code, unknown.json()["detail"]) == (401, refused.json()["detail"])
    assert client.get("/api/v1/runs").json()["data"] == []
    listed = client.get(HOOKS)
    assert hook not in listed.text
    assert [one["name"] for one in listed.json()["data"]] == ["door"]
    assert client.delete(f"{HOOKS}/door").status_code == 200
    assert client.post(f"{HOOKS}/door", content=body, headers=_signed(hook, body)).status_code == 401


def test_what_a_webhook_cannot_take_is_a_clear_problem(client: TestClient, hook: str) -> None:
    secret = {"Authorization": f"Bearer {hook}"}
    for body, kind, status in (
        (b"[1]", "application/json", 400),
        (b"{", "application/json", 400),
        (b"\xff", "application/json", 400),
        (b"payload=%7B%7D", "application/x-www-form-urlencoded", 415),
        (b'{"n": "' + b"a" * (1 << 20) + b'"}', "application/json", 413),
    ):
        refused = client.post(f"{HOOKS}/door", content=body, headers=secret | {"Content-Type": kind})
        assert (refused.status_code, refused.json()["success"]) == (status, False), body[:20]
    assert client.post(HOOKS, json={"name": "door", "event": "door.opened"}).status_code == 409
    assert client.post(HOOKS, json={"name": "Door!", "event": "door.opened"}).status_code == 400
    named = client.post(HOOKS, json={"name": "shop", "event": "shop.paid", "id_field": "id"}).json()["data"]["secret"]
    keyed = {"Authorization": f"Bearer {named}"}
    assert client.post(f"{HOOKS}/shop", json={"id": "evt_1"}, headers=keyed).json()["data"]["id"] == "shop:evt_1"
    assert client.post(f"{HOOKS}/shop", json={}, headers=keyed).status_code == 400


@pytest.mark.row("000-13")
def test_a_webhook_never_runs_unasked_what_needs_an_approval(client: TestClient, home: Path, hook: str) -> None:
    (home / "project/skillyard.toml").write_text('[permissions.skills]\ngreeter = "ask"\n')
    catalog = Catalog.discover(cwd=home / "project", home=home)
    with TestClient(create_app(catalog, Registry.of(catalog)), base_url="http://127.0.0.1:8787") as asking:
        body = b'{"n": 8}'
        sent = asking.post(f"{HOOKS}/door", content=body, headers=_signed(hook, body))
        assert sent.json()["data"]["begun"] == 1
        (question,) = _until(lambda: asking.get("/api/v1/approvals/questions").json()["data"])
        assert (question["skill_name"], question["asked_by"]) == ("greeter", "webhook door")
        assert asking.get("/api/v1/runs?state=succeeded").json()["data"] == []
        assert asking.post(f"/api/v1/approvals/questions/{question['id']}", json={"decision": "once"}).status_code == 200
        (run,) = _until(lambda: asking.get("/api/v1/runs?state=succeeded").json()["data"])
        assert asking.get(f"/api/v1/runs/{run['run_id']}").json()["data"]["context"]["userId"] == "default/local user"


def test_a_webhook_holds_as_long_as_the_key_of_its_maker(client: TestClient, app: FastAPI, hook: str) -> None:
    keys = Keys(app.state.pool.database)
    key, secret = keys.create("ci", ["runs:execute", "skills:read"])
    made = client.post(HOOKS, json={"name": "gate", "event": "gate.opened"}, headers={"X-API-Key": secret})
    sender = {"Authorization": f"Bearer {made.json()['data']['secret']}"}
    assert client.post(f"{HOOKS}/gate", json={}, headers=sender).status_code == 202
    assert client.delete(f"{HOOKS}/door", headers={"X-API-Key": secret}).status_code == 403
    keys.revoke(key.id)
    held = client.post(f"{HOOKS}/gate", json={}, headers=sender)
    assert (held.status_code, "revoked" in held.json()["detail"]) == (403, True)
