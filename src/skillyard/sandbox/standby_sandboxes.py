"""Standby sandboxes on one event loop: started beforehand, kept for a while, used once, and thrown away.

Each is kept by a task of its own, so that the end of the loop ends it too. It waits behind the gate that every run has: its
interpreter is up, nothing of the skill has run, and it knows nothing of the job to come.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from skillyard.errors import SkillyardError
from skillyard.sandbox.bubblewrap import BubblewrapBackend
from skillyard.sandbox.job import Job, SandboxResult
from skillyard.sandbox.limits import quota_check
from skillyard.sandbox.policy import MAXIMUM_STANDING, Policy
from skillyard.sandbox.preparation import PreparedRun, prepare
from skillyard.sandbox.run_lifecycle import check_input, run_result, run_slot, sealed_files
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
    packages: str
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
        # What is derived by looking at the copy follows from its content, and that is the first part of the key.
        packages = os.path.realpath(job.packages) if job.packages and isinstance(job.packages, str) else ""
        return cls(
            tree_digest, job.tree, job.entry, job.arguments, job.policy, job.mode, job.verify is not None, library, packages,
            interpreter, backend,
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
        """End everything that stands ready, and make nothing new."""
        self._closed = True
        keepers = tuple(self._keepers)
        for keeper in keepers:
            keeper.cancel()
        if keepers:
            await asyncio.wait(keepers)
        if self._removing:
            await asyncio.wait(tuple(self._removing))
