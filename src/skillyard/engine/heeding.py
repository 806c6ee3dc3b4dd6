"""Heeding what others do to the runs of this process: one look at the records for all of them, every second."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from skillyard.errors import SkillyardError

if TYPE_CHECKING:
    from skillyard.engine.cancellation import RunTask
    from skillyard.engine.journal import Journal

__all__ = ["Heeding"]

_LOOK_S: Final = 1.0
_AT_ONCE: Final = 500  # ids in one question

_Heeded = tuple["RunTask", "Journal"]


class Heeding:
    """Ends the runs whose record says that somebody has cancelled them, in whatever process."""

    def __init__(self) -> None:
        self._of_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, _Ear] = WeakKeyDictionary()

    def add(self, run_id: str, task: RunTask, journal: Journal) -> None:
        """Heed the run from now on."""
        self._of_loop.setdefault(asyncio.get_running_loop(), _Ear()).add(run_id, (task, journal))

    def remove(self, run_id: str) -> None:
        """Heed it no more."""
        self._of_loop.setdefault(asyncio.get_running_loop(), _Ear()).remove(run_id)


class _Ear:
    """The runs of one event loop, looked after while there are any."""

    def __init__(self) -> None:
        self._runs: dict[str, _Heeded] = {}
        self._looking: asyncio.Task[None] | None = None

    def add(self, run_id: str, heeded: _Heeded) -> None:
        self._runs[run_id] = heeded
        if self._looking is None or self._looking.done():
            self._looking = asyncio.create_task(self._look())

    def remove(self, run_id: str) -> None:
        self._runs.pop(run_id, None)
        if not self._runs and self._looking is not None:
            self._looking.cancel()
            self._looking = None

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_S)
            for journal in {id(journal): journal for _, journal in self._runs.values()}.values():
                await self._ask(journal)

    async def _ask(self, journal: Journal) -> None:
        ids = [run_id for run_id, (_, of) in self._runs.items() if of is journal]
        for begin in range(0, len(ids), _AT_ONCE):
            with suppress(SkillyardError):
                for run_id in await asyncio.to_thread(journal.cancelled, ids[begin : begin + _AT_ONCE]):
                    if run_id in self._runs:
                        self._runs[run_id][0].heed()
