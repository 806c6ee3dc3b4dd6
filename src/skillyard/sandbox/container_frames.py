"""Frames: what goes over the two pipes between Skillyard and the first program of a container, in both directions.

A frame is a kind (one byte), a number (two bytes, a connection, else 0), a length (four bytes), and so many bytes. Docker and
podman carry three streams and no other descriptor, so everything of a run shares two of them. This file stands alone and works
on every Python from 3.9, because the container's Python loads it too.
"""

from __future__ import annotations

import struct

_HEAD = struct.Struct(">cHI")

LONGEST = 1 << 16
"""The most bytes of one frame."""
WINDOW = 1 << 18
"""So many bytes of the input, or of one direction of a connection, may be on their way; the other side gives them back."""

# From Skillyard:
JOB, INPUT, END_PROCESSES = b"J", b"I", b"P"
# From the container:
HELLO, STARTED, OUTPUT, ERRORS, RESULT, EXCEEDED, ENDED_PROCESSES, TERMINATED = (
    b"H", b"S", b"1", b"2", b"3", b"Q", b"N", b"T",
)  # fmt: skip
CONNECTION = b"C"
# Of both, about a connection (the input is the number 0): data, the end of one direction, the end, bytes that were taken.
DATA, FINISHED, ABORTED, TAKEN = b"D", b"F", b"A", b"W"


class InvalidFrame(ValueError):
    """What came is not a frame."""


def frame(kind: bytes, payload: bytes = b"", number: int = 0) -> bytes:
    """One frame as it goes over the pipe."""
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
