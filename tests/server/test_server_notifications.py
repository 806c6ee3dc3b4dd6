"""A webhook is told what waits for an approval, which runs failed and what can be updated: once, signed, and nothing secret."""

from __future__ import annotations

import hashlib
import hmac
import json
import queue
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from skillyard import Catalog
from skillyard.errors import InvalidConfiguration
from skillyard.registry import Registry
from skillyard.server import create_app
from skillyard.times import utc_now, utc_text

RUNS = "/api/v1/runs"
SECRET = "s3cret of the webhook"


class Receiver(ThreadingHTTPServer):
    """A webhook that keeps what comes, and answers with `status`."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Received)
        self.status, self.body, self.location = 204, b"", ""
        self.came: queue.Queue[tuple[dict[str, str], bytes]] = queue.Queue()

    def next(self) -> dict[str, Any]:
        """The next notification; its signature fits."""
        headers, body = self.came.get(timeout=60)
        assert headers["x-hub-signature-256"] == "sha256=" + hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
        return dict(json.loads(body))


class _Received(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(self.server.status)
        if self.server.location:
            self.send_header("Location", self.server.location)
        self.end_headers()
        self.wfile.write(self.server.body)
        self.server.came.put(({name.lower(): value for name, value in self.headers.items()}, body))

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 # as it is called
        """Nothing."""


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """A webhook on this machine."""
    made = Receiver()
    threading.Thread(target=made.serve_forever, daemon=True).start()
    yield made
    made.shutdown()
    made.server_close()


@pytest.fixture
def serve(home: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> Callable[..., TestClient]:
    """Give a function that makes a client of a server which notifies the webhook."""
    monkeypatch.setenv("HOOK_SECRET", SECRET)

    def make(more: str = "", url: str = "", packages: str = "private-hosts = true") -> TestClient:
        address = url or f"http://127.0.0.1:{receiver.server_port}/hook?team=a"
        (home / ".config/skillyard").mkdir(parents=True, exist_ok=True)
        settings = (
            f'[server.notifications]\nurl = "{address}"\nsecret-variable = "HOOK_SECRET"\n{more}\n[packages]\n{packages}\n'
        )
        (home / ".config/skillyard/skillyard.toml").write_text(settings, "utf-8")
        catalog = Catalog.discover(cwd=home / "project", home=home)
        return TestClient(create_app(catalog, Registry.of(catalog)), base_url="http://127.0.0.1:8787")

    return make


def _skill(home: Path, code: str) -> None:
    folder = home / "project/.claude/skills/adder"
    (folder / "scripts").mkdir(parents=True, exist_ok=True)
    (folder / "SKILL.md").write_text("---\nname: adder\ndescription: Adds. Use when a test needs a sum.\n---\n")
    (folder / "scripts/execute.py").write_text(code)


def test_a_run_that_fails_is_reported_once_and_also_after_a_restart(
    serve: Callable[..., TestClient], receiver: Receiver, home: Path
) -> None:
    _skill(home, "import sys\nprint('confidential')\nsys.exit(3)\n")
    body = {"skill": "adder", "parameters": {"password": "hunter2"}}
    with serve('events = ["failure"]') as client:
        while not (home / "data/notifications.json").exists():  # what failed before is of no interest
            client.get("/healthz")
        ids = [client.post(RUNS, json=body).json()["data"]["run_id"] for _ in range(2)]
        reported = [receiver.next(), receiver.next()]
    assert [one["id"] for one in reported] == [f"failure:{run}" for run in ids]
    assert {(one["event"], one["organisation"], one["path"]) for one in reported} == {
        ("failure", "default", f"/runs/{run}") for run in ids
    }
    assert "adder" in reported[0]["text"]
    assert not any(word in json.dumps(reported) for word in ("hunter2", "confidential"))
    with serve('events = ["failure", "approval"]') as client:
        third = client.post(RUNS, json=body).json()["data"]["run_id"]
        assert receiver.next()["id"] == f"failure:{third}"
    assert receiver.came.empty()


def test_what_failed_while_no_server_was_there_is_reported_later(
    serve: Callable[..., TestClient], receiver: Receiver, home: Path
) -> None:
    _skill(home, "raise SystemExit(1)\n")
    with serve('events = ["update"]') as client:
        run = client.post(RUNS, json={"skill": "adder"}).json()["data"]["run_id"]
    noted = {"default": {"since": utc_text(utc_now() - timedelta(hours=3))}}
    (home / "data/notifications.json").write_text(json.dumps(noted))
    with serve():
        assert receiver.next()["id"] == f"failure:{run}"


def test_many_at_once_are_ten_and_how_many_more(serve: Callable[..., TestClient], receiver: Receiver, home: Path) -> None:
    _skill(home, "raise SystemExit(1)\n")
    with serve('events = ["update"]') as client:
        for _ in range(13):
            client.post(RUNS, json={"skill": "adder"})
    noted = {"default": {"since": utc_text(utc_now() - timedelta(hours=3))}}
    (home / "data/notifications.json").write_text(json.dumps(noted))
    with serve():
        reported = [receiver.next() for _ in range(11)]
    assert (reported[-1]["text"], reported[-1]["path"]) == ("3 more of this", "/runs?state=failed")
    assert len({one["id"] for one in reported}) == 11
    assert receiver.came.empty()


def test_a_question_is_reported_while_it_is_open(serve: Callable[..., TestClient], receiver: Receiver, home: Path) -> None:
    _skill(home, "def execute(parameters):\n    return {'output': 1}\n")
    (home / "project/skillyard.toml").write_text('[permissions.skills]\n"*" = "ask"\n')
    with serve('events = ["approval"]') as client:
        run = client.post(RUNS, json={"skill": "adder", "wait": False}).json()["data"]["run_id"]
        reported = receiver.next()
        (question,) = client.get("/api/v1/approvals/questions").json()["data"]
        assert (reported["event"], reported["id"], reported["path"]) == ("approval", f"approval:{question['id']}", "/approvals")
        assert "adder" in reported["text"]
        client.post(f"/api/v1/approvals/questions/{question['id']}", json={"decision": "once"})
        with client.stream("GET", f"{RUNS}/{run}/events") as events:
            assert "succeeded" in events.read().decode()
    assert receiver.came.empty()


def test_an_update_is_looked_for_once_a_day_and_reported_once(
    serve: Callable[..., TestClient], receiver: Receiver, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from skillyard.registry import PendingUpdate

    looked: list[str] = []

    def pending(_: Registry, name: str) -> PendingUpdate:
        looked.append(name)
        return PendingUpdate(name, "update", "v1", "1.0.0", "1.1.0")

    monkeypatch.setattr(Registry, "pending_update", pending)
    monkeypatch.setattr("skillyard.registry.installed_skills.InstalledSkills.serving", lambda _: {"tidy": None})
    for day in range(3):
        with serve('events = ["update"]') as client:
            if day == 0:
                assert receiver.next()["text"] == "tidy can be updated to 1.1.0"
            client.get("/healthz")
        noted = json.loads((home / "data/notifications.json").read_text())
        if day == 1:
            assert looked == ["tidy"]
            noted["default"]["updated"] = utc_text(utc_now() - timedelta(days=2))
            (home / "data/notifications.json").write_text(json.dumps(noted))
    assert looked == ["tidy", "tidy"]
    assert receiver.came.empty()


def test_updates_are_looked_for_when_a_page_asks(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    from skillyard.registry import PendingUpdate

    states: dict[str, Any] = {"tidy": "update", "quiet": "current"}
    monkeypatch.setattr(Registry, "pending_update", lambda _, name: PendingUpdate(name, states[name], "v1", "1.0.0", "1.1.0"))
    monkeypatch.setattr("skillyard.registry.installed_skills.InstalledSkills.serving", lambda _: dict.fromkeys(states))
    found = client.post("/api/v1/skill-definitions/updates").json()["data"]
    assert found == [{"skill_id": "tidy", "declared_version": "1.0.0", "available": "1.1.0"}]


def test_a_person_tries_the_webhook_and_learns_what_is_wrong(
    serve: Callable[..., TestClient], receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serve('events = ["approval"]') as client:
        shown = client.get("/api/v1/settings").json()["data"]["notifications"]
        assert shown == {"host": "127.0.0.1", "events": ["approval"], "signed": True}
        assert client.post("/api/v1/notifications/test").status_code == 200
        assert receiver.next()["event"] == "test"
        receiver.status = 500
        refused = client.post("/api/v1/notifications/test")
        assert (refused.status_code, refused.json()["code"]) == (502, "network_failed")
        assert "500" in refused.json()["detail"]
    with pytest.raises(InvalidConfiguration, match="https"):
        serve(packages="")
    with serve(url=f"https://127.0.0.1:{receiver.server_port}/", packages="") as client:
        assert client.post("/api/v1/notifications/test").json()["code"] == "network_refused"
    for wrong in ('events = ["moon"]', "every = 1"):
        with pytest.raises(InvalidConfiguration, match=r"notifications"):
            serve(wrong)
    monkeypatch.delenv("HOOK_SECRET")
    with pytest.raises(InvalidConfiguration, match="HOOK_SECRET"):
        serve()


def test_a_webhook_that_says_much_has_taken_it_and_one_that_redirects_has_not(
    serve: Callable[..., TestClient], receiver: Receiver
) -> None:
    with serve('events = ["approval"]') as client:
        receiver.status, receiver.body = 200, b"x" * 200_000
        assert client.post("/api/v1/notifications/test").status_code == 200
        receiver.status, receiver.body = 307, b""
        receiver.location = f"http://127.0.0.1:{receiver.server_port}/elsewhere"
        refused = client.post("/api/v1/notifications/test")
        assert (refused.status_code, refused.json()["code"]) == (502, "network_failed")
        assert [receiver.came.qsize(), SECRET in refused.text, "team=a" in refused.text] == [2, False, False]


def test_without_a_webhook_nothing_is_noted_and_there_is_nothing_to_try(client: TestClient, home: Path) -> None:
    assert client.get("/api/v1/settings").json()["data"]["notifications"] is None
    answer = client.post("/api/v1/notifications/test")
    assert (answer.status_code, answer.json()["code"]) == (409, "not_configured")
    assert "[server.notifications]" in answer.json()["hint"]
    assert not (home / "data/notifications.json").exists()
