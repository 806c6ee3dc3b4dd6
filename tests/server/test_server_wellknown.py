"""What the server publishes is what a client of the discovery index installs, byte for byte, and nothing that a rule hides."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from skillyard import Catalog
from skillyard.packages import digest_of
from skillyard.registry import Registry, SourceFetcher
from skillyard.server import create_app

INDEX = "/.well-known/agent-skills/index.json"
Pack = Callable[..., bytes]


def _install(client: TestClient, data: bytes) -> None:
    answer = client.post("/api/v1/skill-definitions/upload-create", files={"file": ("skill.zip", data)})
    assert answer.status_code == 201, answer.text


def test_the_index_lists_each_skill_with_the_digest_of_what_it_leads_to(client: TestClient, pack: Pack) -> None:
    assert client.get(INDEX).json()["skills"] == []
    for name in ("one", "two"):
        _install(client, pack(name, files={"scripts/run.sh": "true"}))
    index = client.get(INDEX)
    assert index.headers["access-control-allow-origin"] == "*"
    assert [(skill["name"], skill["type"]) for skill in index.json()["skills"]] == [("one", "archive"), ("two", "archive")]
    for skill in index.json()["skills"]:
        current = client.get(f"/api/v1/skill-definitions/{skill['name']}/versions").json()["data"][0]
        assert skill["version"] in (current["version"], current["declared_version"])
        answer = client.get(f"/.well-known/agent-skills/{skill['url']}")
        assert digest_of(answer.content) == skill["digest"]
        assert client.get(str(answer.url), headers={"If-None-Match": answer.headers["etag"]}).status_code == 304
    assert client.get("/.well-known/agent-skills/three.zip").status_code == 404


def test_another_home_installs_and_updates_from_the_server(address: str, app: FastAPI, pack: Pack, tmp_path: Path) -> None:
    with TestClient(app, base_url=address) as client:
        _install(client, pack("tidy", body="One."))
        other = Registry(str(tmp_path / "other"), fetcher=SourceFetcher(allow_private=True))
        (installed,) = other.install(address).results
        assert installed.digest == app.state.pool.main.registry.installed.current("tidy").digest
        assert other.update("tidy").results[0].status == "unchanged"
        _install(client, pack("tidy", body="Two."))
        assert other.update("tidy").results[0].status == "updated"
        other.close()


@pytest.mark.parametrize("rule", ["deny", "ask"])
def test_what_a_rule_hides_is_not_published(home: Path, pack: Pack, rule: str) -> None:
    (home / "project/skillyard.toml").write_text(f'[permissions.skills]\ntidy = "{rule}"\n')
    catalog = Catalog.discover(cwd=home / "project", home=home)
    with TestClient(create_app(catalog, Registry.of(catalog)), base_url="http://127.0.0.1:8787") as client:
        _install(client, pack("tidy"))
        client.post("/api/v1/catalog/refresh")
        assert client.get(INDEX).json()["skills"] == []
        assert client.get("/.well-known/agent-skills/tidy.zip").status_code == 403
