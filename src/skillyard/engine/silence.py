"""Who has said nothing for how long, by the clock of the one who listens.

A worker signs with the hour of the database, and that hour may be set. So whoever wonders whether a worker is still there does
not compare hours: it looks whether the sign changes, and counts the seconds until it does.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

__all__ = ["Silence"]


class Silence:
    """Signs as they were last seen here; `clock` counts seconds and is never set."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._seen: dict[str, tuple[object, float]] = {}

    def of(self, who: str, sign: object) -> float:
        """For how many seconds this has been the sign; 0 when it is seen for the first time."""
        now = self._clock()
        with self._lock:
            last, since = self._seen.get(who, (None, now))
            if last != sign:
                since = now
            self._seen[who] = (sign, since)
        return now - since

    def keep(self, known: set[str]) -> None:
        """Forget everybody but those."""
        with self._lock:
            self._seen = {who: seen for who, seen in self._seen.items() if who in known}
