"""Requests from this process itself: only to hosts of the list, only to addresses that were judged, never more than asked."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from skillyard.errors import InvalidInput, NetworkFailed, NetworkRefused
from skillyard.network import connections, guarded_request


def plain_answer(body: bytes, *, status: str = "200 OK", headers: str = "") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{headers}\r\n".encode() + body


async def test_a_host_of_the_list_is_asked_and_its_whole_answer_given(upstream) -> None:
    upstream.answer = lambda head: plain_answer(
        b'{"ok":true}', headers="Content-Type: application/json\r\nX-A: 1\r\nX-A: 2\r\n"
    )
    entry = f"http://localhost:{upstream.port}"
    answer = await guarded_request(
        "POST", f"{entry}/v1/items?q=1", allow=[entry], headers={"X-Token": "t"}, body=b"abc", allow_private=True
    )
    assert (answer.status, answer.body) == (200, b'{"ok":true}')
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-a"] == "1, 2"
    (head,) = upstream.heads
    assert head.startswith("POST /v1/items?q=1 HTTP/1.1\r\n")
    assert f"Host: localhost:{upstream.port}\r\n" in head
    assert head.endswith("\r\n\r\nabc")


async def test_an_encrypted_host_must_prove_its_name(
    secure_upstream, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = secure_upstream.port
    with pytest.raises(NetworkFailed, match="is not valid for"):
        await guarded_request("GET", f"https://localhost:{port}/", allow=[f"localhost:{port}"], allow_private=True)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    answer = await guarded_request("GET", f"https://localhost:{port}/", allow=[f"localhost:{port}"], allow_private=True)
    assert answer.body == b"hello from GET / HTTP/1.1"
    with pytest.raises(NetworkFailed, match="is not valid for"):
        await guarded_request("GET", f"https://127.0.0.1:{port}/", allow=[f"127.0.0.1:{port}"], allow_private=True)


@pytest.mark.parametrize(
    "url",
    [
        "http://localhost:{port}.evil.test/",
        "http://evil.test/",
        "https://localhost/",
        "http://localhost:1/",
        "http://127.0.0.1:{port}/",
    ],
)
async def test_what_is_not_on_the_list_is_refused(url: str, upstream) -> None:
    with pytest.raises((NetworkRefused, InvalidInput)):
        await guarded_request("GET", url.format(port=upstream.port), allow=[f"localhost:{upstream.port}"], allow_private=True)
    assert upstream.connections == 0


async def test_private_addresses_are_refused_unless_they_are_opened(upstream) -> None:
    entry = f"http://localhost:{upstream.port}"
    with pytest.raises(NetworkRefused, match="loopback") as caught:
        await guarded_request("GET", entry, allow=[entry])
    assert "127.0.0.1" not in caught.value.message
    assert upstream.connections == 0


@pytest.mark.parametrize("address", ["169.254.169.254", "[fd00:ec2::254]", "[::ffff:127.0.0.1]", "100.100.100.200", "0.0.0.0"])
async def test_metadata_addresses_stay_closed_even_when_private_networks_are_open(address: str) -> None:
    with pytest.raises(NetworkRefused):
        await guarded_request("GET", f"http://{address}/", allow=[f"http://{address}"], allow_private=True)


async def test_a_name_that_leads_to_a_private_address_is_refused(monkeypatch: pytest.MonkeyPatch, upstream) -> None:
    async def lookup(name: str) -> list[str]:
        return ["127.0.0.1", "10.0.0.1"]

    monkeypatch.setattr(connections, "system_lookup", lookup)
    with pytest.raises(NetworkRefused, match="loopback, private network"):
        await guarded_request("GET", "http://api.example.com/", allow=["http://api.example.com"])


async def test_a_redirect_is_given_back_and_not_followed(upstream) -> None:
    upstream.answer = lambda head: plain_answer(b"", status="302 Found", headers="Location: http://169.254.169.254/\r\n")
    entry = f"http://localhost:{upstream.port}"
    answer = await guarded_request("GET", entry, allow=[entry], allow_private=True)
    assert (answer.status, answer.headers["location"]) == (302, "http://169.254.169.254/")


async def test_an_answer_that_is_too_long_too_late_or_broken_is_refused(upstream) -> None:
    entry = f"http://localhost:{upstream.port}"

    async def ask(**limits: object) -> None:
        await guarded_request("GET", entry, allow=[entry], allow_private=True, **limits)  # type: ignore[arg-type]

    upstream.answer = lambda head: plain_answer(b"x" * 5000)
    with pytest.raises(NetworkFailed, match="more than 4999 bytes"):
        await ask(max_bytes=4999)
    await ask(max_bytes=5000)
    upstream.answer = lambda head: b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort"
    with pytest.raises(NetworkFailed, match="within"):
        await ask(timeout_s=0.1)
    for broken in (b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\nX: " + b"x" * 70_000 + b"\r\n\r\n"):
        upstream.answer = lambda head, broken=broken: broken
        with pytest.raises(NetworkFailed, match="properly"):
            await ask(timeout_s=5)


@pytest.mark.parametrize(
    "url",
    [
        "ftp://a.test/", "http://user@a.test/", "http://a.test\r\nHost: b/", "http://a.test/\r\nX: y", "http://a b/",
        "http:///", "//a.test/",
        "http://a.test:0/", "http://a.test:99999/", "http://0x7f.1/", "http://127.1/", "http://2130706433/", "http://a.test#f",
        "http://a.test\\@evil.test/", "http://[::1%25eth0]/", "",
    ],
)  # fmt: skip
async def test_a_url_that_could_be_read_in_two_ways_is_refused(url: str) -> None:
    with pytest.raises(InvalidInput):
        await guarded_request("GET", url, allow=["http://a.test"])


@pytest.mark.parametrize(
    ("method", "headers"),
    [
        ("GET\r\n", {}), ("CONNECT", {}), ("get", {}), ("GET", {"Host": "evil.test"}),
        ("GET", {"transfer-encoding": "chunked"}), ("GET", {"Content-Length": "5"}), ("GET", {"X": "a\r\nY: b"}),
        ("GET", {"X Y": "a"}), ("GET", {"Proxy-Authorization": "a"}), ("GET", {"Upgrade": "websocket"}), ("GET", {"X": "a\0"}),
    ],
)  # fmt: skip
async def test_a_request_that_could_hold_a_second_one_is_refused(method: str, headers: dict[str, str]) -> None:
    with pytest.raises(InvalidInput):
        await guarded_request(method, "http://a.test/", allow=["http://a.test"], headers=headers)


async def test_an_entry_that_cannot_be_enforced_is_refused() -> None:
    with pytest.raises(InvalidInput):
        await guarded_request("GET", "http://a.test/", allow=["*"])


async def test_many_requests_at_once_do_not_mix(upstream) -> None:
    entry = f"http://localhost:{upstream.port}"
    calls = (guarded_request("GET", f"{entry}/{number}", allow=[entry], allow_private=True) for number in range(20))
    answers = await asyncio.gather(*calls)
    assert [answer.body for answer in answers] == [f"hello from GET /{number} HTTP/1.1".encode() for number in range(20)]
