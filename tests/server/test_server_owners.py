"""Whose runs and schedules they are: a key that ends takes its schedules along, and nobody ends what is somebody else's."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from skillyard.database import api_keys, schedules

SCHEDULES = "/api/v1/schedules"
RUNS = "/api/v1/runs"
EXECUTES = ("skills:read", "runs:execute")
SCRIPT = "def execute(parameters):\n    return {'output': parameters.get('n')}\n"


@pytest.fixture
def reporter(keyed: Any, home: Path, make_skill: Any) -> str:
    """A skill of the server that all organisations see."""
    make_skill(home / "project/.claude/skills", "reporter", files={"scripts/execute.py": SCRIPT})
    keyed.client().post("/api/v1/catalog/refresh")
    return "reporter"


def _later() -> str:
    return (datetime.now(UTC) + timedelta(hours=1)).isoformat()


def _come_due(keyed: Any, organisation: str, name: str) -> None:
    """Let the moment of a schedule be now, and the clock look."""
    pool = keyed.app.state.pool
    records = pool.organisations.catalog(organisation, pool.main.catalog).records()
    with records.database.write() as connection:
        connection.execute(update(schedules).where(schedules.c.name == name).values(next_at=datetime.now(UTC)))
    if organisation != "default":
        records.close()
    keyed.app.state.clock.wake(organisation)


def _until(look: Callable[[], Any]) -> Any:
    for _ in range(200):  # less than the clock waits between two looks of its own
        if found := look():
            return found
        time.sleep(0.05)
    raise AssertionError("it never came")


def _key_of(keyed: Any, name: str) -> str:
    return next(str(key.id) for key in keyed.keys.all() if key.name == name)


@pytest.mark.both_databases
@pytest.mark.abuse("H1")
@pytest.mark.parametrize("organisation", ["default", "acme"])
def test_a_schedule_ends_with_the_key_it_was_made_with(keyed: Any, reporter: str, organisation: str) -> None:
    admin = keyed.client(organisation=organisation, name="admin")
    thief = keyed.client(*EXECUTES, organisation=organisation, name="thief")
    for body in ({"at": _later()}, {"cron": "0 3 1 1 *"}):
        made = thief.post(SCHEDULES, json={"name": next(iter(body)), "skill": reporter, **body})
        assert (made.status_code, made.json()["data"]["made_by"], made.json()["data"]["held"]) == (201, "thief", None)
    key = _key_of(keyed, "thief")
    assert admin.delete(f"/api/v1/keys/{key}").status_code == 200
    shown = {one["name"]: one["held"] for one in admin.get(SCHEDULES).json()["data"]}
    assert shown == dict.fromkeys(("at", "cron"), "the key of thief was revoked")
    _come_due(keyed, organisation, "at")
    events = _until(lambda: admin.get("/api/v1/audit?action=schedules.hold").json()["data"])
    assert [(one["subject"], one["outcome"], one["actor"]) for one in events] == [("at", "refused", "thief")]
    assert admin.get(f"{RUNS}?schedule=at").json()["data"] == []


@pytest.mark.abuse("H1")
def test_a_schedule_is_held_when_its_key_expires_and_taken_over_by_who_may(keyed: Any, reporter: str) -> None:
    admin, other = keyed.client(name="admin"), keyed.client(*EXECUTES, name="other")
    passing = keyed.client(*EXECUTES, name="ci")
    body = {"name": "nightly", "skill": reporter, "parameters": {"n": 1}, "at": _later()}
    assert passing.post(SCHEDULES, json=body).status_code == 201
    with keyed.app.state.pool.database().write() as connection:
        connection.execute(update(api_keys).where(api_keys.c.name == "ci").values(expires_at=datetime.now(UTC)))
    _come_due(keyed, "default", "nightly")
    _until(lambda: admin.get(f"{SCHEDULES}/nightly").json()["data"]["held"] == "the key of ci has expired")
    _until(lambda: admin.get("/api/v1/audit?action=schedules.hold").json()["data"])
    refused = other.post(f"{SCHEDULES}/nightly/take-over")
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "not_yours")
    assert admin.post(f"{SCHEDULES}/nightly/resume").json()["data"]["held"], "to resume does not make it anybody else's"
    again = keyed.client(*EXECUTES, name="ci")  # the same person with a new key
    taken = again.post(f"{SCHEDULES}/nightly/take-over").json()["data"]
    assert (taken["made_by"], taken["held"]) == ("ci", None)
    (run,) = _until(lambda: admin.get(f"{RUNS}?schedule=nightly&state=succeeded").json()["data"])
    assert admin.get(f"{RUNS}/{run['run_id']}").json()["data"]["context"] == {"userId": "default/ci"}


@pytest.mark.both_databases
@pytest.mark.abuse("H2")
def test_only_who_made_a_schedule_or_an_admin_changes_it(keyed: Any, reporter: str) -> None:
    mine, other, admin = keyed.client(*EXECUTES, name="mine"), keyed.client(*EXECUTES, name="other"), keyed.client(name="admin")
    mine.post(SCHEDULES, json={"name": "nightly", "skill": reporter, "cron": "0 3 * * *"})
    for way in ("pause", "resume", "take-over"):
        refused = other.post(f"{SCHEDULES}/nightly/{way}")
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "not_yours"), way
    assert other.delete(f"{SCHEDULES}/nightly").status_code == 403
    assert other.get(f"{SCHEDULES}/nightly").json()["data"]["made_by"] == "mine"
    assert mine.post(f"{SCHEDULES}/nightly/pause").json()["data"]["paused"]
    assert admin.post(f"{SCHEDULES}/nightly/take-over").json()["data"]["made_by"] == "admin"
    assert mine.delete(f"{SCHEDULES}/nightly").status_code == 403
    assert admin.delete(f"{SCHEDULES}/nightly").status_code == 200
    tried = admin.get("/api/v1/audit?outcome=refused&subject=nightly").json()["data"]
    assert {one["actor"] for one in tried} == {"mine", "other"}


@pytest.mark.abuse("H2")
def test_only_who_asked_for_a_run_or_an_admin_ends_it(keyed: Any, home: Path, make_skill: Any) -> None:
    waits = "import time\ndef execute(parameters):\n    time.sleep(60)\n"
    make_skill(home / "project/.claude/skills", "waiter", files={"scripts/execute.py": waits})
    mine, other, admin = (
        keyed.lasting(*EXECUTES, name="mine"),
        keyed.lasting(*EXECUTES, name="other"),
        keyed.lasting(name="admin"),
    )
    admin.post("/api/v1/catalog/refresh")
    for ends in (mine, admin):
        run = mine.post(RUNS, json={"skill": "waiter", "wait": False}).json()["data"]["run_id"]
        refused = other.post(f"{RUNS}/{run}/cancel")
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "not_yours")
        assert "admin" in refused.json()["hint"]
        assert other.get(f"{RUNS}/{run}").json()["data"]["state"] in ("queued", "running")
        assert ends.post(f"{RUNS}/{run}/cancel").json()["data"]["state"] == "cancelled"
