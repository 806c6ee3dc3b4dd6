"""A crew: one worker for each organisation of a server, in one process, which take turns.

Each organisation has tables and queues of its own, so each has its own worker; they share the turns of the process, and no
organisation waits for the thousand runs of another one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from skillyard.errors import DatabaseUnavailable, RecordNotFound

if TYPE_CHECKING:
    from skillyard.engine.worker import Worker

__all__ = ["Crew"]

_LOOK_S: Final = 10.0  # how often it looks for new organisations
_log = logging.getLogger(__name__)


class Crew:
    """Serves the organisations that `names` gives, also those to come; `worker` makes the worker of one."""

    def __init__(self, names: Callable[[], Collection[str]], worker: Callable[[str], Worker]) -> None:
        self._names, self._worker = names, worker
        self._serving: dict[str, asyncio.Task[None]] = {}

    async def serve(self, stop: asyncio.Event, *, grace_s: float = 600.0) -> None:
        """Work until `stop` is set, as `Worker.serve`; the worker of one organisation that fails is tried again."""
        try:
            while not stop.is_set():
                await self._look(stop, grace_s)
                with suppress(TimeoutError):
                    async with asyncio.timeout(_LOOK_S):
                        await stop.wait()
            await asyncio.gather(*self._serving.values(), return_exceptions=True)
        finally:
            for task in self._serving.values():
                task.cancel()
            if self._serving:
                await asyncio.wait(self._serving.values())

    async def _look(self, stop: asyncio.Event, grace_s: float) -> None:
        """Have a worker for every organisation."""
        with suppress(DatabaseUnavailable):
            for name in await asyncio.to_thread(self._names):
                known = self._serving.get(name)
                if known is not None and not known.done():
                    continue
                if known is not None and not known.cancelled() and (problem := known.exception()) is not None:
                    _log.warning("the worker of %s is made again: %s", name, problem)
                with suppress(RecordNotFound):
                    worker = await asyncio.to_thread(self._worker, name)
                    self._serving[name] = asyncio.create_task(worker.serve(stop, grace_s=grace_s))
