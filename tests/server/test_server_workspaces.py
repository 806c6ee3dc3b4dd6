"""Workspaces over HTTP: each belongs to a caller, works from call to call, and ends with all it had when it is deleted."""

from __future__ import annotations

import asyncio
import io
import json
import socket
import threading
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from skillyard import Catalog
from skillyard.registry import Registry
from skillyard.server import AccessPolicy, create_app
from skillyard.server.background.caller_sessions import CallerWorkspaces, SessionSlots
from skillyard.server.server_settings import WorkspaceLimits
from skillyard.workspace import Workspace

WORKSPACES = "/api/v1/workspaces"


def _call(client: Any, workspace: str, tool: str, **arguments: object) -> Any:
    answer = client.post(f"{WORKSPACES}/{workspace}/calls", json={"tool": tool, "arguments": arguments})
    assert answer.status_code == 200, answer.text
    return answer.json()["data"]


@pytest.fixture
def desk(client: TestClient) -> str:
    """A workspace of the local user."""
    made = client.post(WORKSPACES, json={"id": "desk"})
    assert made.status_code == 201, made.text
    return "desk"


def test_a_caller_works_in_a_workspace_from_call_to_call(client: TestClient, desk: str, script: Any) -> None:
    folder = script("print(40 + 2)\n")
    client.post("/api/v1/catalog/refresh")
    began = _call(client, desk, "bash", command="mkdir -p src; cd src; export UNIT=metre")
    assert (began["ok"], began["fresh"], began["exit_code"]) == (True, False, 0)
    _call(client, desk, "file_write", file_path="size.py", content="import os\nprint(3, os.environ['UNIT'])\n")
    assert _call(client, desk, "bash", command="python3 size.py")["text"] == "3 metre"
    assert _call(client, desk, "bash", command=f"python3 {folder}/scripts/add.py")["text"] == "42"
    assert _call(client, desk, "code_run", language="python", code="print(7 * 6)")["text"] == "42"
    failed = _call(client, desk, "bash", command="exit 3")
    assert (failed["ok"], failed["code"], failed["exit_code"]) == (False, "command_failed", 3)
    assert _call(client, desk, "bash", command="cat /etc/shadow")["code"] == "command_failed"
    detail = client.get(f"{WORKSPACES}/{desk}").json()["data"]
    assert (detail["open"], detail["owner"], Path(detail["working_folder"]).name) == (True, "default/local user", "src")
    assert client.delete(f"{WORKSPACES}/{desk}/session").status_code == 204
    fresh = _call(client, desk, "bash", command="echo $UNIT; cat src/size.py | wc -l")
    assert (fresh["fresh"], fresh["text"].endswith("\n2")) == (True, True)


def test_files_are_put_listed_taken_and_deleted(client: TestClient, desk: str) -> None:
    at = f"{WORKSPACES}/{desk}/files"
    put = client.put(f"{at}/in/data.csv", content=b"a,b\n1,2\n")
    assert (put.status_code, put.json()["data"]["path"], put.json()["data"]["size"]) == (201, "in/data.csv", 8)
    _call(client, desk, "bash", command="cp in/data.csv out.csv; ln -s /etc/passwd link; mkdir .hidden; touch .hidden/a")
    assert [file["path"] for file in client.get(at).json()["data"]] == ["in/data.csv", "out.csv"]
    assert ".hidden/a" in str(client.get(at, params={"hidden": True}).json())
    taken = client.get(f"{at}/out.csv")
    assert (taken.content, taken.headers["content-type"]) == (b"a,b\n1,2\n", "text/plain; charset=utf-8")
    assert client.get(f"{at}/out.csv", headers={"Range": "bytes=0-2"}).content == b"a,b"
    for refused, code in {"link": "path_refused", "..%2fused": "path_refused", "missing": "file_not_found"}.items():
        assert client.get(f"{at}/{refused}").json()["code"] == code, refused
    assert client.put(f"{at}/link/a", content=b"x").json()["code"] == "path_refused"
    archive = client.get(f"{WORKSPACES}/{desk}/archive")
    with zipfile.ZipFile(io.BytesIO(archive.content)) as packed:
        assert {name: packed.read(name) for name in packed.namelist()} == {
            "in/": b"", "in/data.csv": b"a,b\n1,2\n", "out.csv": b"a,b\n1,2\n"
        }  # fmt: skip
    assert [client.delete(f"{at}/out.csv").status_code for _ in range(2)] == [204, 204]
    assert [file["path"] for file in client.get(at).json()["data"]] == ["in/data.csv"]


