"""The warm pool: runs jobs in sandboxes that were started beforehand, each for exactly one job.

A job that has run once has a few sandboxes made ready for the next of its kind. Whatever a ready sandbox does not fit runs as
it would without the pool, and gives the same result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from skillyard.errors import InvalidInput
from skillyard.sandbox.job import Job, SandboxBackend, SandboxResult
from skillyard.sandbox.policy import MAXIMUM_STANDING

if TYPE_CHECKING:
    from skillyard.sandbox.bubblewrap import BubblewrapBackend
    from skillyard.sandbox.standby_sandboxes import StandbySandboxes


class WarmPool:
    """Keeps `count` sandboxes ready for each kind of job that has run; `digest` names the exact content of a folder.

    Ready are only Python scripts under bubblewrap that reach no network, see their skill's folder and are given no secrets,
    arguments or files; all else runs cold. A ready sandbox fits a job of the same content, entry, policy, interpreter and
    packages, executes only that and ends; after a minute without a job it ends. A pool belongs to the event loop that
    first uses it.

    Raises:
        InvalidInput: `count` is not from 1 to 8.
    """

    def __init__(self, count: int, digest: Callable[[str], str]) -> None:
        if isinstance(count, bool) or not 1 <= count <= MAXIMUM_STANDING:
            raise InvalidInput(f"cannot keep {count!r} sandboxes ready", hint=f"from 1 to {MAXIMUM_STANDING}")
        self._count = count
        self._digest = digest
        self._stock: StandbySandboxes | None = None
        self._closed = False

    @property
    def standing(self) -> int:
        """How many sandboxes are ready now."""
        return self._stock.standing if self._stock else 0

    async def run(self, backend: SandboxBackend, job: Job) -> SandboxResult:
        """Run one job, in a sandbox that is ready for it or else in a new one.

        Raises:
            The same as `backend.run`.
        """
        engine = _suitable(backend, job)
        stock = self._stock_of_loop() if engine else None
        if engine is None or stock is None:
            return await backend.run(job)
        return await stock.run(engine, job)

    def _stock_of_loop(self) -> StandbySandboxes | None:
        """The stock, where this loop is the pool's own."""
        import asyncio

        from skillyard.sandbox.standby_sandboxes import StandbySandboxes  # loads asyncio, which only a run needs

        if self._closed:
            return None
        if self._stock is None or self._stock.loop.is_closed():
            self._stock = StandbySandboxes(self._count, self._digest)
        return self._stock if self._stock.loop is asyncio.get_running_loop() else None

    async def close(self) -> None:
        """End every sandbox that stands ready, and let later jobs run cold. On the pool's own loop."""
        import asyncio

        self._closed = True
        if self._stock is not None and self._stock.loop is asyncio.get_running_loop():
            await self._stock.close()


def _suitable(backend: SandboxBackend, job: Job) -> BubblewrapBackend | None:
    """The backend as one that can hold a sandbox ready for this kind of job."""
    from skillyard.sandbox.bubblewrap import BubblewrapBackend  # the others would not be loaded for a static skill

    policy = job.policy
    fits = (
        job.entry.lower().endswith(".py")
        and not policy.reaches_network
        and policy.filesystem != "none"
        and not job.arguments
        and not job.as_module
        and not job.workspace
        and not policy.secret_values  # a sandbox that waits holds nobody's secrets
    )
    return backend if fits and isinstance(backend, BubblewrapBackend) else None
