"""What a model is given and may call over HTTP, what is remembered, and what is said of the machine."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import preloaded
import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from skillyard.access import Keys
from skillyard.memory import Memory

Pack = Callable[..., bytes]
Script = Callable[..., Path]
MEMORIES = "/api/v1/memories"


@pytest.fixture
def installed(client: TestClient, pack: Pack) -> TestClient:
    """A client of a server with one skill."""
    client.post("/api/v1/skill-definitions/upload-create", files={"file": ("tidy.zip", pack(body="Put it away."))})
    return client


@pytest.mark.row("001-14", "003-9")
@pytest.mark.parametrize(("dialect", "where"), [("openai", "function"), ("anthropic", None), ("mcp", None)])
def test_the_tools_are_defined_in_the_words_of_each_api(installed: TestClient, dialect: str, where: str | None) -> None:
    reported = installed.get("/api/v1/tool-definitions", params={"dialect": dialect, "language": "zh"}).json()["data"]
    names = {(tool[where] if where else tool)["name"] for tool in reported["tools"]}
    assert {"skill", "read_skill_file"} <= names
    assert installed.get("/api/v1/tool-definitions", params={"dialect": "other"}).status_code == 400


def test_a_tool_is_called_and_its_session_remembers(installed: TestClient) -> None:
    call = {"name": "skill", "arguments": json.dumps({"name": "tidy"}), "session": "s1"}
    first = installed.post("/api/v1/tools/call", json=call).json()["data"]
    assert (first["ok"], "Put it away." in first["text"]) == (True, True)
    again = installed.post("/api/v1/tools/call", json=call).json()["data"]
    assert "Put it away." not in again["text"]
    assert installed.delete("/api/v1/tools/sessions/s1").status_code == 200
    assert "Put it away." in installed.post("/api/v1/tools/call", json=call).json()["data"]["text"]
    unknown = installed.post("/api/v1/tools/call", json={"name": "nothing"}).json()["data"]
    assert (unknown["ok"], unknown["code"]) == (False, "unknown_tool")


def test_the_index_is_written_within_its_budget(installed: TestClient) -> None:
    reported = installed.get("/api/v1/prompt", params={"style": "xml-index"}).json()["data"]
    assert reported["text"].startswith("<available_skills>")
    assert reported["kept"] == ["installed:tidy"]
    none = installed.get("/api/v1/prompt", params={"budget": 1}).json()["data"]
    assert (none["text"], none["omitted"][0]["id"]) == ("", "installed:tidy")


@pytest.mark.row("000-42", "000-44")
def test_memories_are_the_caller_s_own(client: TestClient, script: Script) -> None:
    saved = client.post(MEMORIES, json={"content": "likes green tea", "tags": ["drink"], "type": "preference"})
    assert saved.status_code == 201, saved.text
    memory = saved.json()["data"]
    assert client.get(MEMORIES).json()["data"] == [memory]
    assert (memory["owner_type"], memory["owner_id"]) == ("user", "default/local user")
    (found,) = client.get(f"{MEMORIES}/recall", params={"q": "green tea", "tag": "drink"}).json()["data"]
    assert (found["id"], found["score"]) == (memory["id"], 1.0)
    assert client.get(f"{MEMORIES}/recall", params={"q": "green tea", "tag": "food"}).json()["data"] == []
    assert client.delete(f"{MEMORIES}/{memory['id']}").status_code == 200
    assert client.delete(f"{MEMORIES}/{memory['id']}").json()["code"] == "record_not_found"
    assert client.post(MEMORIES, json={"content": "x", "importance": 2}).status_code == 400


@pytest.mark.row("000-44")
def test_an_admin_alone_sees_the_memories_of_other_owners(client: TestClient, app: FastAPI) -> None:
    services = app.state.pool.main
    memory = Memory("the door is green", metadata={"ownerType": "household", "ownerId": "home"})
    saved = asyncio.run(services.catalog.memory().save(memory))
    assert client.get(MEMORIES).json()["data"] == []
    (found,) = client.get(MEMORIES, params={"owner": "household:home"}).json()["data"]
    assert (found["id"], found["owner_type"], found["owner_id"]) == (saved.id, "household", "home")
    _, secret = Keys(app.state.pool.database).create("ada", ["runs:execute"])
    ada = {"X-API-Key": secret}
    for address in (MEMORIES, f"{MEMORIES}/recall"):
        assert client.get(address, params={"q": "door", "owner": "household:home"}, headers=ada).status_code == 403
    assert client.get(MEMORIES, params={"owner": "user:default/ada"}, headers=ada).status_code == 200
    assert client.delete(f"{MEMORIES}/{saved.id}").status_code == 404
    assert client.delete(f"{MEMORIES}/{saved.id}", params={"owner": "household:home"}).status_code == 200


def test_what_a_run_wants_remembered_is_the_caller_s(client: TestClient, script: Script) -> None:
    script(
        "import skillyard_sdk as sdk\ndef execute(parameters):\n"
        "    sdk.remember('likes oolong', type='preference', importance=4)\n    return {'output': 1}\n"
    )
    client.post("/api/v1/catalog/refresh")
    run = client.post("/api/v1/runs", json={"skill": "adder"}).json()["data"]
    assert [write["saved"] for write in run["memory_writes"]] == [True], run
    (memory,) = client.get(MEMORIES).json()["data"]
    assert (memory["content"], memory["run_id"]) == ("likes oolong", run["run_id"])


def test_the_settings_are_reported_without_secrets(home: Path) -> None:
    from skillyard import Catalog
    from skillyard.registry import Registry
    from skillyard.server import create_app

    config = home / ".config/skillyard"
    config.mkdir(parents=True)
    config.joinpath("skillyard.toml").write_text(
        '[permissions.skills]\n"deploy*" = "ask"\n[sandbox.environment]\nWEATHER_KEY = "s3cret"\n', "utf-8"
    )
    catalog = Catalog.discover(cwd=home / "project", home=home)
    with TestClient(create_app(catalog, Registry.of(catalog)), base_url="http://localhost") as client:
        reported = client.get("/api/v1/settings")
    assert "s3cret" not in reported.text
    found = reported.json()["data"]
    assert found["permissions"] == [{"pattern": "deploy*", "permission": "ask"}]
    assert found["sandbox"]["environment"] == ["WEATHER_KEY"]
    assert any(root["source"] == "installed" for root in found["roots"])


def test_the_machine_is_examined(client: TestClient) -> None:
    reported = client.get("/api/v1/doctor").json()["data"]
    assert {"python", "records", "git"} <= {check["name"] for check in reported["checks"]}
    assert reported["ok"] is True


def test_a_search_is_narrowed_as_on_the_command_line(installed: TestClient, script: Script) -> None:
    script("print(1)", name="tidier", header="tags: [cleaning]\n")
    installed.post("/api/v1/catalog/refresh")

    def found(**more: Any) -> list[str]:
        answer = installed.get("/api/v1/catalog/search", params={"q": "tidy tidier adds", "min_confidence": 0, **more})
        return sorted(one["name"] for one in answer.json()["data"])

    assert found() == ["tidier", "tidy"]
    assert found(source="installed") == ["tidy"]
    assert found(tag="cleaning") == ["tidier"]
    assert found(permission="ask") == []
    assert installed.get("/api/v1/catalog/event", params={"type": "none"}).json()["data"] == []


def test_what_another_process_installs_is_there_at_once(live: httpx.Client, home: Path, pack: Pack) -> None:
    """Nobody tells the server: it sees the folder change. It would look again after ten seconds anyway."""
    home.joinpath("tidy.zip").write_bytes(pack())
    command = [sys.executable, "-m", "skillyard", "install", str(home / "tidy.zip")]
    preloaded.run(command, check=True, capture_output=True, env=dict(os.environ), cwd=home / "project")
    began = time.monotonic()
    while not [skill for skill in live.get("/api/v1/catalog").json()["data"] if skill["status"] == "ok"]:
        assert time.monotonic() - began < 60
        time.sleep(0.02)
    preloaded.run([*command[:3], "uninstall", "tidy"], check=True, capture_output=True, env=dict(os.environ))
    while live.get("/api/v1/catalog").json()["data"]:
        assert time.monotonic() - began < 120
        time.sleep(0.02)
