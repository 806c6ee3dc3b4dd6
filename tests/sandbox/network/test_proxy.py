"""The proxy by itself, with real servers behind it: what is passed on, what is refused, what is written down."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillyard.network import Contact
from skillyard.network.connections import system_lookup
from skillyard.network.hosts import read_rules
from skillyard.network.proxy import Proxy, ProxyLimits
from skillyard.network.proxy_relay import MalformedProxyRequest, read_proxy_request

DENIED = b"X-Skillyard-Proxy: denied-by-allowlist\r\n"


class Way:
    """A proxy and the port it listens on."""

    def __init__(self, proxy: Proxy) -> None:
        listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = listener.getsockname()[1]
        self.proxy = proxy
        proxy.open(listener)

    async def say(self, data: bytes, *, end: bool = False) -> bytes:
        """Everything the proxy answers to these bytes."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(data)
        if end:
            writer.write_eof()
        try:
            async with asyncio.timeout(10):
                return await reader.read()
        except ConnectionError:
            return b""
        finally:
            writer.close()

    async def get(self, url: str, headers: str = "") -> bytes:
        return await self.say(f"GET {url} HTTP/1.1\r\nHost: x\r\n{headers}\r\n".encode("latin-1"))

    async def contacts(self) -> tuple[Contact, ...]:
        """What was written down, once every connection has ended."""
        while len(self.proxy._tasks) > 1:
            await asyncio.sleep(0.005)
        return self.proxy.contacts


Open = Callable[..., Way]


@pytest.fixture
async def open_way() -> AsyncIterator[Open]:
    """Give a function that starts a proxy for these entries; private networks are open unless it says otherwise."""
    ways: list[Way] = []

    def start(
        *entries: str, private: bool = True, trusted: Sequence[str] = (), answers: dict[str, Sequence[str]] | None = None,
        **limits: object,
    ) -> Way:  # fmt: skip
        async def lookup(name: str) -> Sequence[str]:
            return (answers or {})[name]

        limited = ProxyLimits(**limits)  # type: ignore[arg-type]
        resolver = lookup if answers is not None else system_lookup
        way = Way(Proxy(read_rules(entries), private, limited, resolver, read_rules(trusted)))
        ways.append(way)
        return way

    yield start
    for way in ways:
        await way.proxy.close()


@pytest.mark.row("000-20")
@pytest.mark.abuse("D5")
async def test_a_host_of_the_list_is_reached_and_another_is_denied(open_way: Open, upstream) -> None:
    way = open_way(f"http://localhost:{upstream.port}")
    answer = await way.get(f"http://localhost:{upstream.port}/a?b=c")
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert answer.endswith(b"hello from GET /a?b=c HTTP/1.1")
    denied = await way.get("http://other.test/")
    assert denied.startswith(b"HTTP/1.1 403 ")
    assert DENIED in denied
    allowed, refused = await way.contacts()
    assert (allowed.host, allowed.port, allowed.verdict, allowed.address) == (
        "localhost",
        upstream.port,
        "allowed",
        "127.0.0.1",
    )
    assert allowed.received_bytes == len(answer)
    assert allowed.sent_bytes == len(upstream.seen[0])
    assert (refused.host, refused.port, refused.verdict, refused.received_bytes) == ("other.test", 80, "denied", 0)


@pytest.mark.abuse("D15")
async def test_the_request_is_written_anew_for_the_host_alone(open_way: Open, upstream) -> None:
    way = open_way(f"http://localhost:{upstream.port}")
    await way.get(
        f"http://LOCALHOST.:{upstream.port}/x",
        "Connection: X-Hop, content-length\r\nX-Hop: 1\r\nProxy-Authorization: Basic s\r\nProxy-Connection: keep-alive\r\n"
        "TE: trailers\r\nKeep-Alive: 5\r\nX-Kept: yes\r\n",
    )
    (head,) = upstream.heads
    assert head == f"GET /x HTTP/1.1\r\nHost: localhost:{upstream.port}\r\nConnection: close\r\nx-kept: yes\r\n\r\n"


