"""Removes what killed processes left behind: at the first run, and then once a minute while something runs.

The names of such files, folders and groups carry the number of the process that made them.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Callable
from typing import Final

_SECONDS: Final = 60.0


class OrphanSweeper:
    """Finds what is named `PREFIX<process>-…`, by a regular expression for the prefix, and whose process no longer lives."""

    def __init__(self, prefix: str) -> None:
        self._name = re.compile(rf"{prefix}(\d+)-.+")
        self._next: dict[str, float] = {}

    def sweep(self, folder: str, remove: Callable[[str], object]) -> None:
        """Give `remove` the path of all that dead processes left in `folder`; nothing within a minute of the last time."""
        now = time.monotonic()
        if now < self._next.get(folder, now):
            return
        self._next[folder] = now + _SECONDS
        with contextlib.suppress(OSError):
            for name in os.listdir(folder):
                match = self._name.fullmatch(name)
                if match and not os.path.exists(f"/proc/{match[1]}"):
                    remove(f"{folder}/{name}")

    def forget(self) -> None:
        """Look again at the next call, however soon that is."""
        self._next.clear()
