"""A line that shows how far a long scan is; only for people, and only when it takes long enough to wonder."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from typing import Self

    from skillyard.cli.screen import Screen


_PATIENCE: Final = 0.5  # seconds without a word
_EVERY: Final = 0.1  # seconds between two drawings
_CLEAR: Final = "\r\x1b[2K"


class ScanProgress:
    """Counts skills on standard error after half a second; draws nothing when nobody watches."""

    def __init__(self, screen: Screen, *, what: str = "reading skills") -> None:
        self._what = what
        self._active = sys.stderr.isatty() and not screen.quiet
        self._next = time.monotonic() + _PATIENCE
        self._drawn = False

    def __call__(self, done: int, total: int | None = None) -> None:
        """Say that `done` of `total` are finished; cheap enough to call for each."""
        if not self._active or (now := time.monotonic()) < self._next:
            return
        self._next = now + _EVERY
        self._drawn = True
        sys.stderr.write(f"{_CLEAR}{self._what}: {done:,}" + (f" of {total:,}" if total else ""))
        sys.stderr.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._drawn:
            sys.stderr.write(_CLEAR)
            sys.stderr.flush()
