"""Several servers over one database: what one of them asks, carries and changes is seen and answered through the other."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import httpx
import preloaded
import pytest
from scripted_models import Hold, Say

from skillyard.library import Catalog
from skillyard.registry import Registry
from skillyard.server.background.caller_sessions import SessionSlots
from skillyard.server.organisation_services import OrganisationServices
from skillyard.server.server_settings import ServerSettings

RUNS = "/api/v1/runs"
QUESTIONS = "/api/v1/approvals/questions"
WAITS = """
import pathlib, time
import skillyard_sdk as sdk
def execute(parameters):
    print("begun", flush=True)
    with sdk.step("outer"):
        with sdk.step("inner") as current:
            current.output = 1
    for _ in range(1200):
        time.sleep(0.05)
    return {"output": 2}
"""
ADD = "def execute(parameters):\n    return {'output': parameters['a'] + parameters['b']}\n"
_Found = TypeVar("_Found")


@dataclass
class Pair:
    """Clients of both, and the folder that both serve."""

    one: httpx.Client
    other: httpx.Client
    project: Path
    processes: tuple[preloaded.Popen, preloaded.Popen]


@contextmanager
def _served(project: Path, environment: dict[str, str], grace: int) -> Iterator[tuple[httpx.Client, preloaded.Popen]]:
    """A client of a server of that folder, which is ended with the block."""
    command = [sys.executable, "-m", "skillyard", "serve", "--port", "0", "--json", "--grace", str(grace)]
    process = preloaded.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=project, env=environment
    )
    try:
        assert process.stdout is not None
        found, _ = json.JSONDecoder().raw_decode(process.stdout.readline())
        with httpx.Client(base_url=found["address"], timeout=60, trust_env=False) as client:
            yield client, process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(60)
        finally:
            process.kill()
            process.communicate()


@contextmanager
def _pair(folder: Path, database: str, *, grace: int = 2) -> Iterator[Pair]:
    """Two servers of one folder and one database."""
    project = folder / "project"
    project.mkdir(parents=True, exist_ok=True)
    environment = os.environ | {
        "HOME": str(folder), "SKILLYARD_HOME": str(folder / "data"), "SKILLYARD_DATABASE_URL": database,
    }  # fmt: skip
    (project / "skillyard.toml").write_text('[permissions.skills]\n"guarded*" = "ask"\n', "utf-8")
    with ExitStack() as stack:
        (one, first), (other, second) = (stack.enter_context(_served(project, environment, grace)) for _ in range(2))
        yield Pair(one, other, project, (first, second))


def _events(client: httpx.Client, path: str, **headers: str) -> Iterator[tuple[str, str, Any]]:
    """The id, name and data of each server-sent event, as it comes."""
    with client.stream("GET", path, headers=headers) as answer:
        assert answer.status_code == 200, answer.read()
        found: dict[str, str] = {}
        for line in answer.iter_lines():
            name, _, value = line.partition(": ")
            if line:
                found[name] = value
            elif "data" in found:
                yield found["id"], found["event"], json.loads(found["data"])
                found = {}


@pytest.fixture(scope="module", params=["postgresql", pytest.param("sqlite", marks=pytest.mark.long)])
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Two servers over PostgreSQL, and in `make test-long` over SQLite."""
    folder = tmp_path_factory.mktemp("across")
    with ExitStack() as stack:
        if request.param == "postgresql":
            address = stack.enter_context(sys.modules["postgresql"].database_of(request.getfixturevalue("postgresql")))
        else:
            address = f"sqlite:///{folder}/records.db"
        yield stack.enter_context(_pair(folder, address))


def _skill(both: Pair, name: str, script: str) -> None:
    folder = both.project / ".claude/skills" / name
    (folder / "scripts").mkdir(parents=True)
    (folder / "scripts/add.py").write_text(script, "utf-8")
    said = f"name: {name}\ndescription: Adds.\ntype: direct\nresources:\n  entry: ./scripts/add.py\n"
    (folder / "SKILL.md").write_text(f"---\n{said}---\n", "utf-8")
    for client in (both.one, both.other):
        client.post("/api/v1/catalog/refresh")


def _begin(client: httpx.Client, skill: str, **parameters: Any) -> str:
    answer = client.post(RUNS, json={"skill": skill, "parameters": parameters, "wait": False})
    assert answer.status_code == 202, answer.text
    return str(answer.json()["data"]["run_id"])


def _soon(look: Callable[[], _Found]) -> _Found:
    """What is found within a minute."""
    until = time.monotonic() + 60
    while not (found := look()) and time.monotonic() < until:
        time.sleep(0.05)
    assert found
    return found


