"""The greeting of a TLS connection: the one name in it is found, and whatever is unclear is refused."""

from __future__ import annotations

import asyncio
import ssl
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillyard.network.proxy_relay import LONGEST_CLIENT_HELLO, InvalidClientHello, read_client_hello, server_name


def real_hello(name: str | None) -> bytes:
    """What Python's own TLS says first."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    outgoing = ssl.MemoryBIO()
    connection = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname=name)
    with pytest.raises(ssl.SSLWantReadError):
        connection.do_handshake()
    return outgoing.read()


def name_extension(*names: bytes) -> bytes:
    listed = b"".join(b"\0" + struct.pack("!H", len(name)) + name for name in names)
    return struct.pack("!HHH", 0, len(listed) + 2, len(listed)) + listed


def hello(*extensions: bytes) -> bytes:
    """The body of a greeting with these extensions."""
    body = b"\x03\x03" + bytes(32) + b"\0" + b"\0\x02\x13\x01" + b"\x01\0"
    joined = b"".join(extensions)
    return body + struct.pack("!H", len(joined)) + joined


def record(body: bytes, *, size: int = 1 << 14) -> bytes:
    message = b"\x01" + len(body).to_bytes(3, "big") + body
    pieces = [message[start : start + size] for start in range(0, len(message), size)]
    return b"".join(b"\x16\x03\x01" + struct.pack("!H", len(piece)) + piece for piece in pieces)


async def read(data: bytes, *, first: bytes = b"") -> tuple[bytes, str | None]:
    reader = asyncio.StreamReader()
    reader.feed_data(data)
    reader.feed_eof()
    return await read_client_hello(reader, first)


async def test_the_name_in_a_real_greeting_is_found_and_every_byte_is_passed_on() -> None:
    data = real_hello("api.example.com")
    assert await read(data + b"early") == (data + b"early", "api.example.com")
    assert await read(data[20:], first=data[:20]) == (data, "api.example.com")
    assert (await read(real_hello(None)))[1] is None


async def test_a_greeting_in_many_records_is_put_together() -> None:
    data = record(hello(name_extension(b"api.example.com")), size=3)
    assert await read(data) == (data, "api.example.com")


@pytest.mark.parametrize(
    "data",
    [
        b"", b"GET / HTTP/1.1\r\n\r\n", b"SSH-2.0-OpenSSH\r\n", b"\x80\x2e\x01\x03\x01", b"\x16\x03\x01\x00\x00",
        b"\x17\x03\x03\x00\x01a",
        b"\x16\x03\x01\x00\x05\x02\x00\x00\x01\x00", record(hello(name_extension(b"a.test")))[:-1],
        record(hello(name_extension(b"a.test"), name_extension(b"a.test"))), record(hello(name_extension(b"a.test",
        b"b.test"))),
        record(hello(name_extension(b"a.test"), struct.pack("!HH", 0xFE0D, 4) + b"ech!")),
        record(hello(name_extension(b"a.test"), struct.pack("!HH", 0xFFCE, 0))), record(hello(b"\0\0\0")),
        record(hello(name_extension("ä.test".encode()))), record(hello(name_extension(b"a.test")) + b"more"),
        record(hello(struct.pack("!HH", 21, 15_000) + bytes(15_000), struct.pack("!HH", 21, 2_000) + bytes(2_000))),
        b"\x16\x03\x01\xff\xff" + bytes(LONGEST_CLIENT_HELLO),
    ],
)  # fmt: skip
@pytest.mark.abuse("D14")
async def test_what_cannot_be_judged_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidClientHello):
        await read(data)


@given(st.binary(max_size=200), st.binary(max_size=60))
def test_no_bytes_confuse_the_reader(body: bytes, extensions: bytes) -> None:
    for data in (body, hello(extensions), hello(name_extension(extensions[:50]))):
        try:
            name = server_name(data)
        except InvalidClientHello:
            continue
        assert name is None or name.isascii()
