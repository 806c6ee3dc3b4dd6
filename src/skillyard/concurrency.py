"""Work that is completed although its caller is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

_Value = TypeVar("_Value")


async def completed(work: Coroutine[Any, Any, _Value] | asyncio.Future[_Value]) -> _Value:
    """Complete the work, however often the caller is cancelled; then raise the cancellation.

    For what is written down, and for clearing up: half of it is worse than a moment of waiting.
    """
    doing = asyncio.ensure_future(work)
    cancelled = False
    while not doing.done():
        try:
            await asyncio.wait([doing])
        except asyncio.CancelledError:
            cancelled = True
    if not cancelled:
        return doing.result()
    if not doing.cancelled():
        doing.exception()  # it is seen, so that the loop does not complain
    raise asyncio.CancelledError


async def in_thread(work: Callable[[], _Value]) -> _Value:
    """Do the work in a thread and wait for its end, also when the waiting is cancelled meanwhile."""
    return await completed(asyncio.to_thread(work))
