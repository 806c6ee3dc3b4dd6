"""Reads the first message of a TLS connection and finds the server name in it (RFC 8446, 4.1.2; RFC 6066, 3).

Nothing is decrypted or changed: what was read is passed on as it is, so that what was judged is what the server sees.
"""

from __future__ import annotations

import asyncio
from typing import Final

LONGEST_CLIENT_HELLO: Final = 16 * 1024

_HANDSHAKE: Final = 22
_CLIENT_HELLO: Final = 1
_SERVER_NAME: Final = 0
# Encrypted Client Hello and its forerunner: the name outside is then not the name that counts.
_HIDDEN_NAMES: Final = (0xFE0D, 0xFFCE)


class InvalidClientHello(ValueError):
    """What was sent is not a TLS greeting that can be judged."""


class _Cursor:
    """Takes fields off the front of a message."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._place = 0

    @property
    def done(self) -> bool:
        return self._place == len(self._data)

    def take(self, length: int) -> bytes:
        if self._place + length > len(self._data):
            raise InvalidClientHello("the TLS greeting is cut short")
        self._place += length
        return self._data[self._place - length : self._place]

    def number(self, width: int) -> int:
        return int.from_bytes(self.take(width), "big")

    def vector(self, width: int) -> bytes:
        """A field that says its own length first."""
        return self.take(self.number(width))


async def read_client_hello(reader: asyncio.StreamReader, first: bytes = b"") -> tuple[bytes, str | None]:
    """Everything read until the greeting was whole, and the server name in it (`None` when there is none).

    Raises:
        NotTls: something else than TLS, longer than 16 KiB, with a hidden name, or the end came before.
    """
    raw = bytearray(first)
    while (message := _greeting(bytes(raw))) is None:
        if len(raw) >= LONGEST_CLIENT_HELLO:
            raise InvalidClientHello("the TLS greeting is too long")
        data = await reader.read(LONGEST_CLIENT_HELLO - len(raw))
        if not data:
            raise InvalidClientHello("the connection ended before a TLS greeting")
        raw += data
    return bytes(raw), server_name(message)


def _greeting(raw: bytes) -> bytes | None:
    """The body of the greeting, put together from its records; `None` while it is not complete."""
    message, place = b"", 0
    while len(message) < 4 or len(message) < 4 + int.from_bytes(message[1:4], "big"):
        if raw[place : place + 1] not in (b"", bytes([_HANDSHAKE])) or raw[place + 1 : place + 2] not in (b"", b"\x03"):
            raise InvalidClientHello("the connection does not begin with TLS")
        if message and message[0] != _CLIENT_HELLO:
            raise InvalidClientHello("the connection does not begin with a TLS greeting")
        length = int.from_bytes(raw[place + 3 : place + 5], "big")
        if len(raw) < place + 5 + length or len(raw) < place + 5:
            return None
        if not 0 < length <= LONGEST_CLIENT_HELLO:
            raise InvalidClientHello("the TLS greeting has an impossible length")
        message += raw[place + 5 : place + 5 + length]
        place += 5 + length
    if message[0] != _CLIENT_HELLO:
        raise InvalidClientHello("the connection does not begin with a TLS greeting")
    return message[4 : 4 + int.from_bytes(message[1:4], "big")]


def server_name(hello: bytes) -> str | None:
    """The one server name of a greeting, `None` when it names none.

    Raises:
        NotTls: the greeting is malformed, names several servers, or hides the name.
    """
    cursor = _Cursor(hello)
    cursor.take(2 + 32)
    for width in (1, 2, 1):  # session, ciphers, compression
        cursor.vector(width)
    if cursor.done:
        return None
    extensions = _Cursor(cursor.vector(2))
    if not cursor.done:
        raise InvalidClientHello("the TLS greeting has something behind its end")
    names: list[str | None] = []
    while not extensions.done:
        kind, data = extensions.number(2), extensions.vector(2)
        if kind in _HIDDEN_NAMES:
            raise InvalidClientHello("the TLS greeting hides the server's name (ECH)")
        if kind == _SERVER_NAME:
            names.append(_one_name(data))
    if len(names) > 1:
        raise InvalidClientHello("the TLS greeting names several servers")
    return names[0] if names else None


def _one_name(data: bytes) -> str:
    outer = _Cursor(data)
    entries = _Cursor(outer.vector(2))
    kind, name = entries.number(1), entries.vector(2)
    if kind != 0 or not entries.done or not outer.done or not name.isascii():
        raise InvalidClientHello("the TLS greeting names several servers, or one that is no host")
    return name.decode("ascii")
