"""A server that was asked to stop: it says so to who asks whether it is ready, and ends what would never end by itself."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Final

__all__ = ["Stopping"]

_SETTLING_S: Final = 10


class Stopping:
    """Whether the server stops, what is to be done when that begins, and how many requests are under way."""

    def __init__(self) -> None:
        self.begun = False
        self._then: list[Callable[[], object]] = []
        self._last: list[Callable[[], object]] = []
        self._under_way = 0
        self._at = 0.0

    def then(self, do: Callable[[], object], *, last: bool = False) -> None:
        """Have something done when the server begins to stop, or with `last` when it takes no more requests."""
        (self._last if last else self._then).append(do)

    def begin(self) -> None:
        """From now on the server takes leave; the second time nothing happens."""
        if not self.begun:
            self.begun, self._at = True, time.monotonic()
            for do in self._then:
                do()

    def last_call(self) -> None:
        """From now on no request is taken, and the time counts that is given to what is under way."""
        self._at = time.monotonic()
        for do in self._last:
            do()

    def left(self, seconds: float) -> float:
        """How much is left of so many seconds since it began."""
        return max(0.0, seconds - (time.monotonic() - self._at)) if self.begun else seconds

    @contextlib.contextmanager
    def under_way(self) -> Iterator[None]:
        """Count a request for as long as the block lasts."""
        self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1

    async def settled(self) -> None:
        """Wait until requests that were cut off have written down how they ended, at most ten seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_SETTLING_S):
                while self._under_way:
                    await asyncio.sleep(0.02)
