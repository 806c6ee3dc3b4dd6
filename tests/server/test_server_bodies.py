"""What is sent is counted before it is kept: nobody, with or without a key, makes the server hold what it will refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from starlette.testclient import TestClient

PIECE = b"[" * 65_536
JSON = {"Content-Type": "application/json"}


@pytest.mark.abuse("H10")
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/api/v1/session"), ("POST", "/api/v1/runs"), ("POST", "/api/v1/skill-definitions/inspect"),
        ("POST", "/mcp"), ("POST", "/api/v1/skills"),
        ("PUT", "/api/v1/skill-definitions/tidy"), ("POST", "/api/v1/schedules"),
        ("POST", "/plugins/tidy.git/git-upload-pack"),
    ],
)  # fmt: skip
def test_a_request_that_has_no_end_is_refused_and_not_kept(client: TestClient, method: str, path: str) -> None:
    for headers in (JSON, {}):
        refused = client.request(method, path, content=iter([PIECE] * 96), headers=headers)  # 6 MiB, not announced
        assert refused.status_code == 413 or "too large" in refused.text, (headers, refused.status_code, refused.text[:200])


@pytest.mark.abuse("H10")
def test_who_has_no_key_cannot_make_the_server_read_for_ever(keyed: Any) -> None:
    announced = keyed.nobody.post("/api/v1/session", content=b"", headers=JSON | {"Content-Length": str(5 << 20)})
    assert announced.status_code == 413
    large = keyed.nobody.post("/api/v1/session", content=b'{"key": "' + b"x" * (5 << 20) + b'"}', headers=JSON)
    assert (large.status_code, large.json()["error"]["code"]) == (413, "request_too_large")
    for piece in (None, JSON):
        assert keyed.nobody.post("/api/v1/session", content=iter([PIECE] * 96), headers=piece).status_code == 413
    assert keyed.nobody.post("/api/v1/runs", content=iter([PIECE] * 96), headers=JSON).status_code == 401


def test_what_may_be_large_still_comes_in(client: TestClient, pack: Callable[..., bytes], models: Any) -> None:
    import os

    archive = pack("large", files={f"{number}.txt": os.urandom(1 << 20).hex() for number in range(6)})
    assert len(archive) > 5 << 20
    sent = client.post("/api/v1/skill-definitions/upload-create", files={"file": ("large.zip", archive)})
    assert sent.status_code == 201, sent.text
    begun = client.post("/api/v1/chat/conversations", json={"model": "openai-chat:gpt-5"}).json()["data"]["id"]
    assert client.put(f"/api/v1/chat/conversations/{begun}/files/a.bin", content=bytes(6 << 20)).status_code == 201
    told = client.post("/api/v1/memories", json={"content": "x" * 3_000_000})
    assert told.status_code in (201, 400), "at most what the route itself takes"


@pytest.mark.abuse("H13")
def test_json_of_too_many_values_is_refused_and_text_with_as_many_signs_is_not(client: TestClient) -> None:
    route = "/api/v1/skill-definitions/inspect"
    for body in (b'{"a": [' + b"1," * 50_000 + b"1]}", b"{" + b",".join(b'"%d": 1' % n for n in range(10_001)) + b"}"):
        refused = client.post("/api/v1/runs", content=body, headers=JSON)
        assert (refused.status_code, refused.json()["error"]["code"]) == (413, "request_too_large"), refused.text[:200]
    table = 'a,b:[{\\"' * 100_000
    read = client.post("/api/v1/runs", json={"skill": "nobody", "parameters": {"table": table, "rows": list(range(49_000))}})
    assert (read.status_code, read.json()["error"]["code"]) == (404, "skill_not_found")
    wrong = client.post("/api/v1/runs", json={str(number): 1 for number in range(5_000)})
    assert (wrong.status_code, len(wrong.json()["problems"])) == (400, 100), "the first of them say enough"
    assert client.post(route, content=b"x" * 100_000, headers={"Content-Type": "text/plain"}).status_code == 400
