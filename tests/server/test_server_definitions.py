"""Installed skills over HTTP: upload, list, preview, files, versions, rollback."""

from __future__ import annotations

import hashlib
import io
import os
import tempfile
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

Pack = Callable[..., bytes]
API = "/api/v1/skill-definitions"


def _send(client: TestClient, data: bytes, to: str = "/upload-create", name: str = "tidy.zip") -> Any:
    return client.post(API + to, files={"file": (name, data)})


@pytest.mark.row("003-13", "003-14")
def test_an_uploaded_skill_is_installed_and_listed_in_the_envelope(client: TestClient, pack: Pack) -> None:
    answer = _send(client, pack(files={"scripts/a.py": "print(1)\n"}))
    assert answer.status_code == 201, answer.text
    made = answer.json()["data"]["definitions"][0]
    assert (made["skillId"], made["isActive"]) == ("tidy", True)
    assert made["fileInventory"]["scriptFiles"] == ["scripts/a.py"]
    found = client.get(API).json()
    assert found == {"success": True, "data": [made], "meta": {"total": 1, "page": 1, "limit": 20, "totalPages": 1}}
    assert client.get(f"{API}/tidy").json()["data"] == made
    assert client.get("/api/v1/catalog/search", params={"q": "tidy"}).json()["data"][0]["name"] == "tidy"


def test_pages_and_search_cut_the_list(client: TestClient, pack: Pack) -> None:
    for name in ("alpha", "beta", "gamma"):
        assert _send(client, pack(name)).status_code == 201
    second = client.get(API, params={"page": 2, "limit": 2}).json()
    assert [item["id"] for item in second["data"]] == ["gamma"]
    assert second["meta"] == {"total": 3, "page": 2, "limit": 2, "totalPages": 2}
    assert [item["id"] for item in client.get(API, params={"search": "BET"}).json()["data"]] == ["beta"]
    assert client.get(API, params={"isActive": False}).json()["data"] == []
    assert client.get(API, params={"page": 0}).status_code == 400


@pytest.mark.row("003-13", "C-27")
def test_a_file_is_read_by_a_path_with_slashes_whole_in_part_and_only_when_it_changed(client: TestClient, pack: Pack) -> None:
    _send(client, pack(files={"references/deep/a.md": "0123456789"}))
    url = f"{API}/tidy/files/references/deep/a.md"
    whole = client.get(url)
    assert (whole.status_code, whole.text) == (200, "0123456789")
    assert whole.headers["etag"] == f'"sha256:{hashlib.sha256(b"0123456789").hexdigest()}"'
    assert client.get(url, headers={"If-None-Match": whole.headers["etag"]}).status_code == 304
    part = client.get(url, headers={"Range": "bytes=2-4"})
    assert (part.status_code, part.text, part.headers["content-range"]) == (206, "234", "bytes 2-4/10")
    assert client.get(url, headers={"Range": "bytes=-3"}).text == "789"
    assert client.get(url, headers={"Range": "bytes=7-"}).text == "789"
    assert client.get(url, headers={"Range": "bytes=10-"}).status_code == 416
    assert client.get(url, headers={"Range": "bytes=4-2"}).status_code == 200
    assert client.get(url, headers={"Range": "bytes=0-1", "If-Range": '"other"'}).text == "0123456789"


@pytest.mark.parametrize("path", ["%2e%2e/%2e%2e/data", "..%2f..%2fx", "%2fetc%2fpasswd", ".env", "a%00b"])
def test_no_path_leaves_the_skill(client: TestClient, pack: Pack, path: str) -> None:
    _send(client, pack(files={".env": "SECRET=1"}))
    answer = client.get(f"{API}/tidy/files/{path}")
    assert answer.status_code == 403
    assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.row("003-13")
def test_the_preview_is_the_text_and_the_inventory(client: TestClient, pack: Pack) -> None:
    _send(client, pack(body="<script>alert(1)</script>"))
    shown = client.get(f"{API}/tidy/preview").json()["data"]
    assert "<script>" in shown["skillMdContent"]
    assert shown["fileInventory"]["hasSkillMd"] is True
    page = client.get(f"{API}/tidy/files/SKILL.md")
    assert page.headers["content-type"].startswith("text/plain")
    assert page.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in page.headers["content-security-policy"]


