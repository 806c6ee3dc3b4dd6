"""The warm pool: runs jobs in sandboxes that were started beforehand, each for exactly one job.

A job that has run once has a few sandboxes made ready for the next of its kind. Whatever a ready sandbox does not fit runs as
it would without the pool, and comes to the same result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from skillyard.errors import InvalidInput, InvalidPolicy
from skillyard.sandbox.job import Job, Result, SandboxBackend

if TYPE_CHECKING:
    from skillyard.sandbox.bubblewrap import BubblewrapBackend
    from skillyard.sandbox.stock import Stock

__all__ = ["MAXIMUM_STANDING", "WarmPool", "prewarm_count"]

MAXIMUM_STANDING: Final = 8
"""The most sandboxes that stand ready in one process, of all pools together."""


class WarmPool:
    """Keeps `count` sandboxes ready for each kind of job that has run; `digest` names the exact content of a folder.

    Ready are only Python scripts under bubblewrap that reach no network, see their skill's folder and are given no secrets,
    arguments or files; all else runs cold. A ready sandbox fits a job of the same content, entry, policy, interpreter and
    packages, serves it alone and is thrown away; after a minute without a job it ends. A pool belongs to the event loop that
    first uses it.

    Raises:
        InvalidInput: `count` is not from 1 to 8.
    """

    def __init__(self, count: int, digest: Callable[[str], str]) -> None:
        if isinstance(count, bool) or not 1 <= count <= MAXIMUM_STANDING:
            raise InvalidInput(f"{count!r} sandboxes cannot stand ready", hint=f"from 1 to {MAXIMUM_STANDING}")
        self._count = count
        self._digest = digest
        self._stock: Stock | None = None
        self._closed = False

    @property
    def standing(self) -> int:
        """How many sandboxes stand ready now."""
        return self._stock.standing if self._stock else 0

    async def run(self, backend: SandboxBackend, job: Job) -> Result:
        """Run one job, in a sandbox that stands ready for it or else in a new one.

        Raises:
            The same as `backend.run`.
        """
        engine = _suitable(backend, job)
        stock = self._stock_here() if engine else None
        if engine is None or stock is None:
            return await backend.run(job)
        return await stock.run(engine, job)

    def _stock_here(self) -> Stock | None:
        """The stock, where this loop is the pool's own."""
        from skillyard.sandbox.stock import Stock  # loads asyncio, which only a run needs

        if self._closed:
            return None
        if self._stock is None or self._stock.over:
            self._stock = Stock(self._count, self._digest)
        return self._stock if self._stock.here else None

    async def close(self) -> None:
        """End every sandbox that stands ready, and let later jobs run cold. On the pool's own loop."""
        self._closed = True
        if self._stock is not None and self._stock.here:
            await self._stock.close()


def prewarm_count(settings: Mapping[str, object]) -> int:
    """The number of sandboxes that the operator's `[sandbox]` table wants ready for each kind of job; 0 without a word.

    Raises:
        InvalidPolicy: it says something that cannot be meant.
    """
    count = settings.get("prewarm", 0)
    if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= MAXIMUM_STANDING:
        raise InvalidPolicy(
            f"prewarm must be a whole number from 0 to {MAXIMUM_STANDING}, not {count!r}", hint="fix the [sandbox] table"
        )
    return count


def _suitable(backend: SandboxBackend, job: Job) -> BubblewrapBackend | None:
    """The backend as one that can hold a sandbox ready for this kind of job."""
    from skillyard.sandbox.bubblewrap import BubblewrapBackend  # the others would not be loaded for a static skill

    policy = job.policy
    fits = (
        job.entry.lower().endswith(".py")
        and not policy.reaches_network
        and policy.filesystem != "none"
        and not job.arguments
        and not job.workspace
        and not policy.secret_values  # a sandbox that waits holds nobody's secrets
    )
    return backend if fits and isinstance(backend, BubblewrapBackend) else None
