"""What is sent is counted before it is kept: nobody, with or without a key, makes the server hold what it will refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from skillyard.server.middleware.request_limits import _JsonMeter
from skillyard.server.shapes import RequestBody

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
    refused = client.post("/api/v1/memories", json={"content": "x" * 3_000_000})
    assert refused.status_code == 400, "by the route, which takes 65,536 characters, not for the size of the request"
    assert "65536" in refused.text


WIDE = b'{"skill": "x", "parameters": {"a": [%s]}}'
TEXT = rb'"[,\\\",{]"'
"""One value, whatever it has inside."""


@pytest.mark.abuse("H13")
@pytest.mark.parametrize("piece", [1, 7, 65_536])
@pytest.mark.parametrize(
    ("value", "most"),
    [
        (b"1", 24_990),
        (TEXT, 24_990),
        (b"[]", 12_490),
        (b'{"a": 1}', 12_490),
        (b"[" * 30 + b"]" * 30, 800),
        (b"9" * 300, 24_990),
    ],
)
def test_values_are_counted_however_they_come_in(value: bytes, most: int, piece: int) -> None:
    for number, within in ((most, True), (most + 100, False)):
        meter, data = _JsonMeter(), WIDE % b", ".join([value] * number)
        step = piece if piece > 7 else max(piece, len(data) // 4_001)
        seen = [meter.excess(data[at : at + step]) for at in range(0, len(data), step)]
        assert any(seen) is not within, (number, [one for one in seen if one][:1])


@pytest.mark.abuse("H13")
@pytest.mark.parametrize("piece", [1, 100, 301])
def test_a_number_of_many_digits_is_seen_however_it_comes_in(piece: int) -> None:
    for digits, within in ((300, True), (301, False)):
        meter, data = _JsonMeter(), WIDE % (b'"%s", %s, 1' % (b"9" * 5_000, b"9" * digits))
        seen = [meter.excess(data[at : at + piece]) for at in range(0, len(data), piece)]
        assert any(seen) is not within


@pytest.mark.abuse("H13")
def test_json_of_too_many_values_is_refused_before_it_is_parsed(client: TestClient) -> None:
    for path in ("/api/v1/runs", "/api/v1/schedules", "/mcp"):
        refused = client.post(path, content=WIDE % b",".join([b"[]"] * 900_000), headers=JSON)
        assert (refused.status_code, refused.json()["code"]) == (413, "request_too_large")
        assert "25,000 values" in refused.json()["detail"]
    taken = client.post("/api/v1/runs", content=WIDE % b",".join([b"1"] * 24_000), headers=JSON)
    assert taken.json()["code"] == "skill_not_found"


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "[1, Infinity]", '{"a": 1e999}', "-2.5E+400", "9" * 300 + "e99"])
def test_a_number_that_json_does_not_have_is_refused_and_never_read_as_null(client: TestClient, number: str) -> None:
    for path, body in (("/api/v1/runs", '{"skill": "x", "parameters": {"n": %s}}'), ("/mcp", '{"jsonrpc": "2.0", "id": %s}')):
        refused = client.post(path, content=(body % number).encode(), headers=JSON)
        assert refused.status_code == 400, refused.text
        assert "no number of JSON" in refused.text or "a number that is too large" in refused.text
    assert (
        client.post("/api/v1/runs", content=b'{"skill": "NaN", "parameters": NaN}', headers=JSON)
        .json()["hint"]
        .startswith("leave")
    )
    taken = client.post(
        "/api/v1/runs", content=b'{"skill": "NaN", "parameters": {"1e999": "Infinity", "n": 1e300}}', headers=JSON
    )
    assert taken.json()["code"] == "skill_not_found"


@pytest.mark.parametrize("piece", [1, 2, 5, 1_000])
def test_a_number_that_is_none_is_seen_however_it_comes_in(piece: int) -> None:
    for number, found in ((b"Infinity", True), (b"1.5e400", True), (b"1.5e-400", False), (b'"NaN"', False), (b"1e308", False)):
        meter, data = _JsonMeter(), WIDE % (b'"a\\"NaN", %s, 1' % number)
        assert {meter.excess(data[at : at + piece]) for at in range(0, len(data), piece)} == {""}
        assert bool(meter.not_finite) is found


def test_every_body_of_json_limits_the_errors_that_are_reported(client: TestClient, app: FastAPI) -> None:
    for count, expected in ((99, 100), (5_000, 1)):
        refused = client.post("/api/v1/runs", json=dict.fromkeys(map(str, range(count)), 1))
        assert (refused.status_code, len(refused.json()["problems"])) == (400, expected)
    assert refused.json()["problems"][0]["message"] == "it has 5001 errors"
    shapes = [
        shape for name, shape in app.openapi()["components"]["schemas"].items() if shape.get("additionalProperties") is False
    ]
    direct = RequestBody.__subclasses__()
    forbidding = {one.__name__ for shape in direct for one in (shape, *shape.__subclasses__())}
    assert len(shapes) >= 20
    assert {shape["title"] for shape in shapes} <= forbidding


@pytest.mark.parametrize(
    ("body", "media", "message"),
    [
        (b"{bad", "application/json", "this is not JSON: Expecting property name enclosed in double quotes at character 1"),
        (b"[]", "application/json; charset=utf-8", "this is not a JSON object"),
        (b'{"skill": "x"}', "text/plain", "a JSON object needs the header `Content-Type: application/json`"),
        (b"skill=x", "application/x-www-form-urlencoded", "a JSON object needs the header `Content-Type: application/json`"),
    ],
)
def test_a_body_that_is_no_json_object_is_refused_with_the_cause(
    client: TestClient, body: bytes, media: str, message: str
) -> None:
    answer = client.post("/api/v1/runs", content=body, headers={"Content-Type": media})
    assert (answer.status_code, answer.json()["problems"]) == (400, [{"at": "body", "message": message}])
