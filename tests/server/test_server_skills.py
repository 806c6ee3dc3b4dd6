"""The calls of document 001 as routes, and runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from starlette.testclient import TestClient

CATALOG = "/api/v1/catalog"


@pytest.mark.row("001-21", "001-24", "001-25", "001-26", "001-27")
def test_a_skill_is_made_read_switched_and_deleted(client: TestClient, home: Path) -> None:
    made = client.post(CATALOG, json={"name": "mine", "description": "Says: hello.", "instructions": "Say it."})
    assert made.status_code == 201, made.text
    skill = made.json()["data"]["id"]
    assert [item["id"] for item in client.get(CATALOG).json()["data"]] == [skill]
    assert "Say it." in client.get(f"{CATALOG}/file", params={"skill": "mine"}).text
    assert client.post(CATALOG, json={"name": "mine", "description": "Again."}).json()["code"] == "skill_exists"
    assert client.post(f"{CATALOG}/toggle", json={"skill": skill}).json()["data"]["status"] == "disabled"
    assert client.post(f"{CATALOG}/toggle", json={"skill": skill}).json()["data"]["status"] == "ok"
    folder = Path(client.get(f"{CATALOG}/folder", params={"skill": skill}).json()["data"])
    assert folder.is_dir()
    assert client.delete(CATALOG, params={"skill": skill}).status_code == 200
    assert not folder.exists()


@pytest.mark.row("001-21")
def test_a_refresh_tells_what_is_new(client: TestClient, home: Path) -> None:
    folder = home / "project/.claude/skills/late"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: late\ndescription: Comes late.\n---\n", "utf-8")
    assert client.post(f"{CATALOG}/refresh").json()["data"] == {"added": ["project:late"], "changed": [], "removed": []}
    refused = client.delete(CATALOG, params={"skill": "late"})
    assert (refused.status_code, refused.json()["code"]) == (403, "delete_refused")


def _script(home: Path, body: str) -> None:
    folder = home / "project/.claude/skills/adder"
    (folder / "scripts").mkdir(parents=True)
    header = "name: adder\ndescription: Adds.\ntype: direct\nresources:\n  entry: ./scripts/add.py\n"
    (folder / "SKILL.md").write_text(f"---\n{header}---\n", "utf-8")
    (folder / "scripts/add.py").write_text(body, "utf-8")


def test_a_run_is_started_listed_and_looked_at(client: TestClient, home: Path) -> None:
    _script(home, "def execute(parameters):\n    return {'output': parameters['a'] + parameters['b']}\n")
    client.post(f"{CATALOG}/refresh")
    answer = client.post("/api/v1/runs", json={"skill": "adder", "parameters": {"a": 1, "b": 2}})
    assert answer.status_code == 201, answer.text
    run = answer.json()["data"]
    assert (run["status"], run["output"]) == ("ok", 3)
    assert [one["run_id"] for one in client.get("/api/v1/runs").json()["data"]] == [run["run_id"]]
    assert client.get(f"/api/v1/runs/{run['run_id']}").json()["data"]["state"] == "succeeded"
    assert client.get("/api/v1/runs/run_none").json()["code"] == "record_not_found"


def test_a_script_that_fails_is_a_run_and_no_error(client: TestClient, home: Path) -> None:
    _script(home, "def execute(parameters):\n    raise ValueError('no')\n")
    client.post(f"{CATALOG}/refresh")
    run = client.post("/api/v1/runs", json={"skill": "adder"}).json()["data"]
    assert run["status"] == "error"


@pytest.mark.parametrize(("rule", "code"), [("deny", "permission_denied"), ("ask", "approval_rejected")])
def test_a_rule_holds_over_http(home: Path, pack: Callable[..., bytes], rule: str, code: str) -> None:
    from skillyard import Catalog
    from skillyard.registry import Registry
    from skillyard.server import create_app

    _script(home, "def execute(parameters):\n    return {'output': 1}\n")
    (home / "project/skillyard.toml").write_text(f'[permissions.skills]\n"*" = "{rule}"\n', "utf-8")
    catalog = Catalog.discover(cwd=home / "project", home=home)
    with TestClient(create_app(catalog, Registry.of(catalog)), base_url="http://localhost") as client:
        answer = client.post("/api/v1/runs", json={"skill": "adder"})
        assert (answer.status_code, answer.json()["code"]) == (403, code)
        assert client.get(f"{CATALOG}/file", params={"skill": "adder"}).json()["code"] == code
        sent = client.post("/api/v1/skill-definitions/upload-create", files={"file": ("tidy.zip", pack())})
        assert sent.status_code == 201
        for what in ("preview", "files/SKILL.md"):
            assert client.get(f"/api/v1/skill-definitions/tidy/{what}").json()["code"] == code
