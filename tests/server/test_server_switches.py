"""Skills over HTTP: made for the user or the project, and all of them switched at once."""

from __future__ import annotations

from pathlib import Path

from starlette.testclient import TestClient

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