def test_deleting_ends_what_works_and_can_be_repeated(client: TestClient, desk: str, home: Path) -> None:
    started = _call(client, desk, "bash", command="chmod 0 . ; sleep 600", background=True)
    assert client.get(f"{WORKSPACES}/{desk}").json()["data"]["processes"][0]["id"] == started["process"]
    assert client.post(WORKSPACES, json={"id": desk}).json()["code"] == "record_exists"
    assert [client.delete(f"{WORKSPACES}/{desk}").status_code for _ in range(2)] == [204, 204]
    assert client.get(f"{WORKSPACES}/{desk}").json()["code"] == "record_not_found"
    assert client.get(WORKSPACES).json()["data"] == []
    assert list(home.rglob("workspaces/*")) == []
    assert client.post(WORKSPACES, json={"id": desk}).status_code == 201
    assert _call(client, desk, "file_list")["text"] == "The folder is empty."


def test_an_id_is_one_plain_name(client: TestClient) -> None:
    for workspace_id in ("a/files", "../a", ".a", "a b", "ä", "a\n"):
        assert client.post(WORKSPACES, json={"id": workspace_id}).json()["code"] == "path_refused", workspace_id
    assert client.post(WORKSPACES, json={"id": "a" * 129}).json()["code"] == "invalid_input"
    assert client.get(WORKSPACES).json()["data"] == []


def test_what_cannot_be_a_call_is_refused(client: TestClient, desk: str) -> None:
    calls = f"{WORKSPACES}/{desk}/calls"
    assert client.post(calls, json={"tool": "rm"}).json()["code"] == "invalid_input"
    assert client.post(calls, json={"tool": "bash", "more": 1}).json()["code"] == "invalid_input"
    assert _call(client, desk, "bash", colour="red")["code"] == "invalid_input"
    assert client.post(f"{WORKSPACES}/nothing/calls", json={"tool": "bash"}).json()["code"] == "record_not_found"


@pytest.mark.both_databases
def test_each_caller_has_workspaces_of_their_own(keyed: Any) -> None:
    ada, bob = (keyed.lasting("workspaces:use", name=name) for name in ("ada", "bob"))
    reader = keyed.lasting("skills:read", "runs:execute")
    guest = keyed.lasting("workspaces:use", "admin", organisation="acme")
    admin = keyed.lasting("admin")
    assert ada.post(WORKSPACES, json={"id": "desk"}).status_code == 201
    assert _call(ada, "desk", "bash", command="echo 3 > a.txt")["ok"]
    assert bob.get(WORKSPACES).json()["data"] == []
    for path in ("", "/files", "/files/a.txt", "/archive"):
        assert bob.get(f"{WORKSPACES}/desk{path}").json()["code"] == "not_yours"
        assert guest.get(f"{WORKSPACES}/desk{path}").json()["code"] == "record_not_found"
        assert reader.get(f"{WORKSPACES}/desk{path}").json()["code"] == "permission_denied"
    assert bob.post(f"{WORKSPACES}/desk/calls", json={"tool": "bash"}).json()["code"] == "not_yours"
    assert bob.post(WORKSPACES, json={"id": "desk"}).json()["code"] == "record_exists"
    assert guest.post(WORKSPACES, json={"id": "desk"}).status_code == 201, "an organisation is a home of its own"
    assert _call(guest, "desk", "file_list")["text"] == "The folder is empty."
    assert admin.get(f"{WORKSPACES}/desk/files/a.txt").text == "3\n"
    recorded = [
        (one["actor"], one["action"], one["subject"], one["outcome"]) for one in admin.get("/api/v1/audit").json()["data"]
    ]
    assert ("ada", "workspaces.create_workspace", "desk", "success") in recorded
    assert ("ada", "workspaces.call_workspace_tool", "desk: bash", "success") in recorded
    assert ("bob", "workspaces.call_workspace_tool", "desk", "refused") in recorded


