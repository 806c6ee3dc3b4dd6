"""The page is served whole, kept by browsers where it may be, and able to do nothing but what it came with."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from skillyard import Catalog
from skillyard.registry import Registry
from skillyard.server import AccessPolicy, create_app
from skillyard.server.routes import page_routes

_SCRIPT = b"export const word = 1;\n" * 100


@pytest.fixture
def static(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A bundle as the build leaves it."""
    folder = tmp_path / "static"
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_text('<meta property="csp-nonce" nonce="__NONCE__"><script src="/assets/app-1a.js"></script>')
    (folder / ".sources").write_text("digest")
    (folder / "mark.svg").write_text("<svg/>")
    for suffix, data in {"": _SCRIPT, ".br": b"br", ".gz": b"gz"}.items():
        (folder / f"assets/app-1a.js{suffix}").write_bytes(data)
    monkeypatch.setattr(page_routes, "_STATIC", folder)
    return folder


@pytest.fixture
def client(app: FastAPI, static: Path) -> Iterator[TestClient]:
    """A browser, as far as headers go."""
    with TestClient(app, base_url="http://127.0.0.1:8787") as made:
        yield made


@pytest.mark.parametrize("path", ["/", "/skills", "/skills/config:pdf", "/runs/run-1", "/settings", "/skills/a/b?tab=files"])
def test_every_place_of_the_page_gives_its_one_document(client: TestClient, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert answer.headers["cache-control"] == "no-cache"
    assert client.head(path).status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/nothing",
        "/api",
        "/.well-known/nothing",
        "/assets/",
        "/assets/none.js",
        "/none.svg",
        "/mcp/x",
        "/mirror/x",
    ],
)
def test_what_is_no_place_of_the_page_stays_a_problem(client: TestClient, path: str) -> None:
    answer = client.get(path, headers={"accept": "text/html"})
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("path", ["/nope", "/skillsx", "/skill/pdf", "/apis", "/favicon.ico", "/%00", "/a/../../etc/passwd"])
def test_a_browser_that_is_lost_is_shown_the_page(client: TestClient, path: str) -> None:
    asking = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
    answer = client.get(path, headers={"accept": asking})
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert "'nonce-" in answer.headers["content-security-policy"]
    assert client.head(path, headers={"accept": asking}).status_code == 404
    for accepted in ("*/*", "application/json", ""):
        reported = client.get(path, headers={"accept": accepted})
        assert (reported.status_code, reported.headers["content-type"]) == (404, "application/problem+json")
    assert client.post(path, headers={"accept": asking}).headers["content-type"] == "application/problem+json"


def test_a_lost_browser_needs_no_key_and_a_lost_program_does(home: Path, static: Path) -> None:
    catalog = Catalog.discover(cwd=home / "project", home=home)
    app = create_app(catalog, Registry.of(catalog), access_policy=AccessPolicy.listening("127.0.0.1", require_keys=True))
    with TestClient(app, base_url="http://127.0.0.1:8787") as client:
        assert client.get("/nope", headers={"accept": "text/html"}).status_code == 404
        assert client.get("/nope").status_code == 401
        for path in ("/api/v1/nope", "/api/v1/catalog", "/metrics"):
            assert client.get(path, headers={"accept": "text/html"}).status_code == 401, path


def test_the_document_may_load_only_its_own_and_its_number_is_never_the_same(client: TestClient) -> None:
    first, second = client.get("/"), client.get("/")
    policy = first.headers["content-security-policy"]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    assert rules["default-src"] == "'none'"
    assert rules["script-src"] == "'self'"
    assert rules["connect-src"] == "'self'"
    assert rules["frame-ancestors"] == rules["base-uri"] == rules["form-action"] == "'none'"
    assert "unsafe" not in policy
    nonce = re.search(r"'nonce-([\w-]{24,})'", rules["style-src"])
    assert nonce is not None
    assert f'nonce="{nonce[1]}"' in first.text
    assert nonce[1] not in second.text
    assert "__NONCE__" not in first.text


@pytest.mark.parametrize(
    ("accepts", "encoding", "data"),
    [
        ("gzip, deflate, br, zstd", "br", b"br"),
        ("gzip", "gzip", b"gz"),
        ("br;q=0, gzip;q=0.5", "gzip", b"gz"),
        ("BR ; q=0.000", None, _SCRIPT),
        ("", None, _SCRIPT),
        ("identity", None, _SCRIPT),
    ],
)
def test_a_script_comes_compressed_where_the_browser_understands_it(
    client: TestClient, accepts: str, encoding: str | None, data: bytes
) -> None:
    with client.stream("GET", "/assets/app-1a.js", headers={"accept-encoding": accepts}) as answer:
        assert b"".join(answer.iter_raw()) == data
    assert answer.headers.get("content-encoding") == encoding
    assert answer.headers["content-type"] == "text/javascript; charset=utf-8"
    assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
    assert answer.headers["vary"] == "Accept-Encoding"


@pytest.mark.parametrize("name", ["..%2findex.html", "%2e%2e%2f.sources", ".sources", "%00", "app-1a.js%2f..", "a\\b"])
def test_nothing_beside_the_files_of_the_page_can_be_asked_for(client: TestClient, name: str) -> None:
    assert client.get(f"/assets/{name}").status_code == 404


def test_the_mark_in_the_tab_is_a_picture(client: TestClient) -> None:
    assert client.get("/mark.svg").headers["content-type"] == "image/svg+xml"
    assert client.get("/none.svg").status_code == 404


def test_without_a_bundle_the_page_says_how_to_build_it(client: TestClient, static: Path) -> None:
    (static / "index.html").unlink()
    answer = client.get("/skills")
    assert answer.status_code == 503
    assert "python web/build.py" in answer.text
    assert "unsafe" not in answer.headers["content-security-policy"]
    assert client.get("/api/v1/catalog").status_code == 200


def test_the_page_is_no_part_of_the_described_api(client: TestClient) -> None:
    assert not {"/", "/skills", "/assets/{name}"} & set(client.get("/openapi.json").json()["paths"])