async def test_bodies_of_both_kinds_reach_the_host(open_way: Open, upstream) -> None:
    way = open_way(f"http://localhost:{upstream.port}")
    start = f"POST http://localhost:{upstream.port}/ HTTP/1.1\r\nHost: x\r\n".encode()
    await way.say(start + b"Content-Length: 5\r\n\r\nhello")
    await way.say(start + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\nTrailer: x\r\n\r\n")
    await way.contacts()
    assert upstream.heads[0].endswith("\r\n\r\nhello")
    assert upstream.heads[1].endswith("\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")
    assert "Trailer" not in upstream.heads[1]


async def test_a_program_that_waits_for_leave_to_send_gets_it(open_way: Open, upstream) -> None:
    way = open_way(f"http://localhost:{upstream.port}")
    reader, writer = await asyncio.open_connection("127.0.0.1", way.port)
    head = f"PUT http://localhost:{upstream.port}/ HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n"
    writer.write(head.encode())
    assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 \r\n\r\n"
    writer.write(b"abc")
    assert (await reader.read()).startswith(b"HTTP/1.1 200 OK")
    writer.close()
    assert "Expect" not in upstream.heads[0].title()


@pytest.mark.row("000-20")
@pytest.mark.abuse("D15")
async def test_a_second_request_on_the_same_connection_goes_nowhere(open_way: Open, upstream) -> None:
    way = open_way(f"http://localhost:{upstream.port}", "http://evil.test", answers={"localhost": ["127.0.0.1"]})
    one = f"GET http://localhost:{upstream.port}/1 HTTP/1.1\r\nHost: x\r\n\r\n".encode()
    answer = await way.say(one + b"GET http://evil.test/2 HTTP/1.1\r\nHost: evil.test\r\n\r\n")
    assert answer.count(b"HTTP/1.1 200 OK") == 1
    (head,) = upstream.heads
    assert "evil" not in head
    assert [contact.host for contact in await way.contacts()] == ["localhost"]


@pytest.mark.row("000-20")
@pytest.mark.parametrize(
    "request_",
    [
        "GET / HTTP/1.1\r\nHost: {host}\r\n\r\n",
        "GET https://{host}/ HTTP/1.1\r\nHost: {host}\r\n\r\n",
        "GET ftp://{host}/ HTTP/1.1\r\nHost: {host}\r\n\r\n",
        "GET http://{host}/ HTTP/1.1\r\nHost: {host}\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "GET http://{host}/ HTTP/1.1\r\nHost: {host}\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
        "GET http://{host}/ HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        "GET http://{host}/ HTTP/1.1\r\nHost: {host}\r\nX: a\r\n b\r\n\r\n",
        "GET http://{host}/ HTTP/1.1\nHost: {host}\n\n",
        "GET http://{host}/ HTTP/1.1\r\nHost: {host}\r\nX: a\rb\r\n\r\n",
        "GET http://{host}/ HTTP/1.1\r\nHost: {host}\r\nX : a\r\n\r\n",
        "GET http://{host}/ HTTP/1.1\r\nHost: {host}\r\nX: a\0b\r\n\r\n",
        "GET http://{host}/ HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
        "GET http://{host}/ HTTP/1.1\r\nHost: {host}\r\nHost: evil.test\r\n\r\n",
        "GET http://{host}/ HTTP/2.0\r\nHost: {host}\r\n\r\n",
        "GET http://user@{host}/ HTTP/1.1\r\nHost: {host}\r\n\r\n",
        "GET http://{host}#.evil.test/ HTTP/1.1\r\nHost: {host}\r\n\r\n",
        "GET http://{host}/ HTTP/1.1\r\nHost: {host}\r\nX: {long}\r\n\r\n",
        "GET http://evil\0.{host}/ HTTP/1.1\r\nHost: {host}\r\n\r\n",
        "GET http://local\u00ad{host}/ HTTP/1.1\r\nHost: {host}\r\n\r\n",
        "GET http://{host}%00.evil.test/ HTTP/1.1\r\nHost: {host}\r\n\r\n",
        "CONNECT localhost HTTP/1.1\r\nHost: {host}\r\n\r\n",
        "CONNECT {host}/x HTTP/1.1\r\nHost: {host}\r\n\r\n",
        "CONNECT user@{host} HTTP/1.1\r\nHost: {host}\r\n\r\n",
        "CONNECT {host} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 3\r\n\r\nabc",
        "CONNECT xn--:443 HTTP/1.1\r\nHost: {host}\r\n\r\n",
        "CONNECT 127.1:443 HTTP/1.1\r\nHost: {host}\r\n\r\n",
        "CONNECT 0x7f000001:443 HTTP/1.1\r\nHost: {host}\r\n\r\n",
        "CONNECT 2130706433:443 HTTP/1.1\r\nHost: {host}\r\n\r\n",
        "CONNECT 017700000001:443 HTTP/1.1\r\nHost: {host}\r\n\r\n",
        "\x16\x03\x01\0\0\r\n\r\n",
    ],
)
@pytest.mark.abuse("D10", "D12", "D15")
async def test_a_request_that_is_not_plain_is_refused_before_anything_is_dialled(
    open_way: Open, upstream, request_: str
) -> None:
    way = open_way(f"localhost:{upstream.port}", f"127.0.0.1:{upstream.port}")
    text = request_.format(host=f"localhost:{upstream.port}", long="x" * 40_000)
    answer = await way.say(text.encode("latin-1"), end=True)
    assert answer.startswith(b"HTTP/1.1 400 "), answer
    (contact,) = await way.contacts()
    assert contact.verdict == "refused"
    assert contact.reason
    assert upstream.connections == 0


@pytest.mark.parametrize(
    "target",
    [
        "notallowed.com", "allowed.com.evil", "evilallowed.com", "allowed.com", "a.allowed.com:8080",
        "169.254.169.254", "127.0.0.1",
        "[::]", "[::1]", "10.0.0.1",
    ],
)  # fmt: skip
@pytest.mark.abuse("D7", "D11", "D12", "D13")
async def test_near_names_other_ports_and_addresses_are_denied(open_way: Open, target: str) -> None:
    way = open_way("http://*.allowed.com", answers={})
    assert DENIED in await way.get(f"http://{target}/")
    authority = target if ":" in target.strip("[]") and not target.startswith("[") else f"{target}:443"
    for port in ("443", "22"):
        again = authority.rpartition(":")[0] + ":" + port
        assert DENIED in await way.say(f"CONNECT {again} HTTP/1.1\r\nHost: x\r\n\r\n".encode())


@pytest.mark.row("000-20")
@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("127.0.0.1", "loopback"), ("10.1.2.3", "private network"), ("192.168.1.1", "private network"), ("fd00::1",
        "private network"),
        ("169.254.169.254", "metadata"), ("100.100.100.200", "metadata"), ("fd00:ec2::254", "metadata"),
        ("168.63.129.16", "metadata"), ("::ffff:127.0.0.1", "IPv4 inside IPv6"), ("64:ff9b::7f00:1", "IPv4 inside IPv6"),
        ("2002:7f00::", "IPv4 inside IPv6"), ("0.0.0.0", "unspecified"), ("224.0.0.1", "multicast"),
    ],
)  # fmt: skip
@pytest.mark.abuse("D7", "D8")
async def test_a_name_that_leads_inside_is_denied_by_the_class_and_not_the_address(
    open_way: Open, address: str, name: str
) -> None:
    way = open_way("http://api.example.com", "https://api.example.com", private=False, answers={"api.example.com": [address]})
    for request in ("GET http://api.example.com/", "CONNECT api.example.com:443"):
        answer = (await way.say(f"{request} HTTP/1.1\r\nHost: x\r\n\r\n".encode())).decode()
        assert answer.startswith("HTTP/1.1 403 ")
        assert "denied-by-address" in answer
        assert name in answer
        assert address not in answer
    assert {contact.verdict for contact in await way.contacts()} == {"denied"}