def test_a_question_asked_by_one_server_is_answered_through_the_other(both: Pair) -> None:
    _skill(both, "guarded-adder", ADD)
    run = _begin(both.one, "guarded-adder", a=1, b=2)
    asked = next(data for _, name, data in _events(both.other, f"{RUNS}/{run}/events") if name == "asked")
    (question,) = both.other.get(QUESTIONS).json()["data"]
    assert (question["id"], question["run_id"]) == (asked["question"], run)
    assert both.other.post(f"{QUESTIONS}/{question['id']}", json={"decision": "session"}).status_code == 200
    *_, (_, _, end) = _events(both.one, f"{RUNS}/{run}/events")
    assert (end["run"]["state"], end["run"]["output"]) == ("succeeded", 3)
    assert both.one.post(f"{QUESTIONS}/{question['id']}", json={"decision": "once"}).status_code == 404
    again = _begin(both.other, "guarded-adder", a=2, b=2)  # the session has agreed, whichever server it asks
    *_, (_, _, end) = _events(both.other, f"{RUNS}/{again}/events")
    assert end["run"]["output"] == 4


def test_the_same_question_asked_by_two_servers_is_answered_once(both: Pair) -> None:
    _skill(both, "guarded-twice", ADD)
    runs = [_begin(client, "guarded-twice", a=1, b=1) for client in (both.one, both.other)]
    asked = _soon(lambda: found if len(found := both.one.get(QUESTIONS).json()["data"]) == 2 else None)
    answer = both.one.post(f"{QUESTIONS}/{asked[0]['id']}", json={"decision": "reject", "reason": "not now"})
    assert answer.status_code == 200
    for run in runs:
        *_, (_, _, end) = _events(both.other, f"{RUNS}/{run}/events")
        assert (end["run"]["state"], "not now" in end["run"]["error"]["message"]) == ("failed", True)
    assert both.other.get(QUESTIONS).json()["data"] == []


def test_a_run_of_one_server_is_followed_live_through_the_other_and_taken_up_again(both: Pair) -> None:
    """It only ends when it was heard, steps and all, through the server that does not carry it."""
    _skill(both, "talker", WAITS)
    run = _begin(both.one, "talker", a=1)
    path = f"{RUNS}/{run}/events"
    reported = []
    for event in _events(both.other, path):
        reported.append(event)
        if len([name for _, name, _ in reported if name in ("log", "step")]) == 3:
            break
    assert [data["text"] for _, name, data in reported if name == "log"] == ["begun\n"]
    assert [data["step"]["stepName"] for _, name, data in reported if name == "step"] == ["inner", "outer"]
    assert both.other.post(f"{RUNS}/{run}/cancel").json()["data"]["state"] == "cancelled"
    rest = list(_events(both.one, path, **{"Last-Event-ID": reported[-1][0]}))
    assert [name for _, name, _ in rest] == ["state", "end"]
    end = rest[-1][2]["run"]
    assert (end["stdout"], [step["stepName"] for step in end["steps"]]) == ("begun\n", ["inner", "outer"])
    whole = list(_events(both.one, path))
    assert [name for _, name, _ in whole if name != "state"] == ["log", "step", "step", "end"]


def test_switching_installing_and_rolling_back_are_seen_by_every_server(both: Pair, pack: Callable[..., bytes]) -> None:
    _skill(both, "switched", ADD)

    def enabled(client: httpx.Client) -> bool:
        found = client.get("/api/v1/catalog", params={"limit": 200}).json()["data"]
        return {skill["id"]: skill["status"] for skill in found}["project:switched"] == "ok"

    def current(client: httpx.Client) -> str | None:
        found = client.get("/api/v1/skill-definitions/tidy")
        return str(found.json()["data"]["currentVersion"]) if found.status_code == 200 else None

    environment = os.environ | {
        "HOME": str(both.project.parent), "SKILLYARD_HOME": str(both.project.parent / "data"),
    }  # fmt: skip
    command = [sys.executable, "-m", "skillyard", "disable", "project:switched"]
    preloaded.run(command, cwd=both.project, env=environment, check=True, capture_output=True, timeout=60)
    for client in (both.one, both.other):
        assert not enabled(client)
        client.post("/api/v1/catalog/toggle", json={"skill": "project:switched"})
        assert enabled(both.other)
        client.post("/api/v1/catalog/toggle", json={"skill": "project:switched"})
        assert not enabled(both.one)
    versions = []
    for body in ("One.", "Two."):
        sent = {"file": ("tidy.zip", pack(body=body))}
        answer = both.one.post("/api/v1/skill-definitions/upload-create", files=sent)
        assert answer.status_code == 201, answer.text
        versions.append(answer.json()["data"]["definitions"][0]["currentVersion"])
        assert current(both.other) == versions[-1]
        assert body in both.other.get("/api/v1/catalog/file", params={"skill": "installed:tidy"}).text
    rolled = both.other.post("/api/v1/skill-definitions/tidy/rollback", json={"version": versions[0]})
    assert rolled.status_code == 200, rolled.text
    assert current(both.one) == versions[0]
    assert "One." in both.one.get("/api/v1/catalog/file", params={"skill": "installed:tidy"}).text


