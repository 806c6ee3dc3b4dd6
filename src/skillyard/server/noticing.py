"""What has become different since somebody last asked, whoever noticed it first."""

from __future__ import annotations

import threading
from collections.abc import Iterable

__all__ = ["Noticed"]


class Noticed:
    """Adds changes up: what came and went again is nothing, what went and came again is changed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._added: set[str] = set()
        self._changed: set[str] = set()
        self._removed: set[str] = set()

    def add(self, added: Iterable[str], changed: Iterable[str], removed: Iterable[str]) -> None:
        """Take what one look has found."""
        with self._lock:
            for one in removed:
                self._changed.discard(one)
                (self._added.discard if one in self._added else self._removed.add)(one)
            for one in added:
                (self._changed if one in self._removed else self._added).add(one)
                self._removed.discard(one)
            self._changed.update(set(changed) - self._added)

    def tell(self) -> dict[str, list[str]]:
        """Everything since the last time this was asked, by id."""
        with self._lock:
            told = {"added": sorted(self._added), "changed": sorted(self._changed), "removed": sorted(self._removed)}
            for kind in (self._added, self._changed, self._removed):
                kind.clear()
            return told
