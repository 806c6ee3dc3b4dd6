"""What is seen of one sandboxed process until its end."""

from __future__ import annotations

from dataclasses import dataclass, field

from skillyard.sandbox.job import Status

__all__ = ["Ending", "Received"]


class Received:
    """What came through one pipe, in the pieces it came in: joined once, so that a flood is never held three times."""

    __slots__ = ("_pieces", "size")

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self.size = 0

    def add(self, piece: bytes) -> None:
        """Keep one more piece."""
        self._pieces.append(piece)
        self.size += len(piece)

    def take(self) -> bytes:
        """All of it; the pieces are let go."""
        whole = b"".join(self._pieces)
        self._pieces.clear()
        return whole


@dataclass(slots=True)
class Ending:
    """What was seen of a run until its end; `reason` is set when the supervisor ended it.

    `begun` says whether a run that waited has passed the gate.
    """

    returncode: int = 0
    reason: Status | None = None
    stdout: Received = field(default_factory=Received)
    stderr: Received = field(default_factory=Received)
    result: Received = field(default_factory=Received)
    duration_ms: int = 0
    out_of_memory: bool = False
    out_of_processes: bool = False
    drained: bool = True
    begun: bool = False
