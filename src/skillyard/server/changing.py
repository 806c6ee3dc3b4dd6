"""One change at a time to what a catalog shows, and the word about it to the other processes that serve the same folder.

The word is the size of a file that grows by a byte with each change: asking for it costs a microsecond, and none is missed.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Final

__all__ = ["Changing"]

_FILE: Final = "cache/changes"


class Changing:
    """Held while this process changes something; when it lets go, the others hear of it."""

    def __init__(self, folder: str) -> None:
        self._path = Path(folder, _FILE)
        self._lock = threading.Lock()
        self._seen = self._size()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            self.tell()
        finally:
            self._lock.release()

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold it without a word to the others; `tell` says it."""
        with self._lock:
            yield

    def tell(self) -> None:
        """Let the others hear of a change; to be said while it is held."""
        alone = self._size() == self._seen
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._path.open("ab") as file:
            file.write(b".")
        if alone:  # else somebody else changed something too, and that is still to be looked at
            self._seen += 1

    def elsewhere(self) -> bool:
        """Whether another process has changed something since this one looked."""
        return self._size() != self._seen

    def look(self, refresh: Callable[[], object]) -> None:
        """Refresh, when it is still necessary."""
        with self._lock:
            size = self._size()
            if size != self._seen:
                refresh()
                self._seen = size

    def _size(self) -> int:
        try:
            return os.stat(self._path).st_size  # noqa: PTH116 # at each request
        except FileNotFoundError:
            return 0
