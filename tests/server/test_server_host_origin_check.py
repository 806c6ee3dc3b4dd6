"""Who may ask: programs of this machine, and no page from elsewhere."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest
from fastapi import FastAPI
from hypothesis import example, given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from skillyard import Catalog
from skillyard.errors import PermissionDenied
from skillyard.packages import PackageLimits
from skillyard.registry import Registry
from skillyard.server import AccessPolicy, serve
from skillyard.server.server_settings import LOOPBACK, host_name


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "evil.example:8787", "", "a@127.0.0.1", "localhost:x"]
)
def test_a_name_that_is_not_this_machine_s_is_refused(client: TestClient, host: str) -> None:
    answer = client.get("/healthz", headers={"Host": host})
    assert (answer.status_code, answer.json()["code"]) == (403, "permission_denied")


@pytest.mark.parametrize("host", ["127.0.0.1:8787", "localhost", "LOCALHOST:1", "[::1]:8787"])
def test_every_name_of_this_machine_is_good(client: TestClient, host: str) -> None:
    assert client.get("/healthz", headers={"Host": host}).json() == {"status": "ok"}


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:9999"},
        {"Sec-Fetch-Site": "cross-site"},
    ],
)
def test_a_page_from_elsewhere_is_refused(client: TestClient, headers: dict[str, str]) -> None:
    assert client.post("/api/v1/catalog/refresh", headers=headers).status_code == 403


def test_a_page_of_the_server_itself_may_ask(client: TestClient) -> None:
    assert client.post("/api/v1/catalog/refresh", headers={"Origin": "http://127.0.0.1:8787"}).status_code == 200


@pytest.mark.parametrize("path", ["/healthz", "/nothing", "/api/v1/skill-definitions/none"])
def test_every_answer_carries_the_headers_of_safety(client: TestClient, path: str) -> None:
    headers = client.get(path).headers
    assert headers["x-frame-options"] == "DENY"
    assert headers["x-content-type-options"] == "nosniff"
    assert "default-src 'none'" in headers["content-security-policy"]


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.1", "example.org"])
def test_an_address_that_others_reach_is_not_listened_on(home: Any, host: str) -> None:
    catalog = Catalog.discover(roots=())
    with pytest.raises(PermissionDenied):
        serve(lambda: (catalog, Registry.of(catalog)), host=host, port=0)


@pytest.mark.parametrize("announced", [True, False])
def test_an_upload_is_cut_off_as_soon_as_it_is_too_large(app: FastAPI, announced: bool) -> None:
    """The body never ends: were it read to the end first, this would never return."""
    limit = PackageLimits().archive
    asked, sent = 0, []
    opening = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.zip"\r\n\r\n'

    async def receive() -> dict[str, Any]:
        nonlocal asked
        asked += 1
        body = opening if asked == 1 else bytes(1 << 20)
        return {"type": "http.request", "body": body, "more_body": True}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    headers = [(b"host", b"localhost"), (b"content-type", b"multipart/form-data; boundary=x")]
    if announced:
        headers.append((b"content-length", str(limit * 2).encode()))
    scope = {
        "type": "http", "method": "POST", "path": "/api/v1/skill-definitions/upload-create", "headers": headers,
        "query_string": b"", "scheme": "http", "http_version": "1.1", "server": ("localhost", 80), "client": ("127.0.0.1", 1),
        "root_path": "",
    }  # fmt: skip
    asyncio.run(app(scope, receive, send))  # type: ignore[arg-type] # plain messages
    assert sent[0]["status"] == 413
    assert asked <= (0 if announced else (limit >> 20) + 3)


_NEARLY = r"[a-z.]{0,9}@?(127\.0\.0\.1|localhost|evil\.example|\[::1\])[:/?#@.\\]{0,3}[0-9a-z.]{0,9}"


@given(st.text(max_size=30) | st.from_regex(_NEARLY))
@example("evil[::1]")
@example("@localhost:0")
def test_only_a_host_that_is_a_name_of_the_server_with_or_without_a_port_is_one(host: str) -> None:
    good = re.fullmatch(r"(?i:127\.0\.0\.1|localhost|\[::1\])(:[0-9]{0,5})?", host, re.ASCII)
    if AccessPolicy().answers_to(host):
        assert good
        assert host_name(host) in LOOPBACK
    elif good:
        assert int(host.rpartition(":")[2]) > 65_535
