"""The server as a mirror: what it gives out is what another registry imports, and nothing that a rule hides."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from fastapi import FastAPI
from starlette.testclient import TestClient

from skillyard import Catalog
from skillyard.registry import Registry, SourceFetcher
from skillyard.registry.mirror_locations import INDEX_FILE, WebMirror, open_mirror
from skillyard.registry.registry_mirror import import_mirror
from skillyard.server import create_app

Pack = Callable[..., bytes]
LIST = f"/mirror/{INDEX_FILE}"


def _install(client: TestClient, data: bytes) -> None:
    answer = client.post("/api/v1/skill-definitions/upload-create", files={"file": ("skill.zip", data)})
    assert answer.status_code == 201, answer.text


def _mirror(client: TestClient) -> WebMirror:
    def download(url: str, limit: int) -> bytes:
        answer = client.get(url)
        assert answer.status_code == 200
        assert len(answer.content) <= limit
        return answer.content

    return WebMirror(f"{client.base_url}/mirror", download)


def test_every_version_is_given_out(client: TestClient, pack: Pack) -> None:
    for body in ("One.", "Two."):
        _install(client, pack(body=body))
    mirror = _mirror(client)
    (skill,) = mirror.index().skills
    assert len(skill.versions) == 2
    for version in skill.versions:
        assert len(mirror.package(version.package)) == version.size


def test_a_package_that_is_none_is_not_found(client: TestClient) -> None:
    assert client.get(LIST).json()["skills"] == []
    assert client.get(f"/mirror/packages/ab/{'0' * 62}").status_code == 404
    assert client.get("/mirror/packages/ab/../../../etc/passwd").status_code == 404
    assert client.get(f"/mirror/packages/zz/{'0' * 62}").status_code == 400


def test_what_a_rule_denies_is_not_given_out(home: Path, pack: Pack) -> None:
    open_catalog = Catalog.discover(cwd=home / "project", home=home)
    with TestClient(create_app(open_catalog, Registry.of(open_catalog)), base_url="http://127.0.0.1:8787") as client:
        _install(client, pack("tidy"))
        _install(client, pack("secret"))
        listed = _mirror(client).index()
    (home / "project" / "skillyard.toml").write_text('[permissions.skills]\nsecret = "deny"\n')
    closed = Catalog.discover(cwd=home / "project", home=home)
    with TestClient(create_app(closed, Registry.of(closed)), base_url="http://127.0.0.1:8787") as client:
        assert [skill.skill_id for skill in _mirror(client).index().skills] == ["tidy"]
        for skill in listed.skills:
            digest = skill.versions[0].package.removeprefix("sha256:")
            status = client.get(f"/mirror/packages/{digest[:2]}/{digest[2:]}").status_code
            assert status == (404 if skill.skill_id == "secret" else 200)


def test_a_registry_imports_over_http(address: str, app: FastAPI, pack: Pack, tmp_path: Path) -> None:
    with TestClient(app, base_url=address) as client:
        _install(client, pack(files={"scripts/run.sh": "true"}))
        other = Registry(str(tmp_path / "other"), fetcher=SourceFetcher(allow_private=True))
        place = open_mirror(f"{address}/mirror", allow_private=True)
        assert import_mirror(other, place, f"{address}/mirror").results[0].status == "installed"
        assert other.installed.current("tidy").digest == app.state.pool.main.registry.installed.current("tidy").digest
        assert other.update("tidy").results[0].status == "unchanged"
        other.close()
