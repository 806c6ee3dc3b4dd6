"""One change at a time to what a catalog shows, and the word about it to the other processes that serve the same folder.

The word is the size of a file that grows by a byte with each change: asking for it costs a microsecond, and none is missed.
The settings, which the command line writes too, are looked at in the same way.
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
_SETTINGS: Final = "settings.json"


class Changing:
    """Held while this process changes something; when it lets go, the others hear of it."""

    def __init__(self, folder: str) -> None:
        self._path = Path(folder, _FILE)
        self._lock = threading.Lock()
        self._settings = Path(folder, _SETTINGS)
        self._seen, self._set = self._size(), self._changed()

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
        return self._size() != self._seen or self._changed() != self._set

    def look(self, refresh: Callable[[], object]) -> None:
        """Refresh, when it is still necessary."""
        with self._lock:
            size, changed = self._size(), self._changed()
            if size != self._seen or changed != self._set:
                refresh()
                self._seen, self._set = size, changed

    def _size(self) -> int:
        try:
            return os.stat(self._path).st_size  # noqa: PTH116 # at each request
        except FileNotFoundError:
            return 0

    def _changed(self) -> int:
        """When the settings were written, in nanoseconds."""
        try:
            return os.stat(self._settings).st_mtime_ns  # noqa: PTH116 # at each request
        except FileNotFoundError:
            return 0
