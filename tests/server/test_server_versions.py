"""Versions over HTTP: compared, withdrawn, brought back, scanned, downloaded."""

from __future__ import annotations

import io
import time
import zipfile
from collections.abc import Callable
from typing import Any

import pytest
from starlette.testclient import TestClient

Pack = Callable[..., bytes]
API = "/api/v1/skill-definitions"


@pytest.fixture
def two(client: TestClient, pack: Pack) -> tuple[str, str]:
    """Two versions of one skill, the older first."""
    names = []
    for files in ({"notes.md": "old\n", "gone.md": "x\n"}, {"notes.md": "new\n", "scripts/a.py": "print(1)\n"}):
        sent = client.post(f"{API}/upload-create", files={"file": ("tidy.zip", pack(files=files))})
        refused: Any = sent.json()
        if sent.status_code == 403:
            sent = client.post(
                f"{API}/upload-create", files={"file": ("tidy.zip", pack(files=files))}, params={"consent": refused["consent"]}
            )
        names.append(sent.json()["data"]["definitions"][0]["currentVersion"])
    return names[0], names[1]


def test_two_versions_are_compared_file_by_file(client: TestClient, two: tuple[str, str]) -> None:
    reported = client.get(f"{API}/tidy/versions/{two[0]}/diff/{two[1]}").json()["data"]
    files = {file["path"]: file for file in reported["files"]}
    assert {path: file["change"] for path, file in files.items()} == {
        "gone.md": "removed", "notes.md": "changed", "scripts/a.py": "added",
    }  # fmt: skip
    assert files["notes.md"]["lines"] == "--- a/notes.md\n+++ b/notes.md\n@@ -1,2 +1,2 @@\n-old\n+new\n \n"
    assert (files["gone.md"]["before"], files["gone.md"]["after"], reported["unchanged"]) == (2, None, 1)
    old, new = reported["before"], reported["after"]
    assert (old["version"], old["powers"]["scripts"], new["version"], new["powers"]["scripts"]) == (
        two[0], [], two[1], ["scripts/a.py"],
    )  # fmt: skip
    assert old["description_tokens"] == new["description_tokens"] > 0
    assert old["instruction_tokens"] == new["instruction_tokens"] > 0
    assert [sentence for sentence in reported["widened"] if "scripts/a.py" in sentence]
    back = client.get(f"{API}/tidy/versions/{two[1]}/diff/{two[0]}").json()["data"]
    assert (back["widened"], back["narrowed"], reported["narrowed"]) == ([], reported["widened"], [])
    assert (reported["added_effects"], reported["removed_effects"]) == (None, None), "nobody watched them"
    assert client.get(f"{API}/tidy/versions/{two[0]}/diff/current").json()["data"] == reported
    assert client.get(f"{API}/tidy/versions/{two[0]}/diff/1.0").json()["code"] == "version_not_found"


def test_a_version_is_run_by_a_request_and_by_a_schedule_whichever_serves(client: TestClient, pack: Pack) -> None:
    script = "def execute(parameters):\n    return {{'output': {}}}\n"
    for number in (1, 2):
        files = {"scripts/execute.py": script.format(number)}
        client.post(f"{API}/upload-create", files={"file": ("tidy.zip", pack(files=files))}, params={"force": True})
    newer, older = [one["version"] for one in client.get(f"{API}/tidy/versions").json()["data"]]
    asked = {"skill": "installed:tidy"}
    for version, output in ((older, 1), (newer, 2), (None, 2)):
        run = client.post("/api/v1/runs", json=asked | {"version": version}).json()["data"]
        assert (run["output"], run["error"]) == (output, None), run
    assert client.post("/api/v1/runs", json=asked | {"version": "9"}).json()["code"] == "version_not_found"
    client.post("/api/v1/schedules", json=asked | {"name": "tidying", "cron": "0 3 * * *"})
    assert client.patch("/api/v1/schedules/tidying", json={"version": older}).json()["data"]["digest"]
    run_id = client.post("/api/v1/schedules/tidying/run").json()["data"]["run_id"]
    deadline = time.monotonic() + 30
    while (run := client.get(f"/api/v1/runs/{run_id}").json()["data"])["state"] in ("queued", "running"):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert (run["output"], run["error"]) == (1, None)


def test_the_files_of_an_older_version_are_read(client: TestClient, two: tuple[str, str]) -> None:
    assert client.get(f"{API}/tidy/versions/{two[0]}/files/notes.md").text == "old\n"
    assert client.get(f"{API}/tidy/versions/current/files/notes.md").text == "new\n"
    assert client.get(f"{API}/tidy/versions/{two[0]}/files/../../x").status_code == 404
    assert client.get(f"{API}/tidy/versions/{two[0]}").json()["data"]["current"] is False


