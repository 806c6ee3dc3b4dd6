"""Hearing what a run prints while it goes on: line by line, without secrets, told to whoever listens.

::

    with listening(lambda stream, text: print(stream, text)):
        await backend.run(job)

Everything that runs inside the block is heard, also in tasks that are started there.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, Literal

from skillyard.sandbox.environment import redact

__all__ = ["Ear", "Listener", "ears", "listening"]

Listener = Callable[[Literal["stdout", "stderr"], str], object]
"""Is told the name of a stream and some whole lines of it, on the event loop of the run; it must not block."""

_LISTENER: Final[ContextVar[Listener | None]] = ContextVar("skillyard_listener", default=None)
_LONGEST: Final = 8192  # bytes of a line that is not waited for to its end


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Let `listener` hear every run that begins inside the block."""
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)


class Ear:
    """Hears one stream of one run."""

    def __init__(self, stream: Literal["stdout", "stderr"], listener: Listener, secrets: tuple[str, ...]) -> None:
        self._stream: Final = stream
        self._listener = listener
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
            self._listener(self._stream, text)


def ears(secrets: tuple[str, ...]) -> tuple[Ear | None, Ear | None]:
    """What hears the standard output and the standard error of a run that begins now; None when nobody listens."""
    listener = _LISTENER.get()
    if listener is None:
        return None, None
    return Ear("stdout", listener, secrets), Ear("stderr", listener, secrets)
