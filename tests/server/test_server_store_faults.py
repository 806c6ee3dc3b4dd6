"""A store that answers with errors or late, and a disk that takes its time: nothing is half, and it goes on by itself."""

from __future__ import annotations

import http.client
import os
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

Pack = Callable[..., bytes]
UPLOAD = "/api/v1/skill-definitions/upload-create?force=true"
SKILLS = "/api/v1/skill-definitions?isActive=true"
_ERROR = b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"


class Between(ThreadingHTTPServer):
    """Between us and a store: hands every request on, `late` seconds later, or answers it with `status` instead."""

    daemon_threads = True

    def __init__(self, target: int) -> None:
        super().__init__(("127.0.0.1", 0), _Request)
        self.target, self.status, self.late = target, 0, 0.0


class _Request(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Between

    def _carry(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        time.sleep(self.server.late)
        if self.server.status:
            self._tell(self.server.status, [], _ERROR)
            return
        there = http.client.HTTPConnection("127.0.0.1", self.server.target, timeout=30)
        there.request(self.command, self.path, body, dict(self.headers))
        answer = there.getresponse()
        self._tell(answer.status, answer.getheaders(), answer.read())
        there.close()

    def _tell(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in ("connection", "transfer-encoding", "content-length"):
                self.send_header(name, value)
        length = dict(headers).get("Content-Length", "0") if self.command == "HEAD" else str(len(body))
        self.send_header("Content-Length", length)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = _carry  # noqa: N815 - the names that its base looks for

    def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002
        """Say nothing."""


@pytest.fixture
def between(bucket: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Between]:
    """What stands between this test's server and its bucket."""
    server = Between(int(os.environ["AWS_ENDPOINT_URL"].rpartition(":")[2]))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("SKILLYARD_STORE", bucket)
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def send(client: TestClient | httpx.Client, archive: bytes, name: str) -> httpx.Response:
    return client.post(UPLOAD, files={"file": (f"{name}.zip", archive)})  # type: ignore[return-value]


def names(client: TestClient | httpx.Client) -> list[str]:
    return [one["id"] for one in client.get(SKILLS).json()["data"]]


@pytest.mark.parametrize("status", [500, 503])
def test_a_store_that_answers_with_errors_refuses_installs_and_takes_them_afterwards(
    home: Any, between: Between, app: FastAPI, client: TestClient, pack: Pack, status: int
) -> None:
    assert send(client, pack("first"), "first").status_code == 201
    between.status = status
    answer = send(client, pack("second"), "second")
    assert (answer.status_code, answer.json()["code"]) == (503, "store_failed"), answer.text
    assert int(answer.headers["Retry-After"]) > 0
    assert answer.json()["hint"]
    assert names(client) == ["first"]
    assert client.get("/api/v1/skill-definitions/first/files/SKILL.md").status_code == 200
    between.status = 0
    assert send(client, pack("second"), "second").status_code == 201
    assert names(client) == ["first", "second"]
    left = [path.name for path in (home / "data/skills/.work").iterdir()]
    assert left == ["gate"]


def test_a_store_that_is_slow_takes_longer_and_no_more(between: Between, app: FastAPI, client: TestClient, pack: Pack) -> None:
    between.late = 0.7
    assert send(client, pack("first"), "first").status_code == 201
    assert names(client) == ["first"]


def test_while_the_disk_takes_its_time_the_server_answers_and_shows_nothing_half(
    live: httpx.Client, pack: Pack, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached, goes_on, flush = threading.Event(), threading.Event(), os.fsync

    def slowly(file: int) -> None:
        reached.set()
        assert goes_on.wait(60)
        flush(file)

    assert send(live, pack("first"), "first").status_code == 201
    monkeypatch.setattr(os, "fsync", slowly)
    answers: list[httpx.Response] = []
    sending = threading.Thread(target=lambda: answers.append(send(live, pack("second"), "second")))
    sending.start()
    assert reached.wait(30)
    assert names(live) == ["first"]
    assert live.get("/healthz").status_code == 200
    assert live.get("/api/v1/skill-definitions/first/files/SKILL.md").status_code == 200
    goes_on.set()
    sending.join()
    assert [answer.status_code for answer in answers] == [201], answers[0].text
    assert names(live) == ["first", "second"]
