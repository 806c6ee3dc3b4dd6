"""A wire that can be cut: a relay on loopback that hands bytes on, holds them back, or resets every connection.

It needs no right that an ordinary user lacks, unlike network namespaces, and cuts off one part of the site without the others.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct

__all__ = ["Relay"]

_CHUNK = 1 << 16
_RESET = struct.pack("ii", 1, 0)  # to close is to reset


class Relay:
    """Everything that connects to `port` reaches the port `target` of this machine, as long as the wire is whole."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._whole = True
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        self.port = 0

    async def open(self) -> Relay:
        """Listen on any free port."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    def cut(self) -> None:
        """Reset every connection, and every new one, until `heal`."""
        self._whole = False
        for writer in list(self._writers):
            _reset(writer)

    def hold(self) -> None:
        """Take connections and bytes, and hand nothing on, until `heal`: the other side seems to be silent."""
        self._flowing.clear()

    def heal(self) -> None:
        """Hand on again, also what was held back."""
        self._whole = True
        self._flowing.set()

    async def close(self) -> None:
        """Stop listening, and end what is open."""
        if self._server is not None:
            self._server.close()
        self.cut()
        self._flowing.set()
        if self._server is not None:
            await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self._whole:
            _reset(writer)
            return
        try:
            there_reader, there = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            _reset(writer)
            return
        ends = {writer, there}
        self._writers |= ends
        try:
            await asyncio.gather(self._carry(reader, there, writer), self._carry(there_reader, writer, there))
        finally:
            self._writers -= ends
            for end in ends:
                end.close()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, back: asyncio.StreamWriter) -> None:
        """Hand on what comes until its end; where one side breaks, the other one is told at once."""
        try:
            while data := await reader.read(_CHUNK):
                await self._flowing.wait()
                writer.write(data)
                await writer.drain()
            await self._flowing.wait()
            writer.write_eof()
        except OSError:
            _reset(writer)
            _reset(back)


def _reset(writer: asyncio.StreamWriter) -> None:
    connection = writer.get_extra_info("socket")
    with contextlib.suppress(OSError, AttributeError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    writer.transport.abort()