@pytest.fixture
def limited(home: Path) -> FastAPI:
    """A server of which little may be asked at once."""
    (home / ".config/skillyard").mkdir(parents=True)
    (home / ".config/skillyard/skillyard.toml").write_text(
        "[server.workspaces]\neach = 3\nsessions-each = 2\n[workspace]\nquota-mb = 1\n"
        '[permissions.commands]\ndeny = ["Bash(rm:*)", "Read(secret/**)"]\nask = ["Bash(git:*)"]\n',
        "utf-8",
    )
    catalog = Catalog.discover(cwd=home / "project", home=home)
    return create_app(catalog, Registry.of(catalog), access_policy=AccessPolicy())


def test_limits_are_said_and_what_is_unused_makes_room(limited: FastAPI) -> None:
    with TestClient(limited, base_url="http://127.0.0.1:8787") as client:
        for name in "abc":
            assert client.post(WORKSPACES, json={"id": name}).status_code == 201
        assert client.post(WORKSPACES, json={}).json()["code"] == "too_many_workspaces"
        _call(client, "a", "bash", command="export KEPT=yes")
        _call(client, "b", "bash", command="sleep 600", background=True)
        _call(client, "c", "bash", command="sleep 600", background=True)
        assert not client.get(f"{WORKSPACES}/a").json()["data"]["open"], "nobody used its session"
        busy = client.post(f"{WORKSPACES}/a/calls", json={"tool": "bash", "arguments": {"command": "true"}})
        assert (busy.status_code, busy.json()["code"], busy.headers["retry-after"]) == (429, "too_many_sessions", "5")
        stream = {"accept": "text/event-stream"}
        refused = client.post(f"{WORKSPACES}/a/calls", json={"tool": "file_list"}, headers=stream)
        assert refused.json()["code"] == "too_many_sessions"
        client.delete(f"{WORKSPACES}/b/session")
        assert _call(client, "a", "bash", command="true")["fresh"]
        full = client.put(f"{WORKSPACES}/a/files/big", content=b"x" * 1_100_000)
        assert full.json()["code"] == "disk_full"


def test_the_rules_about_commands_hold_wherever_the_shell_stands_and_nobody_is_asked(limited: FastAPI) -> None:
    with TestClient(limited, base_url="http://127.0.0.1:8787") as client:
        client.post(WORKSPACES, json={"id": "a"})
        client.put(f"{WORKSPACES}/a/files/secret/key", content=b"k3y")
        asked = _call(client, "a", "bash", command="git status")
        assert (asked["code"], "there is nobody to ask" in asked["text"]) == ("approval_rejected", True)
        assert _call(client, "a", "bash", command="cd secret")["ok"]
        assert _call(client, "a", "bash", command="rm -f key")["code"] == "permission_denied"
        for tool, arguments in {"bash": {"command": "cat key"}, "file_read": {"file_path": "key"}}.items():
            denied = _call(client, "a", tool, **arguments)
            assert (denied["code"], "rule `deny Read(secret/**)`" in denied["text"]) == (
                "permission_denied",
                True,
            )


def test_output_is_streamed_and_a_client_that_leaves_ends_the_command(live: httpx.Client) -> None:
    live.post(WORKSPACES, json={"id": "desk"})
    calls, accept = f"{WORKSPACES}/desk/calls", {"Accept": "text/event-stream"}
    command = "echo first; until [ -e go ]; do sleep 0.02; done; echo second >&2; exit 3"
    events = []
    with live.stream("POST", calls, json={"tool": "bash", "arguments": {"command": command}}, headers=accept) as answer:
        for line in answer.iter_lines():
            if line.startswith("data:"):
                events.append(json.loads(line.removeprefix("data:")))
            if len(events) == 1 and line.startswith("data:"):
                live.put(f"{WORKSPACES}/desk/files/go", content=b"")
    assert [(one["event"], one.get("stream"), one.get("text")) for one in events[:-1]] == [
        ("output", "stdout", "first\n"),
        ("output", "stderr", "second\n"),
    ]
    assert (events[-1]["event"], events[-1]["answer"]["exit_code"]) == ("end", 3)
    with live.stream(
        "POST", calls, json={"tool": "bash", "arguments": {"command": "echo on; sleep 600; touch late"}}, headers=accept
    ) as left:
        next(left.iter_lines())
    after = live.post(calls, json={"tool": "bash", "arguments": {"command": "ls; pgrep -c sleep"}}).json()["data"]
    assert after["text"].splitlines()[:2] == ["go", "0"], "the next command waits for the end of the one before"


