"""What the server publishes is what a client of the discovery index installs, byte for byte, and nothing that a rule hides."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from urllib.parse import urljoin

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
        assert skill["version"] == "0.0.1"
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


SITE = "/.well-known/agent-skills"


def test_versions_are_given_as_the_proposal_has_them(client: TestClient, pack: Pack) -> None:
    """agentskills/agentskills, pull request 380: a list of versions, and an index at each that does not change."""
    for number in ("1.0.0", "1.10.0", "1.9.0"):
        _install(client, pack("tidy", body=f"Body {number}.", header=f"version: {number}\n"))
    _install(client, pack("other", header="version: 1.9.0\n"))
    listed = client.get(f"{SITE}/versions.json")
    assert listed.headers["content-type"] == "application/json"
    assert listed.json() == {"latest": "1.9.0", "versions": ["1.0.0", "1.9.0", "1.10.0"]}
    assert client.get(f"/@other{SITE}/versions.json").json() == {"latest": "1.9.0", "versions": ["1.9.0"]}
    assert [one["name"] for one in client.get(f"{SITE}/v1.9.0/index.json").json()["skills"]] == ["other", "tidy"]
    seen = 0
    for where in (SITE, f"/@tidy{SITE}"):
        (entry,) = client.get(f"{where}/v1.10.0/index.json").json()["skills"]
        assert (entry["name"], entry["version"], entry["type"]) == ("tidy", "1.10.0", "archive")
        answer = client.get(urljoin(f"{where}/v1.10.0/index.json", entry["url"]))
        assert digest_of(answer.content) == entry["digest"]
        assert client.get(str(answer.url), headers={"If-None-Match": answer.headers["etag"]}).status_code == 304
        seen += 1
    assert seen == 2
    for missing in (f"{SITE}/v3.0.0/index.json", f"/@tidy{SITE}/v3.0.0/index.json", f"{SITE}/v3.0.0/tidy.zip"):
        assert client.get(missing).json()["code"] == "version_not_found"
    old = client.get("/api/v1/skill-definitions/tidy/versions").json()["data"][-1]
    marked = client.post(f"/api/v1/skill-definitions/tidy/versions/{old['version']}/yank", json={"reason": "wrong"})
    assert marked.status_code == 200, marked.text
    assert client.get(f"/@tidy{SITE}/versions.json").json()["versions"] == ["1.9.0", "1.10.0"]
    assert client.get(f"{SITE}/v1.0.0/index.json").status_code == 404
    assert client.get(f"{SITE}/v1.0.0/tidy.zip").status_code == 404


def test_another_home_installs_a_version_and_a_range(address: str, app: FastAPI, pack: Pack, tmp_path: Path) -> None:
    with TestClient(app, base_url=address) as client:
        for number in ("1.0.0", "1.1.0", "2.0.0"):
            _install(client, pack("tidy", body=f"Body {number}.", header=f"version: {number}\n"))
        other = Registry(str(tmp_path / "other"), fetcher=SourceFetcher(allow_private=True))
        for source, version in (("@1.0.0", "1.0.0"), ("/@tidy@^1.0", "1.1.0"), ("", "2.0.0")):
            (installed,) = other.install(f"{address}{source}").results
            assert installed.declared_version == installed.origin["version"] == version
        (installed,) = other.install(f"{address}/@tidy@^1", force=True).results
        assert other.update("tidy").results[0].status == "unchanged"
        _install(client, pack("tidy", body="A correction.", header="version: 1.2.0\n"))
        (updated,) = other.update("tidy").results
        assert (updated.status, updated.declared_version) == ("updated", "1.2.0")
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
        assert client.get(f"{SITE}/versions.json").json()["versions"] == []
        assert client.get(f"{SITE}/v0.0.1/index.json").status_code == 404
        for hidden in (f"{SITE}/v0.0.1/tidy.zip", f"/@tidy{SITE}/versions.json", f"/@tidy{SITE}/v0.0.1/index.json"):
            assert client.get(hidden).status_code == 403
