"""What a run writes while it goes on: buffered pipes, listeners for its streams, notes, and the record of its end.

A note is a record of RFC 7464 (the byte 1E, JSON, a line feed) before the result in the same pipe. Listeners get whole lines,
without secrets, of every run that begins inside their block.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from skillyard.sandbox.environment import redact
from skillyard.sandbox.job import Status

_BEGIN: Final = b"\x1e"
_LONGEST_NOTE: Final = 8192  # bytes of one note
_MOST: Final = 4 * 1024 * 1024  # bytes of all of them: what comes then is no note


class NoteReader:
    """Takes the notes out of what comes through one pipe, and tells them without `secrets`."""

    def __init__(self, told: Callable[[str], object] | None, secrets: tuple[str, ...]) -> None:
        self._told = told
        self._secrets = secrets
        self._held = b""
        self._taken = 0
        self._over = False

    def split_notes(self, piece: bytes) -> bytes:
        """What of one more piece belongs to the result."""
        if self._over:
            return piece
        self._held += piece
        while self._held.startswith(_BEGIN) and self._taken <= _MOST:
            end = self._held.find(b"\n") + 1
            if not end and len(self._held) <= _LONGEST_NOTE:
                return b""  # the rest of it is on its way
            if not end or end > _LONGEST_NOTE:
                break
            self._tell(self._held[1 : end - 1])
            self._taken += end
            self._held = self._held[end:]
        rest, self._held = self._held, b""
        self._over = bool(rest)
        return rest

    def _tell(self, note: bytes) -> None:
        if self._told is not None:
            self._told(redact(note, self._secrets).decode("utf-8", "replace"))


OutputListener = Callable[[Literal["stdout", "stderr"], str], object]
"""Is told the name of a stream and some whole lines of it, on the event loop of the run; it must not block."""

NoteListener = Callable[[str], object]
"""Is told each note of the run, JSON as text, in the same way."""

_LISTENERS: Final[ContextVar[tuple[OutputListener, ...]]] = ContextVar("skillyard_listeners", default=())
_NOTED: Final[ContextVar[tuple[NoteListener, ...]]] = ContextVar("skillyard_noted", default=())
_LONGEST: Final = 8192  # bytes of a line that is not waited for to its end


@contextmanager
def listen_to_output(listener: OutputListener, *, noted: NoteListener | None = None) -> Iterator[None]:
    """Let `listener` hear every run that begins inside the block, and `noted` the notes of each; so do those before."""
    token, other = _LISTENERS.set((*_LISTENERS.get(), listener)), _NOTED.set((*_NOTED.get(), *([noted] if noted else [])))
    try:
        yield
    finally:
        _NOTED.reset(other)
        _LISTENERS.reset(token)


class StreamListener:
    """Hears one stream of one run."""

    def __init__(
        self, stream: Literal["stdout", "stderr"], listeners: tuple[OutputListener, ...], secrets: tuple[str, ...]
    ) -> None:
        self._stream: Final = stream
        self._listeners = listeners
        self._secrets = secrets
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = b""

    def hear(self, piece: bytes) -> None:
        """One more piece; what it ends is told."""
        self._held += piece
        end = self._held.rfind(b"\n") + 1
        if not end and len(self._held) > _LONGEST:
            end = len(self._held)
        if end:
            self._tell(self._held[:end])
            self._held = self._held[end:]

    def end(self) -> None:
        """Tell what is left of a last line."""
        if self._held:
            self._tell(self._held)
            self._held = b""

    def _tell(self, data: bytes) -> None:
        if text := self._decoder.decode(redact(data, self._secrets)):
            for listener in self._listeners:
                listener(self._stream, text)


def stream_listeners(secrets: tuple[str, ...]) -> tuple[StreamListener | None, StreamListener | None]:
    """What hears the standard output and the standard error of a run that begins now; None when nobody listens."""
    listeners = _LISTENERS.get()
    if not listeners:
        return None, None
    return StreamListener("stdout", listeners, secrets), StreamListener("stderr", listeners, secrets)


def note_reader(secrets: tuple[str, ...]) -> NoteReader:
    """What takes the notes of a run that begins now, and tells them where somebody listens."""
    noted = _NOTED.get()

    def tell(note: str) -> None:
        for listener in noted:
            listener(note)

    return NoteReader(tell if noted else None, secrets)


if TYPE_CHECKING:
    pass


class PipeBuffer:
    """What came through one pipe, in the pieces it came in: joined once, so that a flood is never held three times.

    An `ear` hears each piece as it comes; `notes` are taken out before.
    """

    __slots__ = ("_pieces", "ear", "notes", "size")

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self.ear: StreamListener | None = None
        self.notes: NoteReader | None = None
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
class ProcessRecord:
    """What was seen of a run until its end; `reason` is set when the supervisor ended it.

    `begun` says whether the run has passed the gate, so that something of the skill may have run. `memory_peak` are the most
    bytes that its control group has counted at once, `None` where nothing counts or the kernel does not keep it.
    """

    returncode: int = 0
    reason: Status | None = None
    stdout: PipeBuffer = field(default_factory=PipeBuffer)
    stderr: PipeBuffer = field(default_factory=PipeBuffer)
    result: PipeBuffer = field(default_factory=PipeBuffer)
    duration_ms: int = 0
    out_of_memory: bool = False
    memory_peak: int | None = None
    out_of_processes: bool = False
    drained: bool = True
    begun: bool = False
