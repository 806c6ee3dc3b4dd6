"""A worker: claims runs of its pools, executes several at once, records how each ended; a group has one per organisation.

The row of a run is the fence: a worker starts a run only while it waits, and records its end only while it is its own and
the attempt is still the same. A worker that was considered dead and comes back changes nothing and saves no memory.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from skillyard.concurrency import completed, in_thread
from skillyard.engine.journal import Journal
from skillyard.engine.liveness import HeartbeatMonitor, ProcessIdentity
from skillyard.engine.run_call import RunCall, WorkerRequest, cache_policy_of, read_request
from skillyard.engine.run_files import RunFiles
from skillyard.engine.run_lifecycle import RunLifecycle, record_end, run_error, write_or_defer
from skillyard.engine.run_queue import (
    ClaimedRun,
    QueueLimits,
    RunQueue,
    claim_next,
    name_problem,
    recover_abandoned,
    release_claim,
)
from skillyard.engine.run_record import FINAL_STATES
from skillyard.engine.slots import EngineSettings, SlotRequest, Slots
from skillyard.engine.worker_roster import WorkerRoster, new_worker_id
from skillyard.errors import DatabaseUnavailable, InvalidInput, RecordNotFound, SkillyardError
from skillyard.execution import RunError, retry_policy
from skillyard.memory import SqlMemoryService
from skillyard.times import DEFAULT_TIMING, Timing
from skillyard.tracing import below

if TYPE_CHECKING:
    from procrastinate import App
    from procrastinate.worker import Worker as Receiver

    from skillyard.catalog import Skill
    from skillyard.database import Database
    from skillyard.engine.run_call import Runner


_STOPPED: Final = RunError("INTERRUPTED", "its worker was stopped before the run had ended")
_log = logging.getLogger(__name__)


class Worker:
    """Executes runs of `pools`, at most `concurrency` at once, or as many as `slots` that workers of this process share.

    `organisation` is whose runs, `settings` limit how many of it and of a skill execute at once. `find` gives the skill with
    an id and a content digest, or raises when this worker must not run it; `runner` gives what runs a skill for at most so many
    milliseconds.

    Raises:
        InvalidInput: no pool, a name that is none, or a concurrency below 1.
        DatabaseUnavailable: the database is not PostgreSQL, or procrastinate is not installed.
    """

    def __init__(
        self,
        database: Database,
        pools: Collection[str],
        *,
        find: Callable[[str, str], Skill],
        runner: Callable[[int], Runner],
        concurrency: int = 1,
        slots: Slots | None = None,
        organisation: str = "",
        settings: EngineSettings | None = None,
    ) -> None:
        self.pools = tuple(dict.fromkeys(pools))
        wrong = next((problem for pool in self.pools if (problem := name_problem(pool))), None)
        if wrong or not self.pools or concurrency < 1:
            raise InvalidInput(wrong or "a worker needs a pool and a concurrency of at least 1", hint="name one: gpu")
        self.id = new_worker_id()
        self.concurrency = concurrency
        self._find, self._runner = find, runner
        self._database, self._timing = database, database.timing
        self._queue = RunQueue(database)
        self._roster = WorkerRoster(database)
        self._heartbeats = HeartbeatMonitor()
        self._owner = str(ProcessIdentity.current())
        self._journal = Journal(database, owner=self._owner)
        self._notifier = database.notifier
        self._memory = SqlMemoryService(lambda: database)
        self._slots, self._slot_request = slots or Slots(concurrency), SlotRequest(organisation)
        settings = settings or EngineSettings()
        self._limits = QueueLimits(settings.per_organisation, settings.per_skill)
        self._stop = asyncio.Event()

    async def serve(self, stop: asyncio.Event, *, grace_s: float = 600.0) -> None:
        """Work until `stop` is set; then take nothing new, and give the runs that work `grace_s` seconds to end.

        Those that have not ended then end as `interrupted`. A database that goes away is waited for.

        Raises:
            DatabaseUnavailable: the database cannot be used to begin with.
        """
        self._stop = stop
        await in_thread(self._queue.prepare)
        await in_thread(self._join)
        heartbeats = asyncio.create_task(self._send_heartbeats())
        app = self._queue.receiver(self._run_waiting)
        try:
            async with self._notifier.subscribe(self.id):  # one connection that listens as long as this worker works
                while not stop.is_set():
                    await self._receive(app, stop, grace_s)
        finally:
            heartbeats.cancel()
            await completed(asyncio.wait([heartbeats]))  # no pending heartbeat may follow the sign-off
            with suppress(DatabaseUnavailable):
                await in_thread(lambda: self._roster.leave(self.id))

    async def _receive(self, app: App, stop: asyncio.Event, grace_s: float) -> None:
        """Work until `stop` is set or the database is lost."""
        from procrastinate.worker import Worker as Receiver

        receiver = Receiver(
            app,
            queues=list(self.pools),
            name=self.id,
            concurrency=self.concurrency,
            shutdown_graceful_timeout=grace_s,
            fetch_job_polling_interval=self._timing.poll_s,
            delete_jobs="always",
            install_signal_handlers=False,
        )
        connected = asyncio.Event()
        stopping = asyncio.create_task(stop.wait())
        receiving = asyncio.create_task(_listen(app, receiver, stop, connected))
        try:
            await asyncio.wait([stopping, receiving], return_when=asyncio.FIRST_COMPLETED)
            if stop.is_set():
                with suppress(DatabaseUnavailable):
                    await in_thread(lambda: self._roster.drain(self.id))
        finally:
            stopping.cancel()
            if stop.is_set() and connected.is_set():
                receiver.stop()  # unlike a cancellation, this cannot be lost in what the receiver waits for
            else:
                receiving.cancel()
            await asyncio.wait(
                [stopping, receiving], timeout=grace_s + self._timing.leave_s
            )  # an unreachable database must not block this
            receiving.cancel()
        if not stop.is_set():
            problem = None if receiving.cancelled() or not receiving.done() else receiving.exception()
            _log.warning("the queue cannot be reached, trying again: %s", problem or "the connection was lost")
            with suppress(TimeoutError):
                async with asyncio.timeout(self._timing.reconnect_s):
                    await stop.wait()

    def _join(self) -> None:
        self._roster.join(self.id, self.pools, self.concurrency)

    async def _send_heartbeats(self) -> None:
        """Send a heartbeat every few seconds, and recover the runs of dead workers."""
        steady = 0.0  # seconds in which the database stored every heartbeat: before, any worker may have seemed silent
        while True:
            await asyncio.sleep(self._timing.heartbeat_s)
            try:
                if not await in_thread(partial(self._roster.heartbeat, self.id)):
                    await in_thread(self._join)
                await in_thread(partial(self._recover_others, steady > self._timing.silence_s))
                steady += self._timing.heartbeat_s
            except DatabaseUnavailable:
                steady = 0.0

    def _recover_others(self, silent: bool) -> None:
        for run_id in recover_abandoned(self._database, self._queue, self._heartbeats, silent=silent):
            _log.warning("run %s: its worker has ended", run_id)
        if not self._stop.is_set():
            self._queue.wake(self.pools, 4 * self.concurrency)
        self._queue.forget_ended()

    async def _run_waiting(self) -> None:
        """Execute one run, if one waits; with limits, also the next ones that may start."""
        while await self._run_next() and self._limits and not self._stop.is_set():
            pass

    async def _run_next(self) -> bool:
        async with self._slots.acquire(self._slot_request):
            if self._stop.is_set():
                return False
            claimed = await self._claim()
            if claimed is None:
                return False
            try:
                await self._work(claimed)
            except SkillyardError as error:
                _log.info("run %s: %s", claimed.run_id, error.message)  # it is in its record
        return True

    async def _claim(self) -> ClaimedRun | None:
        """Claim the next run; when this worker is stopped meanwhile, the claim is released."""
        taking = asyncio.ensure_future(asyncio.to_thread(claim_next, self._database, self.pools, self._owner, self._limits))
        try:
            return await completed(taking)
        except asyncio.CancelledError:
            if not taking.cancelled() and taking.exception() is None and (claimed := taking.result()) is not None:
                await self._unclaim(claimed)
            raise

    async def _unclaim(self, claimed: ClaimedRun) -> None:
        """Release the claim on a run that was not begun."""
        again = partial(release_claim, self._database, claimed, self._owner)
        await completed(write_or_defer(claimed.run_id, lambda: in_thread(again), self._timing))

    async def _work(self, claimed: ClaimedRun) -> None:
        try:
            request = read_request(claimed.request)
            call = await self._call(claimed, request)
            work = RunLifecycle(self._runner(request.timeout_ms), self._journal, self._memory, self._slots)
        except (asyncio.CancelledError, DatabaseUnavailable):  # nothing was begun: another attempt may go well
            await self._unclaim(claimed)
            raise
        except Exception as error:
            await record_end(self._journal, "failed", claimed.run_id, run_error(error), attempt=claimed.attempt)
            raise
        with below(request.parent):
            await self._execute_watched(work, call)

    async def _execute_attempt(self, work: RunLifecycle, call: RunCall) -> None:
        """Execute one attempt; any worker may make the next one."""
        run = await work.attempt(call)
        wait_s = call.retry.wait_s(run, call.attempt)
        if wait_s is not None and await work.requeue(run, call, wait_s):
            await in_thread(lambda: self._queue.enqueue_again(call.run_id, wait_s))
            return
        try:
            await work.ended(run, call)
        finally:
            if run.memory_writes:
                release = partial(self._queue.release, call.run_id)
                await write_or_defer(call.run_id, lambda: in_thread(release), self._timing)

    async def _call(self, claimed: ClaimedRun, request: WorkerRequest) -> RunCall:
        """The call of a claimed run: the skill with exactly that content, and whether its result may be cached."""
        skill = await asyncio.to_thread(self._find, request.skill, request.digest)
        retry = await asyncio.to_thread(retry_policy, skill)
        files = await asyncio.to_thread(RunFiles(lambda: self._database).of, claimed.run_id, "given")
        run_request = request.run_request(skill, claimed.run_id, retry.finished(claimed.finished), files)
        cache_policy = await asyncio.to_thread(cache_policy_of, run_request) if run_request.is_plain else None
        return RunCall(run_request, cache_policy, warnings=request.warnings, attempt=claimed.attempt, retry=retry)

    async def _execute_watched(self, work: RunLifecycle, call: RunCall) -> None:
        """Execute the run; end it when its record was ended elsewhere, such as by a caller that cancels."""
        async with self._notifier.subscribe(call.run_id) as changed:
            working = asyncio.create_task(self._execute_attempt(work, call))
            try:
                while not working.done() and not await self._is_over(call):
                    changing = asyncio.create_task(changed.wait())
                    await asyncio.wait(
                        [working, changing], timeout=self._timing.lasting_look_s, return_when=asyncio.FIRST_COMPLETED
                    )
                    changing.cancel()
                    changed.clear()
            except asyncio.CancelledError:  # this worker is stopped; nobody cancelled the run
                await completed(self._stopped(call))
                raise
            finally:
                if not working.done():
                    working.cancel()
                    await completed(asyncio.wait([working]))
        if working.cancelled():
            await self._stopped(call)  # it changes nothing of a run that somebody has ended
        else:
            working.result()

    async def _stopped(self, call: RunCall) -> None:
        """Record that this worker was stopped before the run had ended: another one makes the next attempt, if allowed."""
        if call.attempt < call.retry.attempts:
            with suppress(DatabaseUnavailable):
                if await in_thread(lambda: self._journal.requeue(call.run_id, call.attempt, _STOPPED)):
                    return
        await record_end(self._journal, "interrupted", call.run_id, _STOPPED, attempt=call.attempt)

    async def _is_over(self, call: RunCall) -> bool:
        """Whether it was ended elsewhere, or another attempt runs; not while this worker saves the memories of its result."""
        with suppress(DatabaseUnavailable):
            queued = await asyncio.to_thread(self._queue.lookup, call.run_id)
            return (queued.state in FINAL_STATES and queued.state != "succeeded") or queued.attempt != call.attempt
        return False


async def _listen(app: App, receiver: Receiver, stop: asyncio.Event, connected: asyncio.Event) -> None:
    """Connect and receive until the receiver is stopped; the connections are closed in any case."""
    try:
        async with app.open_async():
            if not stop.is_set():  # the cancellation of what connects may be lost
                connected.set()
                await receiver.run()
    finally:  # nobody else closes what was cancelled while it opened, and its tasks outlive a cancellation
        await completed(app.close_async())


class WorkerGroup:
    """Runs a worker for each organisation that `names` gives, also new ones; `worker` makes the worker of one."""

    def __init__(
        self, names: Callable[[], Collection[str]], worker: Callable[[str], Worker], *, timing: Timing = DEFAULT_TIMING
    ) -> None:
        self._names, self._worker, self._timing = names, worker, timing
        self._serving: dict[str, asyncio.Task[None]] = {}

    async def serve(self, stop: asyncio.Event, *, grace_s: float = 600.0) -> None:
        """Work until `stop` is set, as `Worker.serve`; the worker of one organisation that fails is tried again."""
        try:
            while not stop.is_set():
                await self._look(stop, grace_s)
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._timing.organisations_s):
                        await stop.wait()
            await asyncio.gather(*self._serving.values(), return_exceptions=True)
        finally:
            for task in self._serving.values():
                task.cancel()
            if self._serving:
                await asyncio.wait(self._serving.values())

    async def _look(self, stop: asyncio.Event, grace_s: float) -> None:
        """Start a worker for every organisation without one."""
        with suppress(DatabaseUnavailable):
            for name in await asyncio.to_thread(self._names):
                task = self._serving.get(name)
                if task is not None and not task.done():
                    continue
                if task is not None and not task.cancelled() and (problem := task.exception()) is not None:
                    _log.warning("restarting the worker of %s: %s", name, problem)
                with suppress(RecordNotFound):
                    worker = await asyncio.to_thread(self._worker, name)
                    self._serving[name] = asyncio.create_task(worker.serve(stop, grace_s=grace_s))