def test_versions_roll_back_and_an_uninstalled_skill_comes_back(client: TestClient, pack: Pack) -> None:
    first = _send(client, pack()).json()["data"]["definitions"][0]["currentVersion"]
    answer = _send(client, pack(body="Otherwise."), "/tidy/upload-install")
    second = answer.json()["data"]["definitions"][0]["currentVersion"]
    assert [version["version"] for version in client.get(f"{API}/tidy/versions").json()["data"]] == [second, first]
    assert client.post(f"{API}/tidy/rollback", json={}).json()["data"]["version"] == first
    assert client.delete(f"{API}/tidy").status_code == 200
    assert client.get(f"{API}/tidy").json()["data"]["isActive"] is False
    assert client.get(f"{API}/tidy/files/SKILL.md").status_code == 404
    assert client.post(f"{API}/tidy/rollback", json={"version": first}).status_code == 200
    logs = client.get(f"{API}/tidy/install-logs").json()["data"]
    assert [log["operation"] for log in logs] == ["rollback", "uninstall", "rollback", "update", "install"]


def test_more_power_needs_consent_to_exactly_what_was_shown(client: TestClient, pack: Pack) -> None:
    _send(client, pack())
    wider = pack(header="security:\n  network: allowlist\n  network_allowlist: [example.org]\n", files={"scripts/a.py": "1\n"})
    refused = _send(client, wider, "/tidy/upload-install")
    assert (refused.status_code, refused.json()["code"]) == (403, "consent_required")
    consent = refused.json()["consent"]
    assert _send(client, wider, "/tidy/upload-install?consent=sha256:0").status_code == 403
    widest = pack(
        header="security:\n  network: allowlist\n  network_allowlist: [evil.example]\n", files={"scripts/a.py": "1\n"}
    )
    assert _send(client, widest, f"/tidy/upload-install?consent={consent}").status_code == 403
    assert _send(client, wider, f"/tidy/upload-install?consent={consent}").status_code == 201


def _evil(name: str) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("tidy/SKILL.md", "---\nname: tidy\ndescription: x\n---\n")
        archive.writestr(name, "x")
    return stream.getvalue()


@pytest.mark.parametrize(
    ("data", "name", "status", "code"),
    [
        (b"", "a.zip", 422, "malformed_archive"),
        (b"rubbish", "a.tar.gz", 422, "malformed_archive"),
        (b"x", "a.exe", 400, "invalid_input"),
        (_evil("../out"), "a.zip", 422, "unsafe_path"),
    ],
)
def test_what_is_no_good_archive_is_refused_and_nothing_is_left(
    client: TestClient, home: Path, monkeypatch: pytest.MonkeyPatch, data: bytes, name: str, status: int, code: str
) -> None:
    waiting = home / "waiting"
    waiting.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(waiting))
    answer = _send(client, data, name=name)
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert answer.json()["error"]["code"] == code
    assert list(waiting.iterdir()) == []
    assert client.get(API).json()["data"] == []


def test_a_request_without_a_file_says_how_to_send_one(client: TestClient) -> None:
    answer = client.post(f"{API}/upload-create", json={})
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_input")
    assert "multipart" in answer.json()["hint"]


@pytest.mark.parametrize(
    ("address", "reported"),
    [
        ("/etc", (400, "invalid_source")),
        ("file:///etc", (400, "invalid_source")),
        ("http://127.0.0.1/a.zip", (400, "invalid_source")),
        ("https://127.0.0.1/a.zip", (403, "network_refused")),
        ("me/repo", (400, "invalid_source")),
    ],
)
def test_nothing_of_this_machine_is_fetched_for_a_request(client: TestClient, address: str, reported: tuple[int, str]) -> None:
    answer = client.post(f"{API}/install/address", json={"address": address})
    assert (answer.status_code, answer.json()["code"]) == reported


