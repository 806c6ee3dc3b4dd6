"""Standby sandboxes: started beforehand, used once and thrown away; and the warm pool, which runs jobs in them.

Each is kept by a task of its own on one event loop, so that the end of the loop ends it too. It waits behind the gate that any
run has: its interpreter is up, nothing of the skill has run, and it knows nothing of the job to come.

A job that has run once has a few sandboxes made ready for the next of its kind. Whatever a ready sandbox does not fit runs as
it would without the pool, and gives the same result.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from skillyard.errors import InvalidInput, SkillyardError
from skillyard.sandbox.bubblewrap import BubblewrapBackend
from skillyard.sandbox.job import Job, SandboxBackend, SandboxResult
from skillyard.sandbox.policy import MAXIMUM_STANDING, Policy
from skillyard.sandbox.preparation import PreparedRun, prepare
from skillyard.sandbox.run_job import check_input, quota_check, run_result, run_slot, sealed_files
from skillyard.sandbox.runtimes import interpreter_for
from skillyard.sandbox.supervisor import SupervisedProcess

_IDLE_SECONDS: Final = 60.0
_kept: set[asyncio.Task[None]] = set()  # what keeps a sandbox, of all loops


@dataclass(frozen=True, slots=True)
class _Key:
    """What a job and a sandbox must have in common."""

    digest: str
    tree: str
    entry: str
    arguments: tuple[str, ...]
    policy: Policy
    mode: str
    verified: bool
    library: tuple[tuple[str, bytes], ...]
    as_module: bool
    environment: Hashable
    interpreter: str
    backend: BubblewrapBackend

    @classmethod
    def of(cls, backend: BubblewrapBackend, job: Job, digest: Callable[[str], str]) -> _Key | None:
        """The key of a job as its files are now; `None` where the run itself has to say what is wrong with it."""
        try:
            tree_digest, interpreter = digest(job.tree), interpreter_for(job.entry)
        except (OSError, SkillyardError):
            return None
        library = tuple(job.library.items())
        # What is derived by looking at the copy follows from its content, the first part of the key, and from who derives it.
        environment = job.environment if callable(job.environment) else job.environment.digest
        return cls(
            tree_digest, job.tree, job.entry, job.arguments, job.policy, job.mode, job.verify is not None, library,
            job.as_module, environment, interpreter, backend,
        )  # fmt: skip


@dataclass(eq=False, slots=True)
class _Standby:
    """One sandbox that waits for its job."""

    key: _Key
    run: PreparedRun
    watch: SupervisedProcess
    keeper: asyncio.Task[None] | None = None
    taken: bool = False

    async def end(self, removing: set[asyncio.Future[None]]) -> None:
        """Leave nothing of it; the copy is removed in a thread, and is among `removing` until then."""
        try:
            await self.watch.close()
        finally:
            future = asyncio.get_running_loop().run_in_executor(None, self.run.stage.remove)
            removing.add(future)
            future.add_done_callback(removing.discard)


class StandbySandboxes:
    """The sandboxes that are kept ready on the loop that is running now, `count` for each kind of job."""

    def __init__(self, count: int, digest: Callable[[str], str]) -> None:
        self._count = count
        self._digest = digest
        self.loop: Final = asyncio.get_running_loop()
        self._ready_sandboxes: list[_Standby] = []
        self._keepers: dict[asyncio.Task[None], _Key] = {}  # the oldest first
        self._removing: set[asyncio.Future[None]] = set()
        self._closed = False

    @property
    def standing(self) -> int:
        """How many are ready."""
        return sum(standby.watch.alive for standby in self._ready_sandboxes)

    async def run(self, backend: BubblewrapBackend, job: Job) -> SandboxResult:
        """Run one job, warm or cold, and see to it that its successors find a sandbox ready."""
        check_input(job)
        async with run_slot():
            key = await asyncio.to_thread(_Key.of, backend, job, self._digest)
            standby = self._take(key) if key else None
            result = await self._use(standby, job) if standby else None
        if result is None:
            result = await backend.run(job)
        if key and result.status != "unavailable":
            self._refill(key, job)
        return result

    def _take(self, key: _Key) -> _Standby | None:
        """A living sandbox for this kind of job; those for other content of the same skill end."""
        for standby in tuple(self._ready_sandboxes):
            if standby.key.tree == key.tree and standby.key.digest != key.digest and standby.keeper:
                standby.keeper.cancel()
        standby_sandbox = next(
            (standby for standby in self._ready_sandboxes if standby.key == key and standby.watch.alive), None
        )
        if standby_sandbox and standby_sandbox.keeper:
            standby_sandbox.taken = True
            self._ready_sandboxes.remove(standby_sandbox)
            standby_sandbox.keeper.cancel()
        return standby_sandbox

    async def _use(self, standby: _Standby, job: Job) -> SandboxResult | None:
        """Give a sandbox its only job; `None` when it is dead."""
        try:
            if job.verify is not None:
                await asyncio.to_thread(job.verify, standby.run.stage.tree)
            if not standby.watch.begin(job.stdin):
                return None
            await standby.watch.finished.wait()
        finally:
            await standby.end(self._removing)
        record = standby.watch.record
        if not record.begun and record.reason is None:
            return None  # it died with its job still before the gate
        return run_result(standby.key.backend, standby.run, record)

    def _refill(self, key: _Key, job: Job) -> None:
        """Start what is missing for this kind of job, replacing the oldest of another kind where all slots are taken."""
        _kept.difference_update([task for task in _kept if task.done()])
        missing = self._count - sum(other == key for task, other in self._keepers.items() if not task.cancelling())
        for _ in range(0 if self._closed else missing):
            before = None
            if len(_kept) >= MAXIMUM_STANDING:
                before = next((task for task, other in self._keepers.items() if other != key and not task.cancelling()), None)
                if before is None:
                    return
                before.cancel()
                _kept.discard(before)
            keeper = self.loop.create_task(self._keep(key, replace(job, stdin=b""), before))
            self._keepers[keeper] = key
            _kept.add(keeper)
            keeper.add_done_callback(self._left)

    def _left(self, keeper: asyncio.Task[None]) -> None:
        self._keepers.pop(keeper, None)
        _kept.discard(keeper)

    async def _keep(self, key: _Key, job: Job, before: asyncio.Task[None] | None) -> None:
        """Make one sandbox and keep it until it is taken, dies, or has waited long enough."""
        if before is not None:
            await asyncio.wait([before])
        try:
            async with run_slot():
                standby = await self._made(key, job)
        except (OSError, SkillyardError):
            return  # a cold run says what is wrong
        standby.keeper = asyncio.current_task()
        self._ready_sandboxes.append(standby)
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_IDLE_SECONDS):
                    await standby.watch.finished.wait()
        finally:
            if not standby.taken:
                self._ready_sandboxes.remove(standby)
                await standby.end(self._removing)

    async def _made(self, key: _Key, job: Job) -> _Standby:
        run = await prepare(key.backend, job, waits=True)
        watch = SupervisedProcess(run.policy, run.cgroup, quota_check(key.backend, run), None, waits=True)
        standby = _Standby(key, run, watch)
        try:
            if await asyncio.to_thread(self._digest, run.stage.tree) != key.digest:
                raise OSError("a file was changed or left out")
            watch.start(partial(key.backend.command, run), b"", sealed_files(key.backend, run))
        except BaseException:
            await standby.end(self._removing)
            raise
        return standby

    async def close(self) -> None:
        """Close all standby sandboxes, and start no new ones."""
        self._closed = True
        keepers = tuple(self._keepers)
        for keeper in keepers:
            keeper.cancel()
        if keepers:
            await asyncio.wait(keepers)
        if self._removing:
            await asyncio.wait(tuple(self._removing))


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
        if self._closed:
            return None
        if self._stock is None or self._stock.loop.is_closed():
            self._stock = StandbySandboxes(self._count, self._digest)
        return self._stock if self._stock.loop is asyncio.get_running_loop() else None

    async def close(self) -> None:
        """Close every standby sandbox, and let later jobs start their own. On the pool's own loop."""
        self._closed = True
        if self._stock is not None and self._stock.loop is asyncio.get_running_loop():
            await self._stock.close()


def _suitable(backend: SandboxBackend, job: Job) -> BubblewrapBackend | None:
    """The backend as one that can hold a sandbox ready for this kind of job."""
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
