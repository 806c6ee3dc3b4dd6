"""What an address makes the server fetch: nothing of this machine or its network, by whatever way it is named or led to."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from skillyard.network import GuardedResponse
from skillyard.network.guarded_request import guarded_request

ADDRESS = "/api/v1/skill-definitions/install/address"
INSIDE = (
    "127.0.0.1",
    "::1",
    "10.0.0.7",
    "169.254.169.254",
    "192.168.1.1",
    "fd00::1",
    "0.0.0.0",
    "::ffff:127.0.0.1",
    "100.64.0.1",
)


@pytest.fixture
def inside() -> Iterator[socket.socket]:
    """Something of this machine that nobody may reach."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        yield listening
        with pytest.raises(BlockingIOError):  # nobody came
            listening.accept()


def _resolve(monkeypatch: pytest.MonkeyPatch, names: dict[str, str]) -> None:
    def lookup(name: str, *rest: Any, **more: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (names[name], 443))]

    monkeypatch.setattr(socket, "getaddrinfo", lookup)


@pytest.mark.parametrize("address", INSIDE)
def test_a_name_that_leads_inside_is_not_asked(
    client: TestClient, inside: socket.socket, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    _resolve(monkeypatch, {"skills.example.com": address})
    answer = client.post(ADDRESS, json={"address": f"https://skills.example.com:{inside.getsockname()[1]}/a.zip"})
    assert (answer.status_code, answer.json()["code"]) == (403, "network_refused")
    assert address not in answer.text


_INSIDE = (
    "https://127.0.0.1:{}/a.zip", "https://[::1]:{}/a.zip", "https://[::ffff:127.0.0.1]:{}/", "https://localhost:{}/",
    "https://inside.example.com:{}/", "//127.0.0.1:{}/a.zip", "https://169.254.169.254/latest/meta-data/",
)  # fmt: skip
_NO_ADDRESS = ("https://2130706433:{}/", "https://0x7f.1:{}/", "file:///etc/passwd", "gopher://127.0.0.1:{}/")


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        *((target, (403, "network_refused")) for target in _INSIDE),
        *((target, (400, "invalid_source")) for target in _NO_ADDRESS),
        ("http://127.0.0.1:{}/a.zip", (400, "invalid_source")),
    ],
)
def test_a_redirect_that_leads_inside_is_not_followed(
    client: TestClient, inside: socket.socket, monkeypatch: pytest.MonkeyPatch, target: str, expected: tuple[int, str]
) -> None:
    location = target.format(inside.getsockname()[1])
    _resolve(monkeypatch, {"inside.example.com": "127.0.0.1", "localhost": "127.0.0.1"})

    async def outside(method: str, url: str, **rest: Any) -> GuardedResponse:
        if url.startswith("https://outside.example.com/"):
            return GuardedResponse(302, {"location": location}, b"")
        return await guarded_request(method, url, **rest)

    monkeypatch.setattr("skillyard.network.guarded_request", outside)
    answer = client.post(ADDRESS, json={"address": "https://outside.example.com/a.zip"})
    assert (answer.status_code, answer.json()["code"]) == expected
    assert client.get("/api/v1/skill-definitions").json()["data"] == []


def test_who_has_a_key_reaches_nothing_inside_even_where_the_operator_may(
    keyed: Any, home: Path, inside: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    folder = home / ".config/skillyard"
    folder.mkdir(parents=True)
    (folder / "skillyard.toml").write_text("[packages]\nprivate-hosts = true\n", "utf-8")
    keyed.app.state.pool.main.catalog.refresh()
    for organisation in ("default", "ours"):
        client = keyed.client("skills:read", "skills:write", organisation=organisation)
        answer = client.post(ADDRESS, json={"address": f"https://127.0.0.1:{inside.getsockname()[1]}/a.zip"})
        assert (answer.status_code, answer.json()["code"]) == (403, "network_refused")
