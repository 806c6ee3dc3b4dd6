"""Between callers: questions are answered by who may, once; counts count callers; addresses show nobody's password."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

RUNS = "/api/v1/runs"
QUESTIONS = "/api/v1/approvals/questions"
DEFINITIONS = "/api/v1/skill-definitions"
EXECUTES = ("skills:read", "runs:execute")
SCRIPT = "def execute(parameters):\n    return {'output': 1}\n"


@pytest.fixture
def asked(home: Path, make_skill: Any) -> str:
    """A skill of the server that a rule wants to be asked about."""
    make_skill(home / "project/.claude/skills", "asked", files={"scripts/execute.py": SCRIPT})
    (home / "project/skillyard.toml").write_text('[permissions.skills]\nasked = "ask"\n', "utf-8")
    return "asked"


def _until(look: Callable[[], Any]) -> Any:
    for _ in range(600):
        if found := look():
            return found
        time.sleep(0.05)
    raise AssertionError("it never came")


@pytest.mark.both_databases
@pytest.mark.abuse("H7")
def test_a_question_is_answered_by_an_admin_of_its_organisation_once(asked: str, keyed: Any) -> None:
    runner = keyed.lasting(*EXECUTES, organisation="ours", name="ada")
    admin = keyed.lasting(organisation="ours", name="admin")
    others = [keyed.lasting(organisation="theirs"), keyed.lasting(name="server")]
    run = runner.post(RUNS, json={"skill": asked, "wait": False}).json()["data"]["run_id"]
    (question,) = _until(lambda: admin.get(QUESTIONS).json()["data"])
    assert (question["asked_by"], question["run_id"]) == ("ada", run)
    answer = f"{QUESTIONS}/{question['id']}"
    for decision in ("once", "session", "always", "workspace", "reject"):
        assert runner.post(answer, json={"decision": decision}).status_code == 403, "not by who asks"
        for other in others:
            assert other.post(answer, json={"decision": decision}).status_code == 404
    assert runner.get(QUESTIONS).status_code == 403
    assert [other.get(QUESTIONS).json()["data"] for other in others] == [[], []]
    assert admin.get(f"{RUNS}/{run}").json()["data"]["state"] == "queued"
    assert admin.post(answer, json={"decision": "once"}).status_code == 200
    assert admin.post(answer, json={"decision": "workspace"}).status_code == 404
    _until(lambda: admin.get(f"{RUNS}/{run}").json()["data"]["state"] == "succeeded")
    assert admin.get("/api/v1/approvals").json()["data"] == [], "what came late agreed to nothing"


@pytest.mark.abuse("H7")
def test_a_question_whose_run_was_ended_is_answered_by_nobody(asked: str, keyed: Any) -> None:
    runner, admin = keyed.lasting(*EXECUTES, name="ada"), keyed.lasting(name="admin")
    run = runner.post(RUNS, json={"skill": asked, "wait": False}).json()["data"]["run_id"]
    (question,) = _until(lambda: admin.get(QUESTIONS).json()["data"])
    assert runner.post(f"{RUNS}/{run}/cancel").json()["data"]["state"] == "cancelled"
    _until(lambda: not admin.get(QUESTIONS).json()["data"])
    assert admin.post(f"{QUESTIONS}/{question['id']}", json={"decision": "workspace"}).status_code == 404
    assert admin.get("/api/v1/approvals").json()["data"] == []


@pytest.mark.both_databases
@pytest.mark.abuse("H4")
def test_a_caller_counts_once_a_day_for_a_skill(keyed: Any, pack: Callable[..., bytes]) -> None:
    admin, other = keyed.client(name="admin"), keyed.client("skills:read", name="other")
    assert admin.post(f"{DEFINITIONS}/upload-create", files={"file": ("tidy.zip", pack())}).status_code == 201
    for _ in range(3):
        for caller in (admin, other):
            reported = caller.post("/api/cli/telemetry/install", json={"event": "install", "slug": "tidy"})
            assert reported.json() == {"ok": True}
        assert other.get("/api/v1/download?slug=tidy").status_code == 200
    stats = admin.get("/api/v1/skills/tidy").json()["skill"]["stats"]
    assert (stats["downloads"], stats["installsAllTime"]) == (1, 2)


@pytest.mark.abuse("H5")
def test_an_address_of_a_skill_shows_nobodys_password(keyed: Any, pack: Callable[..., bytes]) -> None:
    admin = keyed.client(name="admin")
    header = "homepage: https://me:hunter2@example.org/a\nrepository: https://hunter2@example.org/b\n"
    made = admin.post(f"{DEFINITIONS}/upload-create", files={"file": ("tidy.zip", pack(header=header))}).json()["data"]
    assert made["definitions"][0]["homepageUrl"] == "https://example.org/a"
    for shown in (
        f"{DEFINITIONS}",
        f"{DEFINITIONS}/tidy",
        "/api/v1/catalog/skill?skill=tidy",
        "/.claude-plugin/marketplace.json",
    ):
        reported = admin.get(shown)
        assert reported.status_code == 200, shown
        assert "hunter2" not in reported.text, shown
    for field in ("homepageUrl", "documentationUrl", "iconUrl"):
        refused = admin.put(f"{DEFINITIONS}/tidy", json={field: "https://me:hunter2@example.org"})
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, "invalid_input")
        assert "hunter2" not in refused.text
    kept = admin.put(f"{DEFINITIONS}/tidy", json={"homepageUrl": "https://example.org/@me"}).json()["data"]
    assert kept["homepageUrl"] == "https://example.org/@me"