def test_a_version_is_downloaded_as_the_same_bytes_each_time(client: TestClient, two: tuple[str, str]) -> None:
    whole = client.get(f"{API}/tidy/archive")
    assert (whole.status_code, whole.headers["content-type"]) == (200, "application/zip")
    assert f"tidy-{two[1]}.zip" in whole.headers["content-disposition"]
    assert "SKILL.md" in zipfile.ZipFile(io.BytesIO(whole.content)).namelist()
    older = client.get(f"{API}/tidy/archive", params={"version": two[0]})
    assert "gone.md" in zipfile.ZipFile(io.BytesIO(older.content)).namelist()
    etag = whole.headers["etag"]
    assert client.get(f"{API}/tidy/archive", headers={"If-None-Match": etag}).status_code == 304
    assert client.get(f"{API}/tidy/archive", headers={"Range": "bytes=0-3"}).content == whole.content[:4]


def test_a_withdrawn_version_does_not_come_back_until_that_is_undone(client: TestClient, two: tuple[str, str]) -> None:
    url = f"{API}/tidy/versions/{two[0]}"
    yanked = client.post(f"{url}/yank", json={"reason": "leaks"}).json()["data"]
    assert (yanked["yanked"], yanked["yanked_reason"]) == (True, "leaks")
    assert client.post(f"{API}/tidy/rollback-previous").json()["code"] == "version_not_found"
    assert client.post(f"{url}/yank", json={"undo": True}).json()["data"]["yanked"] is False
    assert client.post(f"{API}/tidy/rollback-previous").json()["data"]["version"] == two[0]
    deprecated = client.post(f"{API}/tidy/versions/current/deprecate", json={"reason": "old"}).json()["data"]
    assert (deprecated["version"], deprecated["status"], deprecated["deprecated_reason"]) == (two[0], "deprecated", "old")
    known = {"skill": "installed:tidy"}
    for withdrawal, undo in (("deprecated", "deprecate"), ("yanked", "yank")):
        client.post(f"{API}/tidy/versions/current/{undo}", json={"reason": "old"})
        (verdict,) = client.get("/api/v1/catalog/verdicts", params=known).json()["data"]
        whole = client.get("/api/v1/catalog/skill", params=known).json()["data"]
        for reported in (verdict, whole):
            assert reported["withdrawal"] == withdrawal
            assert "old" in reported["withdrawn"]
        client.post(f"{API}/tidy/versions/current/{undo}", json={"undo": True})
    (verdict,) = client.get("/api/v1/catalog/verdicts", params=known).json()["data"]
    assert (verdict["scanned"], verdict["withdrawal"], verdict["withdrawn"]) == (True, None, None)


def test_a_version_is_scanned_and_held_against_clients(client: TestClient, two: tuple[str, str]) -> None:
    assert sorted(client.get(f"{API}/tidy/scan").json()["data"]["files"]) == ["SKILL.md", "notes.md", "scripts/a.py"]
    loading = {one["client"]: one for one in client.get(f"{API}/tidy/compatibility").json()["data"]}
    assert (loading["opencode"]["loads"], loading["opencode"]["name"]) == (True, "tidy")
    served = client.get("/api/v1/catalog/clients", params={"skill": "installed:tidy"}).json()["data"]
    assert {one["client"]: one for one in served} == loading, "under its name, not that of the version's folder"
    assert client.get(f"{API}/tidy/scan", params={"version": "none"}).status_code == 404


@pytest.mark.row("003-14")
def test_a_skill_is_switched_off_and_on(client: TestClient, two: tuple[str, str]) -> None:
    assert client.put(f"{API}/tidy", json={"isActive": False}).json()["data"]["isActive"] is False
    assert client.get("/api/v1/catalog").json()["data"] == []
    back = client.put(f"{API}/tidy", json={"isActive": True}).json()["data"]
    assert (back["isActive"], back["currentVersion"]) == (True, two[1])
    assert client.put(f"{API}/tidy", json={"isActive": True}).json()["data"] == back
    assert client.put(f"{API}/tidy", json={"name": "other"}).status_code == 400
    assert client.put(f"{API}/none", json={"isActive": True}).status_code == 404


@pytest.mark.parametrize("name", ["operations", "install", "inspect", "versions"])
def test_a_skill_may_be_called_as_a_part_of_an_address(client: TestClient, pack: Pack, name: str) -> None:
    client.post(f"{API}/upload-create", files={"file": ("a.zip", pack(name))})
    assert client.get(f"{API}/{name}").json()["data"]["skillId"] == name
    assert client.get(f"{API}/{name}/preview").json()["data"]["skillId"] == name
    assert len(client.get(f"{API}/{name}/versions").json()["data"]) == 1
    assert client.delete(f"{API}/{name}").status_code == 200
