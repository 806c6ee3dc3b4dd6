"""Frames: what goes over the two pipes between Skillyard and a container's first program; and the connections they carry.

A frame is a kind (one byte), a number (two bytes, a connection, else 0), a length (four bytes), and so many bytes. Docker and
podman carry three streams and no other descriptor, so everything of a run shares two of them: also its
connections to its proxy, which `ContainerLinks` accepts inside the container. This file stands alone and works on every
Python from 3.9, because the container's Python loads it too.
"""

from __future__ import annotations

import contextlib
import select
import socket
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_HEAD = struct.Struct(">cHI")

LONGEST = 1 << 16
"""The most bytes of one frame."""
WINDOW = 1 << 18
"""So many bytes of the input, or of one direction of a connection, may be on their way; the other side gives them back."""

# From Skillyard:
JOB, INPUT, END_PROCESSES, STOP = b"J", b"I", b"P", b"K"
# From the container:
HELLO, STARTED, OUTPUT, ERRORS, RESULT, EXCEEDED, ENDED_PROCESSES, TERMINATED = (
    b"H", b"S", b"1", b"2", b"3", b"Q", b"N", b"T",
)  # fmt: skip
CONNECTION = b"C"
# Of both, about a connection (the input is the number 0): data, the end of one direction, the end, bytes that were taken.
DATA, FINISHED, ABORTED, TAKEN = b"D", b"F", b"A", b"W"

_PIECE = 1 << 15
_MOST_CONNECTIONS = 32


class InvalidFrame(ValueError):
    """What came is not a frame."""


def frame(kind: bytes, payload: bytes = b"", number: int = 0) -> bytes:
    """One frame, as it is sent over the pipe."""
    return _HEAD.pack(kind, number, len(payload)) + payload


def taken(count: int, number: int = 0) -> bytes:
    """The frame that gives `count` bytes of a window back."""
    return frame(TAKEN, count.to_bytes(4, "big"), number)


class FrameReader:
    """Takes frames out of the pieces of one pipe."""

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, piece: bytes) -> list[tuple[bytes, int, bytes]]:
        """The frames that are complete with one more piece: kind, number and payload of each.

        Raises:
            InvalidFrame: one says that it is longer than a frame may be.
        """
        self._held += piece
        found, at = [], 0
        while len(self._held) - at >= _HEAD.size:
            kind, number, length = _HEAD.unpack_from(self._held, at)
            if length > LONGEST:
                raise InvalidFrame("a frame of " + str(length) + " bytes")
            start = at + _HEAD.size
            if len(self._held) - start < length:
                break
            found.append((kind, number, bytes(self._held[start : start + length])))
            at = start + length
        del self._held[:at]
        return found


class _Connection:
    """One connection of the run to its proxy: what is to be written to it, and how much more may be read from it."""

    def __init__(self, link: socket.socket) -> None:
        self.link = link
        self.waiting = bytearray()
        self.window = WINDOW
        self.no_more_to_read = False
        self.no_more_to_write = False


class ContainerLinks:
    """Accepts connections at the address of the proxy; `send` writes a frame to Skillyard, which has the proxy."""

    def __init__(self, poll: select.poll, send: Callable[[bytes], object]) -> None:
        self._poll = poll
        self._send = send
        self._connections: dict[int, _Connection] = {}
        self._numbers = 0
        self._listener: socket.socket | None = None

    def listen(self, port: int) -> None:
        """Begin to accept, on the loopback interface of the container."""
        self._listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listener.bind(("127.0.0.1", port))
        self._listener.listen(64)
        self._listener.setblocking(False)
        self._poll.register(self._listener.fileno(), select.POLLIN)

    def _accept(self, listener: socket.socket) -> None:
        try:
            link, _ = listener.accept()
        except OSError:
            return
        link.setblocking(False)
        number = self._numbers = self._numbers % 60000 + 1
        if number in self._connections:
            link.close()
            return
        self._connections[number] = _Connection(link)
        self._poll.register(link.fileno(), select.POLLIN)
        self._send(frame(CONNECTION, b"", number))
        if len(self._connections) >= _MOST_CONNECTIONS:  # the others wait in the kernel, which has little room too
            self._poll.unregister(listener.fileno())

    def take(self, kind: bytes, number: int, payload: bytes) -> None:
        """One frame about a connection."""
        connection = self._connections.get(number)
        if connection is None:
            return
        if kind == ABORTED:
            self._drop(number)
        elif kind == TAKEN:
            connection.window += int.from_bytes(payload, "big")
            self._interest(connection)
        else:
            connection.waiting += payload
            connection.no_more_to_write = connection.no_more_to_write or kind == FINISHED
            self._write(number, connection)

    def ready(self, fd: int, event: int) -> None:
        """What the kernel says about one of our descriptors."""
        if self._listener is not None and fd == self._listener.fileno():
            self._accept(self._listener)
            return
        number = next((number for number, one in self._connections.items() if one.link.fileno() == fd), 0)
        if not number:
            return
        connection = self._connections[number]
        if event & select.POLLOUT:
            self._write(number, connection)
        if event & (select.POLLIN | select.POLLHUP | select.POLLERR) and number in self._connections:
            self._read(number, connection, closed=bool(event & (select.POLLHUP | select.POLLERR)))

    def _read(self, number: int, connection: _Connection, *, closed: bool) -> None:
        if connection.no_more_to_read or connection.window <= 0:
            if closed:  # in both directions: nobody waits for an answer
                self._abort(number)
            return
        try:
            piece = connection.link.recv(min(_PIECE, connection.window))
        except BlockingIOError:
            return
        except OSError:
            self._abort(number)
            return
        connection.window -= len(piece)
        connection.no_more_to_read = not piece
        self._send(frame(DATA if piece else FINISHED, piece, number))
        self._settle(number, connection)

    def _write(self, number: int, connection: _Connection) -> None:
        try:
            count = connection.link.send(connection.waiting) if connection.waiting else 0
        except BlockingIOError:
            count = 0
        except OSError:
            self._abort(number)
            return
        del connection.waiting[:count]
        if count:
            self._send(taken(count, number))
        if not connection.waiting and connection.no_more_to_write:
            with contextlib.suppress(OSError):
                connection.link.shutdown(socket.SHUT_WR)
        self._settle(number, connection)

    def _settle(self, number: int, connection: _Connection) -> None:
        if connection.no_more_to_read and connection.no_more_to_write and not connection.waiting:
            self._drop(number)
        else:
            self._interest(connection)

    def _interest(self, connection: _Connection) -> None:
        reads = select.POLLIN if connection.window > 0 and not connection.no_more_to_read else 0
        self._poll.register(connection.link.fileno(), reads | (select.POLLOUT if connection.waiting else 0))

    def _abort(self, number: int) -> None:
        self._send(frame(ABORTED, b"", number))
        self._drop(number)

    def _drop(self, number: int) -> None:
        connection = self._connections.pop(number)
        self._poll.unregister(connection.link.fileno())
        connection.link.close()
        if self._listener is not None:
            self._poll.register(self._listener.fileno(), select.POLLIN)
