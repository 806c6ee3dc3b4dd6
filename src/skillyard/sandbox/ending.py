"""What is seen of one sandboxed process until its end."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from skillyard.sandbox.job import Status

if TYPE_CHECKING:
    from skillyard.sandbox.listening import Ear
    from skillyard.sandbox.notes import Notes

__all__ = ["Ending", "Received"]


class Received:
    """What came through one pipe, in the pieces it came in: joined once, so that a flood is never held three times.

    An `ear` hears each piece as it comes; `notes` are taken out before.
    """

    __slots__ = ("_pieces", "ear", "notes", "size")

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self.ear: Ear | None = None
        self.notes: Notes | None = None
        self.size = 0

    def add(self, piece: bytes) -> None:
        """Keep one more piece."""
        self._pieces.append(piece)
        self.size += len(piece)
        if self.ear is not None:
            self.ear.hear(piece)

    def take(self) -> bytes:
        """All of it; the pieces are let go."""
        if self.ear is not None:
            self.ear.end()
        whole = b"".join(self._pieces)
        self._pieces.clear()
        return whole


@dataclass(slots=True)
class Ending:
    """What was seen of a run until its end; `reason` is set when the supervisor ended it.

    `begun` says whether the run has passed the gate, so that something of the skill may have run. `memory_peak` are the most
    bytes that its control group has counted at once, `None` where nothing counts or the kernel does not keep it.
    """

    returncode: int = 0
    reason: Status | None = None
    stdout: Received = field(default_factory=Received)
    stderr: Received = field(default_factory=Received)
    result: Received = field(default_factory=Received)
    duration_ms: int = 0
    out_of_memory: bool = False
    memory_peak: int | None = None
    out_of_processes: bool = False
    drained: bool = True
    begun: bool = False
