"""Watch folders for changes, without using up the machine's watch descriptors."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skillyard.catalog.records import Changes


async def watch_folders(
    watched: Callable[[], list[str]], *, debounce_ms: int, look_again_s: float, refresh: Callable[[], Changes]
) -> AsyncIterator[Changes]:
    """Call `refresh` when a file below one of the `watched` folders changes, and yield what is different.

    Changes within `debounce_ms` milliseconds come as one. Every `look_again_s` seconds it is called anyway: a folder
    may have appeared, and some file systems report nothing. Where the system has no watches left, that is all that happens.
    """
    while True:
        folders = watched()
        async with aclosing(_ticks(folders, debounce_ms, look_again_s)) as ticks:
            async for _ in ticks:
                changes = await asyncio.to_thread(refresh)
                if changes.any or changes.problem:
                    yield changes
                if watched() != folders:
                    break


async def _ticks(folders: list[str], debounce_ms: int, look_again_s: float) -> AsyncGenerator[None, None]:
    """Yield once when the watch has begun, then whenever a file changed or the time is up; end when watching is impossible."""
    if folders:
        try:
            async with aclosing(_events(folders, debounce_ms, look_again_s)) as events:
                async for _ in events:
                    yield
        except (OSError, ExceptionGroup):
            pass  # no watches left, a root went away in between, or a file has a name that cannot be decoded
    yield
    await asyncio.sleep(look_again_s)


async def _events(folders: list[str], debounce_ms: int, look_again_s: float) -> AsyncGenerator[None, None]:
    from watchfiles import awatch  # its native part is only needed here

    events = awatch(
        *folders,
        watch_filter=None,
        debounce=debounce_ms,
        step=min(50, debounce_ms),
        rust_timeout=int(look_again_s * 1000),
        yield_on_timeout=True,
        ignore_permission_denied=True,
    )
    first = asyncio.ensure_future(anext(events))
    try:
        await asyncio.sleep(0)  # lets the watch begin, so that the look that follows misses nothing
        yield
        await first
        yield
        async for _ in events:
            yield
    finally:
        first.cancel()
