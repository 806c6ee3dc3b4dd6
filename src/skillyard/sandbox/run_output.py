"""What a run writes while it is executed: buffered pipes, listeners for its streams, notes, and the record of its end.

A note is a record of RFC 7464 (the byte 1E, JSON, a line feed) before the result in the same pipe. Listeners get whole lines,
without secrets, of every run that begins inside their block.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Final, Literal

from skillyard.sandbox.environment import redact
from skillyard.sandbox.job import Status

_BEGIN: Final = b"\x1e"
_LONGEST_NOTE: Final = 8192  # bytes of one note
_MOST: Final = 4 * 1024 * 1024  # bytes of all of them: what comes then is no note


class NoteReader:
    """Extracts the notes from the data of one pipe, and passes them on without `secrets`."""

    def __init__(self, listener: Callable[[str], object] | None, secrets: tuple[str, ...]) -> None:
        self._listener = listener
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
            self._pass_on(self._held[1 : end - 1])
            self._taken += end
            self._held = self._held[end:]
        rest, self._held = self._held, b""
        self._over = bool(rest)
        return rest

    def _pass_on(self, note: bytes) -> None:
        if self._listener is not None:
            self._listener(redact(note, self._secrets).decode("utf-8", "replace"))


OutputListener = Callable[[Literal["stdout", "stderr"], str], object]
"""Gets the name of a stream and some whole lines of it, on the event loop of the run; it must not block."""

NoteListener = Callable[[str], object]
"""Gets each note of the run, JSON as text, in the same way."""

_LISTENERS: Final[ContextVar[tuple[OutputListener, ...]]] = ContextVar("skillyard_listeners", default=())
_NOTED: Final[ContextVar[tuple[NoteListener, ...]]] = ContextVar("skillyard_noted", default=())
_LONGEST: Final = 8192  # bytes of a line that is not waited for to its end


@contextmanager
def listen_to_output(listener: OutputListener, *, noted: NoteListener | None = None) -> Iterator[None]:
    """Add `listener` to every run that begins inside the block, and `noted` to its notes; earlier ones stay."""
    token, other = _LISTENERS.set((*_LISTENERS.get(), listener)), _NOTED.set((*_NOTED.get(), *([noted] if noted else [])))
    try:
        yield
    finally:
        _NOTED.reset(other)
        _LISTENERS.reset(token)


class StreamListener:
    """Listens to one stream of one run."""

    def __init__(
        self, stream: Literal["stdout", "stderr"], listeners: tuple[OutputListener, ...], secrets: tuple[str, ...]
    ) -> None:
        self._stream: Final = stream
        self._listeners = listeners
        self._secrets = secrets
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = b""

    def feed(self, piece: bytes) -> None:
        """One more piece; lines that it ends are passed on."""
        self._held += piece
        end = self._held.rfind(b"\n") + 1
        if not end and len(self._held) > _LONGEST:
            end = len(self._held)
        if end:
            self._pass_on(self._held[:end])
            self._held = self._held[end:]

    def end(self) -> None:
        """Pass on what is left of a last line."""
        if self._held:
            self._pass_on(self._held)
            self._held = b""

    def _pass_on(self, data: bytes) -> None:
        if text := self._decoder.decode(redact(data, self._secrets)):
            for listener in self._listeners:
                listener(self._stream, text)


def stream_listeners(secrets: tuple[str, ...]) -> tuple[StreamListener | None, StreamListener | None]:
    """The listener for standard output and standard error of a run that begins now; None without one."""
    listeners = _LISTENERS.get()
    if not listeners:
        return None, None
    return StreamListener("stdout", listeners, secrets), StreamListener("stderr", listeners, secrets)


def note_reader(secrets: tuple[str, ...]) -> NoteReader:
    """The reader of the notes of a run that begins now; passes them to the listener, if any."""
    noted = _NOTED.get()

    def report(note: str) -> None:
        for listener in noted:
            listener(note)

    return NoteReader(report if noted else None, secrets)


class PipeBuffer:
    """What came through one pipe, in the pieces it came in: joined once, so that a flood is never held three times.

    A `listener` gets each piece as it comes; the `note_reader` takes notes out before. With a `sink` nothing is kept: it gets
    everything, as it came.
    """

    __slots__ = ("_pieces", "listener", "note_reader", "sink", "size")

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self.listener: StreamListener | None = None
        self.note_reader: NoteReader | None = None
        self.sink: Callable[[bytes], object] | None = None
        self.size = 0

    def add(self, piece: bytes) -> None:
        """Keep one more piece."""
        if self.sink is not None:
            self.sink(piece)
            return
        self._pieces.append(piece)
        self.size += len(piece)
        if self.listener is not None:
            self.listener.feed(piece)

    def take(self) -> bytes:
        """All of it; the pieces are released."""
        if self.listener is not None:
            self.listener.end()
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
