"""Skills over HTTP: made for the user or the project, and all of them switched at once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from skillyard.server.routes import skill_routes

CATALOG = "/api/v1/catalog"
_NEW = {"description": "Does one thing. Use in a test.", "instructions": "# Do it"}


def test_a_skill_is_made_for_the_user_or_the_project(client: TestClient, home: Path) -> None:
    assert client.post(CATALOG, json=_NEW | {"name": "mine"}).json()["data"]["id"] == "user:mine"
    made = client.post(CATALOG, json=_NEW | {"name": "ours", "source": "project"})
    assert made.json()["data"]["id"] == "project:ours"
    assert (home / "project" / ".claude" / "skills" / "ours" / "SKILL.md").is_file()
    assert client.post(CATALOG, json=_NEW | {"name": "theirs", "source": "plugin"}).status_code == 400


def test_all_skills_are_switched_at_once(client: TestClient) -> None:
    client.post(CATALOG, json=_NEW | {"name": "mine"})
    assert client.get(f"{CATALOG}/enabled").json()["data"] is True
    assert client.put(f"{CATALOG}/enabled", json={"enabled": False}).json()["data"] is False
    assert client.get(f"{CATALOG}/skill", params={"skill": "mine"}).json()["data"]["status"] == "disabled"
    assert client.put(f"{CATALOG}/enabled", json={"enabled": True}).status_code == 200
    assert client.get(f"{CATALOG}/skill", params={"skill": "mine"}).json()["data"]["status"] == "ok"


def test_a_folder_is_opened_only_for_who_sits_at_the_machine(app: FastAPI, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(skill_routes, "open_folder", lambda folder: not opened.append(folder))
    monkeypatch.setattr(skill_routes, "has_desktop", lambda: True)
    here = TestClient(app, base_url="http://127.0.0.1:8787", client=("127.0.0.1", 50_000))
    here.post(CATALOG, json=_NEW | {"name": "mine"})
    assert here.get(f"{CATALOG}/opening").json()["data"] is True
    assert here.post(f"{CATALOG}/open", json={"skill": "mine"}).json()["data"] is True
    assert opened == [str(home / ".claude/skills/mine")]
    elsewhere = TestClient(app, base_url="http://127.0.0.1:8787", client=("192.0.2.7", 50_000))
    assert elsewhere.get(f"{CATALOG}/opening").json()["data"] is False
    refused = elsewhere.post(f"{CATALOG}/open", json={"skill": "mine"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "permission_denied")
    passed_on = here.post(f"{CATALOG}/open", json={"skill": "mine"}, headers={"X-Forwarded-For": "192.0.2.7"})
    assert passed_on.status_code == 401
    assert len(opened) == 1


@pytest.mark.row("001-23")
def test_a_conversation_works_in_a_project_for_who_sits_at_the_machine(
    app: FastAPI, home: Path, make_skill: Callable[..., Path], models: Any
) -> None:
    make_skill(home / "other/.claude/skills", "elsewhere")
    new = {"model": "openai-chat:gpt-5", "folder": str(home / "other")}
    with TestClient(app, base_url="http://127.0.0.1:8787", client=("127.0.0.1", 50_000)) as here:
        begun = here.post("/api/v1/chat/conversations", json=new).json()["data"]
        assert begun["folder"] == str(home / "other")
        own = here.post("/api/v1/chat/conversations", json=new | {"folder": None}).json()["data"]
        offered = [
            [one["name"] for one in here.get("/api/v1/chat/commands", params={"conversation": shown["id"]}).json()["data"]]
            for shown in (begun, own)
        ]
        assert ("elsewhere" in offered[0], "elsewhere" in offered[1], own["folder"]) == (True, False, None)
        assert here.post("/api/v1/chat/conversations", json=new | {"folder": "/etc"}).status_code == 403
        far = TestClient(app, base_url="http://127.0.0.1:8787", client=("192.0.2.7", 50_000))
        refused = far.post("/api/v1/chat/conversations", json=new)
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "permission_denied")


@pytest.mark.row("001-23", "D-28")
def test_a_session_of_tools_works_in_a_project_for_who_sits_at_the_machine(
    app: FastAPI, home: Path, make_skill: Callable[..., Path]
) -> None:
    make_skill(home / "other/.claude/skills", "elsewhere")
    named = {"folder": str(home / "other")}
    call = {"name": "skill", "arguments": {"skill": "elsewhere"}}
    with TestClient(app, base_url="http://127.0.0.1:8787", client=("127.0.0.1", 50_000)) as here:
        assert "elsewhere" in here.get("/api/v1/prompt", params=named).json()["data"]["text"]
        assert "elsewhere" in here.get("/api/v1/tool-definitions", params=named).text
        assert here.post("/api/v1/tools/call", json=call | named).json()["data"]["ok"] is True
        make_skill(home / "other/.claude/skills", "later")
        assert "later" in here.get("/api/v1/tool-definitions", params=named).text
        assert here.delete("/api/v1/tools/sessions/default", params=named).status_code == 200
        for text in (here.get("/api/v1/prompt").text, here.get("/api/v1/tool-definitions").text):
            assert "elsewhere" not in text
        assert here.post("/api/v1/tools/call", json=call).json()["data"]["code"] == "skill_not_found"
        far = TestClient(app, base_url="http://127.0.0.1:8787", client=("192.0.2.7", 50_000))
        refused = [far.get("/api/v1/prompt", params=named), far.post("/api/v1/tools/call", json=call | named)]
        assert [answer.status_code for answer in refused] == [403, 403]


def test_a_set_is_chosen_and_skills_are_found_by_what_is_wanted_of_them(client: TestClient) -> None:
    client.post(CATALOG, json=_NEW | {"name": "mine"})
    client.put(f"{CATALOG}/state", json={"skill": "mine", "state": "pinned"})
    assert [one["id"] for one in client.get(CATALOG, params={"state": "pinned"}).json()["data"]] == ["user:mine"]
    assert client.get(f"{CATALOG}/facets").json()["data"]["state"]["pinned"] == 1
    assert client.get(f"{CATALOG}/sets").json()["data"] == {"chosen": None, "sets": {}}
    assert client.put(f"{CATALOG}/sets", json={"name": "other"}).status_code == 404
    assert client.put(f"{CATALOG}/sets", json={"name": None}).json()["data"]["chosen"] is None
