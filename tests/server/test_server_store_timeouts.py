"""A store that takes connections and never answers, or answers a byte at a time: it is waited for so long and no longer."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from skillyard.errors import StoreFailed
from skillyard.packages import open_store
from skillyard.registry.package_cache import PackageCache

Pack = Callable[..., bytes]
UPLOAD = "/api/v1/skill-definitions/upload-create?force=true"
BEGINNING = b'HTTP/1.1 200 OK\r\nContent-Length: 100000\r\nETag: "x"\r\nLast-Modified: Wed, 21 Oct 2026 07:28:00 GMT\r\n\r\n'


class Silent:
    """Listens on loopback, and holds every connection; with `drips` it sends a byte of an answer now and then."""

    def __init__(self, *, drips: bool) -> None:
        self._drips = drips
        self._over = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.asked = 0
        self._threads = [threading.Thread(target=self._listen)]
        self._threads[0].start()

    def _listen(self) -> None:
        while not self._over.is_set():
            connection, _ = self._listener.accept()
            self.asked += 1
            self._threads.append(threading.Thread(target=self._hold, args=(connection,)))
            self._threads[-1].start()

    def _hold(self, connection: socket.socket) -> None:
        with connection:
            try:
                if self._drips:
                    connection.recv(1 << 16)
                    connection.sendall(BEGINNING)
                while not self._over.wait(0.2):
                    if self._drips:
                        connection.sendall(b"x")
            except OSError:
                return

    def close(self) -> None:
        self._over.set()
        socket.create_connection(self._listener.getsockname()).close()
        for thread in self._threads:
            thread.join()
        self._listener.close()


@pytest.fixture(params=[False, True], ids=["says nothing", "a byte at a time"])
def silent(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Silent]:
    """Such a store, which is configured, and which nobody waits for longer than two seconds."""
    store = Silent(drips=request.param)
    values = {
        "AWS_ENDPOINT_URL": store.address, "AWS_ALLOW_HTTP": "true", "AWS_ACCESS_KEY_ID": "ada",
        "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1", "AWS_TIMEOUT": "2 seconds",
        "SKILLYARD_STORE": "s3://skills",
    }  # fmt: skip
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("skillyard.packages.package_store._RETRY_TIMEOUT", timedelta(seconds=2))
    yield store
    store.close()


def test_whoever_fetches_a_package_gets_an_error_and_a_way_out(silent: Silent, tmp_path: Path) -> None:
    store, digest = open_store("s3://skills"), "sha256:" + "a" * 64
    for ask in (
        lambda: store.get(digest),
        lambda: list(store.list()),
        lambda: PackageCache(tmp_path, store).folder(digest, digest, "tidy"),
    ):
        with pytest.raises(StoreFailed) as failed:
            ask()
        assert "AWS_" in str(failed.value.hint)
    assert list(tmp_path.rglob("SKILL.md")) == []
    assert silent.asked


@pytest.mark.parametrize("silent", [False], indirect=True, ids=["says nothing"])
def test_installs_end_as_store_failed_and_the_server_answers_others_meanwhile(
    silent: Silent, live: httpx.Client, home: Any, pack: Pack
) -> None:
    answers: list[httpx.Response] = []

    def send(number: int) -> None:
        answers.append(live.post(UPLOAD, files={"file": ("t.zip", pack(f"tidy-{number}"))}))

    sending = [threading.Thread(target=send, args=(number,)) for number in range(6)]
    for thread in sending:
        thread.start()
    end = time.monotonic() + 30
    while not silent.asked:
        assert time.monotonic() < end
        time.sleep(0.02)
    assert [live.get(path).status_code for path in ("/healthz", "/readyz", "/api/v1/skill-definitions")] == [200] * 3
    assert len(answers) < len(sending)
    for thread in sending:
        thread.join(120)
    reported = [(answer.status_code, answer.json()["code"]) for answer in answers]
    assert reported == [(503, "store_failed")] * 6
    assert all(int(answer.headers["Retry-After"]) > 0 for answer in answers)
    assert live.get("/api/v1/skill-definitions?isActive=true").json()["data"] == []
    assert [path.name for path in (home / "data/skills/.work").iterdir()] == ["gate"]