@pytest.mark.abuse("D9")
async def test_a_trusted_registry_may_be_inside_and_other_hosts_of_the_list_may_not(open_way: Open, upstream) -> None:
    registry, other, evil = (f"http://{name}.test:{upstream.port}" for name in ("registry", "other", "evil"))
    answers = {"registry.test": ["127.0.0.1"], "other.test": ["127.0.0.1"], "evil.test": ["169.254.169.254"]}
    way = open_way(registry, other, evil, private=False, trusted=(registry, evil), answers=answers)
    assert (await way.get(f"{registry}/left-pad")).startswith(b"HTTP/1.1 200 ")
    for refused in (other, evil):
        assert b"X-Skillyard-Proxy: denied-by-address" in await way.get(f"{refused}/")
    unlisted = open_way(other, private=False, trusted=(registry,), answers=answers)
    assert DENIED in await unlisted.get(f"{registry}/")


async def test_an_address_is_judged_again_for_every_connection_and_dialled_as_judged(open_way: Open, upstream) -> None:
    answers = {"api.example.com": ["169.254.169.254", "127.0.0.1"]}
    way = open_way(f"http://api.example.com:{upstream.port}", answers=answers)
    url = f"http://api.example.com:{upstream.port}/"
    assert (await way.get(url)).startswith(b"HTTP/1.1 200")
    answers["api.example.com"] = ["169.254.169.254"]
    assert (await way.get(url)).startswith(b"HTTP/1.1 403")
    assert upstream.connections == 1


