"""Writes about runs that the database could not take because it was away: they are tried again while this process lives.

A run that has ended in a process that lives must not stay `running` in the records for ever, since nobody else may end it.
Whatever ends before the database is back leaves the run to `Journal.recover`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from skillyard.errors import DatabaseDamaged, DatabaseUnavailable

if TYPE_CHECKING:
    from skillyard.times import Timing

_log = logging.getLogger(__name__)
_deferred: set[asyncio.Task[None]] = set()


def is_temporary(problem: Exception) -> bool:
    """Whether the database may take later what it did not take now; not a value that it refuses, and not when it is damaged."""
    return isinstance(problem, DatabaseUnavailable) and not isinstance(problem, DatabaseDamaged)


def defer_write(run_id: str, write: Callable[[], Awaitable[object]], timing: Timing) -> None:
    """Call `write` until the database takes it; what else it raises is logged, and ends it."""
    task = asyncio.create_task(_retry(run_id, write, timing))
    _deferred.add(task)
    task.add_done_callback(_deferred.discard)


async def write_or_defer(run_id: str, write: Callable[[], Awaitable[bool | None]], timing: Timing) -> bool | None:
    """Call `write` now and give what it gives; None when the database is away, and it is called again later."""
    try:
        return await write()
    except DatabaseUnavailable as problem:
        _log.warning("run %s is to be recorded later: %s", run_id, problem.message)
        defer_write(run_id, write, timing)
        return None


async def _retry(run_id: str, write: Callable[[], Awaitable[object]], timing: Timing) -> None:
    wait = timing.first_retry_s
    while True:
        await asyncio.sleep(wait)
        try:
            await write()
        except Exception as problem:
            if is_temporary(problem):
                wait = min(timing.longest_retry_s, 2 * wait)
                continue
            _log.exception("how run %s ended could not be recorded later either", run_id)
            return
        else:
            _log.info("how run %s ended is recorded now", run_id)
            return
