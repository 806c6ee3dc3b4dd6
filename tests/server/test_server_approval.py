"""Versions that wait for approval: who sees them, who decides, and what others are given meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.testclient import TestClient

from skillyard import Catalog
from skillyard.access import Keys
from skillyard.registry import Registry
from skillyard.server import AccessPolicy, create_app

Pack = Callable[..., bytes]
Ask = Callable[..., httpx.Response]
_POLICY = '[packages.approval]\nsources = ["upload"]\nsecond-person = ["scripts"]\n'
_DEFINITIONS = "/api/v1/skill-definitions"
_WAITING = "/api/v1/approvals/versions"


@pytest.fixture
def member(home: Path) -> Iterator[Callable[..., Ask]]:
    """Give a function that makes a key, and what asks with it, on a server whose policy wants approvals."""
    (home / ".config/skillyard").mkdir(parents=True, exist_ok=True)
    (home / ".config/skillyard/skillyard.toml").write_text(_POLICY, "utf-8")
    catalog = Catalog.discover(cwd=home / "project", home=home)
    app = create_app(catalog, Registry.of(catalog), access_policy=AccessPolicy(keys_required=True))
    keys = Keys(lambda: catalog.records().database)
    with TestClient(app, base_url="http://127.0.0.1:8787") as client:

        def make(name: str, *scopes: str) -> Ask:
            headers = {"Authorization": f"Bearer {keys.create(name, scopes)[1]}"}
            return lambda method, path, **rest: client.request(method, path, headers=headers, **rest)

        yield make


def _publish(ask: Ask, data: bytes, version: str) -> dict[str, Any]:
    def send(**query: str) -> httpx.Response:
        query["version"] = version
        return ask("POST", f"{_DEFINITIONS}/upload-create", params=query, files={"file": ("s.zip", data)})

    answer = send()
    if answer.status_code == 403:
        answer = send(consent=answer.json()["consent"])
    assert answer.status_code == 201, answer.text
    return dict(answer.json()["data"]["results"][0])


def _decide(ask: Ask, version: str, **body: object) -> httpx.Response:
    return ask("POST", f"{_DEFINITIONS}/tidy/versions/{version}/approve", json=body)


def test_a_team_approves_exact_versions(member: Callable[..., Ask], pack: Pack) -> None:
    ada = member("ada", "skills:read", "skills:write", "skills:approve")
    carol, bob = member("carol", "skills:read", "skills:approve"), member("bob", "skills:read")
    root = member("root", "admin")
    first = _publish(ada, pack(), "1.0.0")
    assert (first["status"], _publish(ada, pack(), "1.0.0")["status"]) == ("waiting", "waiting")  # it waits once
    assert bob("GET", f"{_DEFINITIONS}/tidy/versions/current").status_code == 404
    listed = bob("GET", "/api/v1/catalog")
    assert (listed.status_code, "tidy" in listed.text) == (200, False)
    waiting = bob("GET", _WAITING).json()["data"]
    assert [(one["skill_id"], one["label"], one["asked_by"], one["reasons"]) for one in waiting] == [
        ("tidy", "1.0.0", "ada", ["what comes from upload is approved first"])
    ]
    assert "needs skills:approve" in waiting[0]["refusal"]
    refused = _decide(bob, "waiting")
    assert (refused.status_code, refused.json()["code"]) == (403, "permission_denied")
    other = _decide(carol, "1.0.0", digest="sha256:" + "0" * 64)
    assert (other.status_code, other.json()["code"]) == (422, "digest_mismatch")
    approved = _decide(ada, "waiting", digest=waiting[0]["digest"], reason="text only").json()["data"]
    assert (approved["approval"], approved["approval_by"], approved["current"]) == ("approved", "ada", True)

    second = _publish(ada, pack(body="Run it.", files={"scripts/go.py": "print(1)\n"}), "1.1.0")
    assert (second["status"], second["previous"]) == ("waiting", first["version"])
    alone = _decide(ada, "1.1.0")
    assert (alone.status_code, alone.json()["code"]) == (403, "second_person_required")
    archive = f"{_DEFINITIONS}/tidy/archive"
    assert [bob("GET", archive, params={"version": name}).status_code for name in ("1.0.0", "1.1.0")] == [200, 403]
    assert carol("GET", archive, params={"version": "1.1.0"}).status_code == 200  # who may approve it reads it
    assert bob("GET", f"{_DEFINITIONS}/tidy/versions/1.0.0/diff/1.1.0").status_code == 200
    back = root("POST", f"{_DEFINITIONS}/tidy/rollback", json={"version": second["version"], "force": True})
    assert (back.status_code, back.json()["code"]) == (403, "version_not_approved")
    assert "has the script scripts/go.py" in carol("GET", _WAITING).json()["data"][0]["widened"]
    assert _decide(carol, "1.1.0").json()["data"]["current"] is True

    gone = _decide(carol, "1.1.0", undo=True, reason="it prints").json()["data"]
    assert (gone["approval"], gone["approval_reason"], gone["current"]) == ("withdrawn", "it prints", False)
    assert bob("GET", f"{_DEFINITIONS}/tidy/versions/current").json()["data"]["version"] == first["version"]
    assert [one["skill_id"] for one in bob("GET", _WAITING, params={"state": "withdrawn"}).json()["data"]] == ["tidy"]
    trail = root("GET", "/api/v1/audit", params={"subject": "tidy", "limit": 100}).json()["data"]
    said = [(one["actor"], one["action"], one["outcome"]) for one in trail if one["action"] in ("approve", "withdraw")]
    assert said == [("carol", "withdraw", "success"), ("carol", "approve", "success"), ("ada", "approve", "success")]
    tried = root("GET", "/api/v1/audit", params={"action": "versions.approve", "limit": 100}).json()["data"]
    assert {(one["actor"], one["outcome"]) for one in tried} >= {("ada", "refused"), ("bob", "refused")}


@pytest.mark.parametrize(("path", "status"), [("nothing/versions/waiting", 404), ("tidy/versions/9.9.9", 404)])
def test_what_is_not_there_cannot_be_approved(member: Callable[..., Ask], pack: Pack, path: str, status: int) -> None:
    ada = member("ada", "skills:read", "skills:write", "skills:approve")
    _publish(ada, pack(), "1.0.0")
    answer = ada("POST", f"{_DEFINITIONS}/{path}/approve", json={})
    assert (answer.status_code, answer.json()["code"].endswith("_not_found")) == (status, True)
    assert ada("GET", _WAITING, params={"state": "odd"}).status_code == 400