async def test_a_host_that_cannot_be_found_or_reached_is_an_error_of_the_way(open_way: Open) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    way = open_way(f"http://localhost:{port}", "http://gone.test", answers={"localhost": ["127.0.0.1"], "gone.test": []})
    assert (await way.get(f"http://localhost:{port}/")).startswith(b"HTTP/1.1 502 ")
    assert (await way.get("http://gone.test/")).startswith(b"HTTP/1.1 502 ")
    assert {contact.verdict for contact in await way.contacts()} == {"failed"}


@pytest.mark.abuse("D17")
async def test_a_redirect_comes_back_and_its_target_is_judged_like_any_other(open_way: Open, upstream) -> None:
    upstream.answer = lambda head: b"HTTP/1.1 302 Found\r\nLocation: http://169.254.169.254/\r\nContent-Length: 0\r\n\r\n"
    way = open_way(f"http://localhost:{upstream.port}")
    answer = await way.get(f"http://localhost:{upstream.port}/")
    assert b"location: http://169.254.169.254/" in answer.lower()
    assert DENIED in await way.get("http://169.254.169.254/")


async def connect(way: Way, target: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", way.port)
    writer.write(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode())
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
    return reader, writer


@pytest.mark.row("000-20")
async def test_a_tunnel_carries_tls_to_the_host_it_is_for(open_way: Open, secure_upstream, certificate: Path) -> None:
    way = open_way(f"localhost:{secure_upstream.port}")
    reader, writer = await connect(way, f"localhost:{secure_upstream.port}")
    await writer.start_tls(ssl.create_default_context(cafile=certificate), server_hostname="localhost")
    writer.write(b"GET /inside HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert b"hello from GET /inside" in await reader.readuntil(b"HTTP/1.1 ") + await reader.read(500)
    writer.close()
    (contact,) = await way.contacts()
    assert (contact.verdict, contact.host) == ("allowed", "localhost")
    assert contact.sent_bytes > 100
    assert contact.received_bytes > 100


def greeting(name: str | None) -> bytes:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    outgoing = ssl.MemoryBIO()
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname=name).do_handshake()
    return outgoing.read()


@pytest.mark.row("000-20")
@pytest.mark.parametrize("kind", ["evil name", "no name", "plain text", "nothing", "half"])
@pytest.mark.abuse("D14")
async def test_a_tunnel_for_anything_else_is_closed_and_the_host_hears_nothing(open_way: Open, upstream, kind: str) -> None:
    whole = greeting("localhost")
    said = {
        "evil name": greeting("evil.test"),
        "no name": greeting(None),
        "plain text": b"GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n",
        "nothing": b"",
        "half": whole[:100],
    }[kind]
    way = open_way(f"localhost:{upstream.port}", greeting_s=0.2)
    reader, writer = await connect(way, f"localhost:{upstream.port}")
    writer.write(said)
    with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
        await reader.readexactly(1)
    writer.close()
    (contact,) = await way.contacts()
    assert contact.verdict == "denied"
    assert "TLS" in contact.reason
    assert upstream.seen in ([], [b""])


async def test_an_address_needs_no_name_in_its_greeting(open_way: Open, secure_upstream) -> None:
    way = open_way(f"127.0.0.1:{secure_upstream.port}")
    reader, writer = await connect(way, f"127.0.0.1:{secure_upstream.port}")
    writer.write(greeting(None))
    assert (await reader.readexactly(1)) == b"\x16"
    writer.close()


@pytest.mark.abuse("D19")
async def test_only_so_many_connections_at_once_and_none_forever(open_way: Open, upstream) -> None:
    way = open_way(f"http://localhost:{upstream.port}", connections=4, idle_s=0.3)
    slow = [await asyncio.open_connection("127.0.0.1", way.port) for _ in range(12)]
    for _, writer in slow:
        writer.write(b"GET http://localh")
    await asyncio.sleep(0.1)
    assert len(way.proxy._tasks) <= 5
    answer = await way.get(f"http://localhost:{upstream.port}/late")  # its turn comes when the slow ones were sent away
    assert answer.startswith(b"HTTP/1.1 200")
    for _, writer in slow:
        writer.close()


@pytest.mark.abuse("D19")
async def test_a_run_sends_and_receives_only_so_much_in_all(open_way: Open, upstream) -> None:
    way = open_way(f"http://localhost:{upstream.port}", sent_bytes=2_000, received_bytes=5_000)
    url = f"http://localhost:{upstream.port}/"
    upstream.answer = lambda head: b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n" + b"x" * 100_000
    assert len(await way.get(url)) <= 5_000
    (contact,) = await way.contacts()
    assert "as much as it may" in contact.reason
    big = f"POST {url} HTTP/1.1\r\nHost: x\r\nContent-Length: 9000\r\n\r\n".encode() + bytes(9_000)
    assert b"200 OK" not in await way.say(big)
    assert sum(map(len, upstream.seen)) < 2_000


async def test_a_broken_answer_does_not_look_like_a_whole_one(open_way: Open, upstream) -> None:
    way = open_way(f"http://localhost:{upstream.port}", idle_s=0.3)
    upstream.answer = lambda head: b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"
    reader, writer = await asyncio.open_connection("127.0.0.1", way.port)
    writer.write(f"GET http://localhost:{upstream.port}/ HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
        await reader.readexactly(1_000)
    writer.close()


async def test_the_end_of_a_run_ends_every_connection_at_once(open_way: Open, upstream) -> None:
    way = open_way(f"http://localhost:{upstream.port}")
    upstream.answer = lambda head: b""
    reader, writer = await asyncio.open_connection("127.0.0.1", way.port)
    writer.write(f"GET http://localhost:{upstream.port}/ HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    while not upstream.connections:
        await asyncio.sleep(0.005)
    await way.proxy.close()
    assert not way.proxy._tasks
    with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
        await reader.readexactly(1)
    writer.close()
    with pytest.raises(ConnectionError):
        await asyncio.open_connection("127.0.0.1", way.port)


async def test_endless_names_are_written_down_in_bounded_space(open_way: Open) -> None:
    way = open_way("http://allowed.test", answers={})
    for number in range(230):
        await way.get(f"http://host-{number}.test/")
    contacts = await way.contacts()
    assert len(contacts) <= 202
    assert sum(contact.requests for contact in contacts) == 230


@given(st.binary(max_size=300) | st.binary(max_size=100).map(lambda data: b"GET http://a.test/" + data + b"\r\n\r\n"))
def test_no_bytes_confuse_the_reader_of_requests(data: bytes) -> None:
    async def read() -> None:
        reader = asyncio.StreamReader()
        reader.feed_data(data)
        reader.feed_eof()
        try:
            await read_proxy_request(reader)
        except MalformedProxyRequest as error:
            assert str(error)

    asyncio.run(read())
