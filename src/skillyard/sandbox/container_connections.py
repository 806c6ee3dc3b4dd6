"""The connections of a container to its proxy, carried in frames: no port of the machine is opened and no socket is mounted."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from skillyard.sandbox import container_frames as frames

if TYPE_CHECKING:
    from skillyard.network.proxy import Proxy

_PIECE: Final = 1 << 15


class ContainerConnections:
    """Gives each connection of a container to the proxy; `send` writes a frame to the container."""

    def __init__(self, proxy: Proxy, send: Callable[[bytes], object]) -> None:
        self._proxy = proxy
        self._send = send
        self._open: dict[int, _Carried] = {}

    def take(self, kind: bytes, number: int, payload: bytes) -> None:
        """One frame about a connection; what does not fit the others is answered with its end."""
        carried = self._open.get(number)
        if kind == frames.CONNECTION:
            if carried is not None or len(self._open) >= self._proxy.limits.connections:
                self._send(frames.frame(frames.ABORTED, b"", number))
                return
            ours, theirs = socket.socketpair()
            self._proxy.serve(theirs)
            self._open[number] = _Carried(number, ours, self._send, self._closed)
        elif carried is not None:
            carried.take(kind, payload)

    def _closed(self, number: int) -> None:
        self._open.pop(number, None)

    async def close(self) -> None:
        """End all of them."""
        for carried in tuple(self._open.values()):
            carried.task.cancel()
        await asyncio.gather(*(carried.task for carried in self._open.values()), return_exceptions=True)


class _Carried:
    """One connection: bytes from the container wait in a queue, bytes for it until its window has room."""

    def __init__(
        self, number: int, link: socket.socket, send: Callable[[bytes], object], closed: Callable[[int], object]
    ) -> None:
        self._number = number
        self._send = send
        self._queue: asyncio.Queue[bytes] = asyncio.Queue()
        self._waiting = 0
        self._window = frames.WINDOW
        self._room = asyncio.Event()
        self._room.set()
        self._ended_by_container = False
        self.task = asyncio.create_task(self._carry(link))
        self.task.add_done_callback(lambda _: closed(number))

    def take(self, kind: bytes, payload: bytes) -> None:
        """One frame from the container."""
        if kind == frames.TAKEN:
            self._window += int.from_bytes(payload, "big")
            self._room.set()
        elif kind == frames.ABORTED:
            self._ended_by_container = True
            self.task.cancel()
        elif kind in (frames.DATA, frames.FINISHED):
            self._waiting += len(payload)
            if self._waiting > frames.WINDOW:  # more than anybody who keeps the rules would send
                self.task.cancel()
                return
            self._queue.put_nowait(payload if kind == frames.DATA else b"")

    async def _carry(self, link: socket.socket) -> None:
        reader, writer = await asyncio.open_connection(sock=link)
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._outward(writer))
                both.create_task(self._inward(reader))
        except BaseException as error:
            if not self._ended_by_container:
                self._send(frames.frame(frames.ABORTED, b"", self._number))
            if isinstance(error, asyncio.CancelledError):
                raise
        finally:
            writer.transport.abort()

    async def _outward(self, writer: asyncio.StreamWriter) -> None:
        """From the container to the proxy."""
        while piece := await self._queue.get():
            writer.write(piece)
            await writer.drain()
            self._waiting -= len(piece)
            self._send(frames.taken(len(piece), self._number))
        writer.write_eof()

    async def _inward(self, reader: asyncio.StreamReader) -> None:
        """From the proxy to the container."""
        while True:
            while self._window <= 0:
                self._room.clear()
                await self._room.wait()
            piece = await reader.read(min(_PIECE, self._window))
            self._window -= len(piece)
            self._send(frames.frame(frames.DATA if piece else frames.FINISHED, piece, self._number))
            if not piece:
                return