def test_a_client_that_waits_for_an_answer_and_leaves_ends_the_command(live: httpx.Client) -> None:
    live.post(WORKSPACES, json={"id": "desk"})
    body = json.dumps({"tool": "bash", "arguments": {"command": "touch begun; sleep 600"}}).encode()
    head = f"POST {WORKSPACES}/desk/calls HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    with socket.create_connection((live.base_url.host, live.base_url.port)) as waiting:
        waiting.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        while "begun" not in live.get(f"{WORKSPACES}/desk/files").text:
            pass
    after = live.post(f"{WORKSPACES}/desk/calls", json={"tool": "bash", "arguments": {"command": "ls; pgrep -c sleep"}})
    assert after.json()["data"]["text"].splitlines()[:2] == ["begun", "0"]


def test_where_several_processes_serve_each_call_has_a_session_of_its_own(home: Path) -> None:
    catalog = Catalog.discover(cwd=home / "project", home=home)
    app = create_app(catalog, Registry.of(catalog), access_policy=AccessPolicy(), alone=False)
    with TestClient(app, base_url="http://127.0.0.1:8787") as client:
        client.post(WORKSPACES, json={"id": "desk"})
        _call(client, "desk", "bash", command="export KEPT=yes; echo 3 > a.txt")
        after = _call(client, "desk", "bash", command="echo ${KEPT:-no}; cat a.txt")
        assert (after["fresh"], after["text"].splitlines()[-2:]) == (True, ["no", "3"])
        assert not client.get(f"{WORKSPACES}/desk").json()["data"]["open"]
        background = {"tool": "bash", "arguments": {"command": "sleep 600", "background": True}}
        assert client.post(f"{WORKSPACES}/desk/calls", json=background).json()["code"] == "invalid_input"
        background = {"tool": "bash", "arguments": {"command": "sleep 600", "background": True}}
        assert client.post(f"{WORKSPACES}/desk/calls", json=background).json()["code"] == "invalid_input"


async def test_first_calls_at_once_share_one_session(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    both = threading.Barrier(2)
    made: list[Workspace] = []

    def make(*arguments: Any, **more: Any) -> Workspace:
        with suppress(threading.BrokenBarrierError):  # what one thread makes alone breaks it
            both.wait(0.3)
        made.append(Workspace(*arguments, **more))
        return made[-1]

    monkeypatch.setattr("skillyard.workspace.workspaces.Workspace", make)
    desks = CallerWorkspaces(
        Catalog.discover(cwd=home / "project", home=home), SessionSlots(WorkspaceLimits(), lasting=True)
    )  # fmt: skip
    record = await desks.create("desk", "ada")
    calls = await asyncio.gather(*(desks.begin_call(record, "bash", {"command": "echo $PPID >> a"}) for _ in range(2)))
    assert [(await call.task).ok for call in calls] == [True, True]
    last = await (await desks.begin_call(record, "bash", {"command": "wc -l < a"})).task
    assert (len(made), last.text, [one.is_open for one in made]) == (1, "2", [True])
    await desks.close()
    assert not made[0].is_open


async def test_a_workspace_that_was_opened_again_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    slots = SessionSlots(WorkspaceLimits(), lasting=False)
    folder = tmp_path / "opened"
    folder.mkdir()
    before, after = Workspace(folder), Workspace(folder)
    first, second = slots.use("ada", before), slots.use("ada", after)
    await first.__aenter__()
    assert (await before.bash("echo 1")).ok
    await second.__aenter__()
    assert (await after.bash("echo 2")).ok
    assert (before.is_open, after.is_open) == (False, True)
    await first.__aexit__(None, None, None)
    assert after.is_open, "the end of a call ends no session but its own"
    await second.__aexit__(None, None, None)
    assert not after.is_open