def test_an_install_that_goes_on_in_one_server_is_followed_through_the_other(both: Pair, pack: Callable[..., bytes]) -> None:
    sent = {"file": ("later.zip", pack("later"))}
    begun = both.one.post("/api/v1/skill-definitions/upload-create", params={"wait": "false"}, files=sent).json()["data"]
    *_, (last, _, end) = _events(both.other, begun["events"])
    assert (end["operation"]["state"], [one["name"] for one in end["operation"]["definitions"]]) == ("success", ["later"])
    assert [name for _, name, _ in _events(both.one, begun["events"], **{"Last-Event-ID": last})] == ["end"]
    broken = {"file": ("broken.zip", b"no archive")}
    begun = both.one.post("/api/v1/skill-definitions/upload-create", params={"wait": "false"}, files=broken).json()["data"]
    *_, (_, _, end) = _events(both.other, begun["events"])
    assert end["operation"]["state"] == "failed"
    assert end["operation"]["error"]["code"]


def test_a_session_of_tools_remembers_what_it_loaded_through_the_other_server(both: Pair) -> None:
    _skill(both, "remembered", ADD)

    def load(client: httpx.Client) -> bool:
        call = {"name": "skill", "arguments": {"skill": "remembered"}, "session": "s1"}
        answer = client.post("/api/v1/tools/call", json=call).json()["data"]
        assert answer["ok"], answer["text"]
        return bool(answer["data"].get("repeated"))

    assert [load(both.one), load(both.other), load(both.one)] == [False, True, True]
    assert both.other.delete("/api/v1/tools/sessions/s1").status_code == 200
    assert [load(both.one), load(both.other)] == [False, True]


def test_a_server_that_stops_does_not_wait_for_answers(tmp_path: Path) -> None:
    """Were the question waited for, it would take the five minutes of grace."""
    with _pair(tmp_path, f"sqlite:///{tmp_path}/records.db", grace=300) as both:
        _skill(both, "guarded-adder", ADD)
        run = _begin(both.one, "guarded-adder", a=1, b=2)
        _soon(lambda: both.other.get(QUESTIONS).json()["data"])
        both.processes[0].send_signal(signal.SIGTERM)
        both.processes[0].wait(60)
        assert both.other.get(QUESTIONS).json()["data"] == []
        ended = both.other.get(f"{RUNS}/{run}").json()["data"]
        assert (ended["state"], "about to stop" in ended["error"]["message"]) == ("failed", True)


@pytest.mark.parametrize("database_address", ["postgresql", pytest.param("sqlite", marks=pytest.mark.long)], indirect=True)
def test_a_turn_that_one_server_works_on_is_followed_and_gone_on_with_through_the_other(
    tmp_path: Path, database_address: str, models: Any
) -> None:
    conversations = "/api/v1/chat/conversations"
    with _pair(tmp_path, database_address) as both:
        made = both.one.post(conversations, json={"model": "openai-chat:gpt-5"})
        assert made.status_code == 201, made.text
        path = f"{conversations}/{made.json()['data']['id']}"
        models.script(Hold("Once upon a time"), Say("I know you."))
        turn = both.one.post(f"{path}/messages", json={"text": "A story"}).json()["data"]["id"]
        reported, following = [], f"{path}/turns/{turn}/events"
        for event in _events(both.other, following):
            reported.append(event)
            if "".join(data["delta"] for _, name, data in reported if name == "text") == "Once upon a time":
                break
        assert reported[0][1] == "begin"
        stopped = both.other.post(f"{path}/turns/{turn}/stop")
        assert stopped.status_code == 200
        for client in (both.other, both.one):
            rest = list(_events(client, following, **{"Last-Event-ID": reported[-1][0]}))
            assert [name for _, name, _ in rest if name != "usage"] == ["end"]
            assert rest[-1][2]["state"] == "stopped"
        again = both.other.post(f"{path}/messages", json={"text": "Do you know me?"}).json()["data"]["id"]
        *_, (_, _, end) = _events(both.one, f"{path}/turns/{again}/events")
        assert (end["state"], end["answer"]) == ("done", "I know you.")


def test_the_question_of_a_killed_server_is_closed(both: Pair) -> None:
    """This is the last test of the pair: one of the two is gone after it."""
    _skill(both, "guarded-orphan", ADD)
    _begin(both.other, "guarded-orphan", a=1, b=1)
    _soon(lambda: both.one.get(QUESTIONS).json()["data"])
    both.processes[1].send_signal(signal.SIGKILL)
    both.processes[1].wait(60)
    assert both.one.get(QUESTIONS).json()["data"] == []


def test_a_change_that_another_request_has_seen_already_is_announced_all_the_same(
    tmp_path: Path, home: Path, make_skill: Callable[..., Path]
) -> None:
    catalogs = [Catalog.discover(home=home, cwd=tmp_path, cache=False) for _ in range(2)]
    slots = SessionSlots(ServerSettings.of(catalogs[0].configuration).workspaces, lasting=False)
    one, other = (OrganisationServices(catalog, Registry.of(catalog), slots) for catalog in catalogs)
    make_skill(home / ".agents/skills", "newest")
    one.catalog.refresh()  # for a request that came meanwhile
    one.refresh_after_change()
    assert other.change_lock.changed_elsewhere()
    other.change_lock.refresh_if_changed(other.catalog.refresh)
    assert other.catalog.get("newest").slug == "newest"
    assert not one.change_lock.changed_elsewhere()
