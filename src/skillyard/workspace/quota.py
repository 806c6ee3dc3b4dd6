"""The quota of a workspace's folder: looked at while something works, so that what fills the folder is stopped.

Nothing is deleted. What lies in the folder already may be over the quota; then only what makes it larger is stopped, so that a
command can still delete files.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from skillyard.sandbox import folder_bytes

if TYPE_CHECKING:
    from skillyard.workspace.channel import SessionCall, SessionChannel

_MEBIBYTE: Final = 1024 * 1024
_BUSY_SECONDS: Final = 0.05  # between two looks at the disk while somebody waits
_IDLE_SECONDS: Final = 1.0
_SCAN_SECONDS: Final = 1.0  # between two scans, when the disk has not lost as much as is left
_SHARE: Final = 20  # a scan may take a twentieth of the time
_SLACK: Final = 16 * _MEBIBYTE  # that may be written before the disk is taken for the reason to look


class FolderQuota:
    """How much a folder may hold, and whether it does."""

    def __init__(self, folder: str, quota_mb: int) -> None:
        self._folder = folder
        self.limit: Final = quota_mb * _MEBIBYTE
        self._used = -1
        self._free = 0
        self._scanned = 0.0
        self._cost = 0.0

    def used(self) -> int:
        """The bytes the folder takes, as the disk counts them, up to a little over the limit; blocks while it looks."""
        begun = time.monotonic()
        self._free = self._free_bytes()
        self._used = folder_bytes(self._folder, max(self.limit, 1) * 4)
        self._scanned = time.monotonic()
        self._cost = self._scanned - begun
        return self._used

    async def guard(
        self, channel: SessionChannel, *, busy: Callable[[], bool], current: Callable[[], SessionCall | None]
    ) -> None:
        """Look at the folder as long as a session stands; what makes it larger than it may be is ended.

        That is the command that runs now (`current`), else what works in the background. A folder that is too large already
        may shrink. `busy` says whether somebody waits for the session.
        """
        allowed = max(self.limit, await asyncio.to_thread(self.used))
        while channel.alive:
            await asyncio.sleep(_BUSY_SECONDS if busy() else _IDLE_SECONDS)
            if not self.is_due(busy=busy()):
                continue
            used = await asyncio.to_thread(self.used)
            if used > allowed:
                call = current()
                if call is not None:
                    await channel.end(call, "disk_full")
                else:
                    await channel.end_background("disk_full")
                used = await asyncio.to_thread(self.used)  # with what was written meanwhile
            allowed = max(self.limit, used)

    def takes(self, size: int) -> bool:
        """Whether a file of that many bytes fits, by the last look."""
        return self._used + size <= self.limit

    def is_due(self, *, busy: bool) -> bool:
        """Whether to look: enough was written on the disk to fill the folder, or, while `busy`, enough time has gone by."""
        passed = time.monotonic() - self._scanned
        if passed < self._cost * _SHARE:
            return False
        written = self._free - self._free_bytes()
        return (busy and passed > _SCAN_SECONDS) or written > max(self.limit - self._used, _SLACK) // 2

    def _free_bytes(self) -> int:
        with contextlib.suppress(OSError):
            state = os.statvfs(self._folder)
            return state.f_bavail * state.f_frsize
        return 0
