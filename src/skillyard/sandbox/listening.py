"""Hearing what a run prints while it goes on: line by line, without secrets, told to whoever listens.

::

    with listening(lambda stream, text: print(stream, text)):
        await backend.run(job)

Everything that runs inside the block is heard, also in tasks that are started there; who listened before hears it too.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, Literal

from skillyard.sandbox.environment import redact
from skillyard.sandbox.notes import Notes

__all__ = ["Ear", "Listener", "Noted", "ears", "listening", "notes_of"]

Listener = Callable[[Literal["stdout", "stderr"], str], object]
"""Is told the name of a stream and some whole lines of it, on the event loop of the run; it must not block."""

Noted = Callable[[str], object]
"""Is told each note of the run, JSON as text, in the same way."""

_LISTENERS: Final[ContextVar[tuple[Listener, ...]]] = ContextVar("skillyard_listeners", default=())
_NOTED: Final[ContextVar[tuple[Noted, ...]]] = ContextVar("skillyard_noted", default=())
_LONGEST: Final = 8192  # bytes of a line that is not waited for to its end


@contextmanager
def listening(listener: Listener, *, noted: Noted | None = None) -> Iterator[None]:
    """Let `listener` hear every run that begins inside the block, and `noted` the notes of each; so do those before."""
    token, other = _LISTENERS.set((*_LISTENERS.get(), listener)), _NOTED.set((*_NOTED.get(), *([noted] if noted else [])))
    try:
        yield
    finally:
        _NOTED.reset(other)
        _LISTENERS.reset(token)


class Ear:
    """Hears one stream of one run."""

    def __init__(self, stream: Literal["stdout", "stderr"], listeners: tuple[Listener, ...], secrets: tuple[str, ...]) -> None:
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


def ears(secrets: tuple[str, ...]) -> tuple[Ear | None, Ear | None]:
    """What hears the standard output and the standard error of a run that begins now; None when nobody listens."""
    listeners = _LISTENERS.get()
    if not listeners:
        return None, None
    return Ear("stdout", listeners, secrets), Ear("stderr", listeners, secrets)


def notes_of(secrets: tuple[str, ...]) -> Notes:
    """What takes the notes of a run that begins now, and tells them where somebody listens."""
    noted = _NOTED.get()

    def tell(note: str) -> None:
        for listener in noted:
            listener(note)

    return Notes(tell if noted else None, secrets)