@pytest.mark.row("003-14")
def test_what_is_shown_of_a_skill_is_edited_in_the_records_and_not_in_its_folder(
    client: TestClient, pack: Pack, home: Path
) -> None:
    _send(client, pack(header="category: office\ntags: [pdf]\nauthor: Ada\n"))
    folder = home / "data/skills/tidy/current/SKILL.md"
    before = folder.read_bytes()
    said = {"category": "Papers", "tags": [" forms ", "pdf", "forms", ""], "homepageUrl": "https://example.org/tidy"}
    made = client.put(f"{API}/tidy", json=said).json()["data"]
    assert (made["category"], made["tags"], made["author"]) == ("Papers", ["forms", "pdf"], "Ada")
    assert (made["homepageUrl"], made["isActive"]) == ("https://example.org/tidy", True)
    assert made["edited"] == ["category", "tags", "homepageUrl"]
    assert client.get(f"{API}/tidy").json()["data"] == made
    assert folder.read_bytes() == before
    _send(client, pack(header="category: other\nauthor: Bob\n", body="Two."), "/tidy/upload-install")
    now = client.get(f"{API}/tidy").json()["data"]
    assert (now["category"], now["author"]) == ("Papers", "Bob"), "an edit outlives a version, and what was not edited follows"
    again = client.put(f"{API}/tidy", json={"category": None, "tags": [], "isActive": False}).json()["data"]
    assert (again["category"], again["tags"], again["isActive"]) == ("other", [], False)
    assert again["edited"] == ["tags", "homepageUrl"]
    events = client.get("/api/v1/audit", params={"subject": "tidy"}).json()["data"]
    assert "edit" in {event["action"] for event in events}


@pytest.mark.parametrize(
    "said",
    [
        {"name": "other"},
        {"homepageUrl": "javascript:alert(1)"},
        {"iconUrl": "https://"},
        {"category": "x" * 201},
        {"tags": ["x"] * 51},
        {"tags": "pdf"},
        {"isActive": "perhaps"},
    ],
)
def test_an_edit_that_cannot_be_meant_is_refused_and_changes_nothing(client: TestClient, pack: Pack, said: Any) -> None:
    before = _send(client, pack()).json()["data"]["definitions"][0]
    answer = client.put(f"{API}/tidy", json=said)
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_input")
    assert client.get(f"{API}/tidy").json()["data"] == before


def test_of_several_who_make_a_skill_of_one_name_at_once_one_does(client: TestClient) -> None:
    def create(number: int) -> int:
        body = {"name": "fresh", "description": f"The one of {number}."}
        return client.post("/api/v1/catalog", json=body).status_code

    with ThreadPoolExecutor(6) as pool:
        reported = sorted(pool.map(create, range(6)))
    assert reported == [201, 409, 409, 409, 409, 409]


def test_of_several_who_publish_a_new_skill_at_once_one_does(client: TestClient, pack: Pack) -> None:
    def publish(number: int) -> int:
        files = {"files": ("tidy.zip", pack(body=f"The one of {number}.", files={f"scripts/{number}.py": "1\n"}))}
        return client.post("/openai/v1/skills", files=files).status_code

    with ThreadPoolExecutor(6) as pool:
        reported = sorted(pool.map(publish, range(6)))
    assert reported == [200, 409, 409, 409, 409, 409]
    assert len(client.get(f"{API}/tidy/versions").json()["data"]) == 1


@pytest.mark.row("003-11")
def test_scripts_that_came_as_single_files_may_be_executed_as_those_of_an_archive(client: TestClient, home: Path) -> None:
    text = b"---\nname: tidy\ndescription: Tidies up.\n---\n"
    scripts = {"run.sh": b"#!/bin/sh\ntrue\n", "module.py": b"X = 1\n"}
    files = [("files[]", ("tidy/SKILL.md", text)), *(("files[]", (f"tidy/scripts/{name}", scripts[name])) for name in scripts)]
    assert client.post("/openai/v1/skills", files=files).status_code == 200
    folder = home / "data/skills/tidy/current/scripts"
    assert {name: os.access(folder / name, os.X_OK) for name in scripts} == {"run.sh": True, "module.py": False}
