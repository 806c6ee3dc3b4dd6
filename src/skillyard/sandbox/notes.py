"""What a run says while it goes on, before its result and through the same pipe.

A note is a record of RFC 7464: the byte 1E, JSON, a line feed. Notes come before the result, which no 1E can begin; a program
that knows nothing of them writes none. They are told to whoever listens and are no part of the result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from skillyard.sandbox.environment import redact

__all__ = ["Notes"]

_BEGIN: Final = b"\x1e"
_LONGEST: Final = 8192  # bytes of one note
_MOST: Final = 4 * 1024 * 1024  # bytes of all of them: what comes then is no note


class Notes:
    """Takes the notes out of what comes through one pipe, and tells them without `secrets`."""

    def __init__(self, told: Callable[[str], object] | None, secrets: tuple[str, ...]) -> None:
        self._told = told
        self._secrets = secrets
        self._held = b""
        self._taken = 0
        self._over = False

    def sift(self, piece: bytes) -> bytes:
        """What of one more piece belongs to the result."""
        if self._over:
            return piece
        self._held += piece
        while self._held.startswith(_BEGIN) and self._taken <= _MOST:
            end = self._held.find(b"\n") + 1
            if not end and len(self._held) <= _LONGEST:
                return b""  # the rest of it is on its way
            if not end or end > _LONGEST:
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
