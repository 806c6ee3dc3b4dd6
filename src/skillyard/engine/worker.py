"""A worker: takes the runs of its pools from their queues, works on several at once, and records how each ended.

The row of a run is the fence: a worker starts a run only while it waits, and notes its end only while it is its own and the
attempt is still the same. A worker that was taken for dead and comes back changes nothing and saves no memory.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

from skillyard.concurrency import completed, in_thread
from skillyard.engine.call import RunCall
from skillyard.engine.journal import Journal
from skillyard.engine.keeping import keeping_of
from skillyard.engine.owing import write_or_owe
from skillyard.engine.owner import SILENT_S, Owner
from skillyard.engine.picking import Limits, Taken, abandoned, pick, put_back
from skillyard.engine.queue import RunQueue, name_problem
from skillyard.engine.record import FINAL
from skillyard.engine.request import Request, read_request
from skillyard.engine.roster import BEAT_S, Roster, worker_id
from skillyard.engine.settings import EngineSettings
from skillyard.engine.silence import Silence
from skillyard.engine.turns import Asks, Slots
from skillyard.engine.working import Work, note_end
from skillyard.errors import DatabaseUnavailable, InvalidInput, SkillyardError
from skillyard.execution import RunError, retry_of
from skillyard.memory import SqlMemoryService

if TYPE_CHECKING:
    from procrastinate import App

    from skillyard.catalog import Skill
    from skillyard.database import Database
    from skillyard.engine.protocol import Runner

__all__ = ["Worker"]

_LOOK_S: Final = 5.0  # how often a worker looks whether a run was cancelled, should nobody tell
_AGAIN_S: Final = 2.0  # before the database is tried again
_POLL_S: Final = 2.0  # how often a worker looks for runs, should nobody tell
_LEAVE_S: Final = 5.0  # to say goodbye to the queue
_STOPPED: Final = RunError("INTERRUPTED", "its worker was stopped before the run had ended")
_log = logging.getLogger(__name__)


class Worker:
    """Serves `pools`, at most `concurrency` runs at once, or as many as `slots` that several workers of this process share.

    `organisation` is for whom, `settings` say how many runs of it and of a skill may work at once. `find` gives the skill with
    an id and a content digest, or says why this worker must not run it; `runner` gives what runs a skill for at most so many
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
            raise InvalidInput(wrong or "a worker needs a pool, and takes at least one run at once", hint="name one: gpu")
        self.id = worker_id()
        self.concurrency = concurrency
        self._find, self._runner = find, runner
        self._database = database
        self._queue = RunQueue(database)
        self._roster = Roster(database)
        self._silence = Silence()
        self._owner = str(Owner.current())
        self._journal = Journal(database, owner=self._owner)
        self._bell = database.bell
        self._memory = SqlMemoryService(lambda: database)
        self._slots, self._asks = slots or Slots(concurrency), Asks(organisation)
        settings = settings or EngineSettings()
        self._limits = Limits(settings.per_organisation, settings.per_skill)
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
        beating = asyncio.create_task(self._beat())
        app = self._queue.receiver(self._carry)
        try:
            async with self._bell.ring(self.id):  # one connection that listens as long as this worker works
                while not stop.is_set():
                    await self._receive(app, stop, grace_s)
        finally:
            beating.cancel()
            await completed(asyncio.wait([beating]))  # a beat that is on its way must not come after the leaving
            with suppress(DatabaseUnavailable):
                await in_thread(lambda: self._roster.leave(self.id))

    async def _receive(self, app: App, stop: asyncio.Event, grace_s: float) -> None:
        """Work until `stop` is set or the database is gone."""
        stopping = asyncio.create_task(stop.wait())
        receiving = asyncio.create_task(self._listen(app, grace_s))
        try:
            await asyncio.wait([stopping, receiving], return_when=asyncio.FIRST_COMPLETED)
            if stop.is_set():
                with suppress(DatabaseUnavailable):
                    await in_thread(lambda: self._roster.drain(self.id))
        finally:
            stopping.cancel()
            receiving.cancel()
            await asyncio.wait([stopping, receiving], timeout=grace_s + _LEAVE_S)  # a database that is away must not hold it
        if not stop.is_set():
            problem = None if receiving.cancelled() or not receiving.done() else receiving.exception()
            _log.warning("the queue is not there, trying again: %s", problem or "the connection was lost")
            with suppress(TimeoutError):
                async with asyncio.timeout(_AGAIN_S):
                    await stop.wait()

    async def _listen(self, app: App, grace_s: float) -> None:
        async with app.open_async():
            await app.run_worker_async(
                queues=list(self.pools),
                name=self.id,
                concurrency=self.concurrency,
                shutdown_graceful_timeout=grace_s,
                fetch_job_polling_interval=_POLL_S,
                delete_jobs="always",
                install_signal_handlers=False,
            )

    def _join(self) -> None:
        self._roster.join(self.id, self.pools, self.concurrency)

    async def _beat(self) -> None:
        """Say every few seconds that this worker lives, and look after what others have left."""
        steady = 0.0  # seconds in which the database took every beat: before, nobody could have been heard
        while True:
            await asyncio.sleep(BEAT_S)
            try:
                if not await in_thread(partial(self._roster.beat, self.id)):
                    await in_thread(self._join)
                await in_thread(partial(self._look_after, steady > SILENT_S))
                steady += BEAT_S
            except DatabaseUnavailable:
                steady = 0.0

    def _look_after(self, silent: bool) -> None:
        for run_id in abandoned(self._database, self._queue, self._silence, silent=silent):
            _log.warning("run %s: its worker is gone", run_id)
        if not self._stop.is_set():
            self._queue.wake(self.pools, 4 * self.concurrency)
        self._queue.forget_ended()

    async def _carry(self) -> None:
        """Bring one run to its end, if one waits; where limits hold others back, then the next that may start."""
        while await self._carry_one() and self._limits and not self._stop.is_set():
            pass

    async def _carry_one(self) -> bool:
        async with self._slots.turn(self._asks):
            if self._stop.is_set():
                return False
            taken = await self._taken()
            if taken is None:
                return False
            try:
                await self._work(taken)
            except SkillyardError as error:
                _log.info("run %s: %s", taken.run_id, error.message)  # its record says so
        return True

    async def _taken(self) -> Taken | None:
        """The next run, taken; when this worker is stopped meanwhile, others may take it."""
        taking = asyncio.ensure_future(asyncio.to_thread(pick, self._database, self.pools, self._owner, self._limits))
        try:
            return await completed(taking)
        except asyncio.CancelledError:
            if not taking.cancelled() and taking.exception() is None and (taken := taking.result()) is not None:
                await self._put_back(taken)
            raise

    async def _put_back(self, taken: Taken) -> None:
        """Leave a run that was not begun to others."""
        again = partial(put_back, self._database, taken, self._owner)
        await completed(write_or_owe(taken.run_id, lambda: in_thread(again)))

    async def _work(self, taken: Taken) -> None:
        try:
            request = read_request(taken.request)
            call = await self._call(taken, request)
            work = Work(self._runner(request.timeout_ms), self._journal, self._memory, self._slots)
        except asyncio.CancelledError:
            await self._put_back(taken)
            raise
        except SkillyardError as error:
            await self._refuse(taken, RunError(error.code, error.message))
            raise
        except Exception as error:
            await self._refuse(taken, RunError("UNKNOWN_ERROR", f"{type(error).__name__}: {error}"))
            raise
        await self._watched(work, call)

    async def _refuse(self, taken: Taken, reason: RunError) -> None:
        await note_end(self._journal, "failed", taken.run_id, reason, attempt=taken.attempt)

    async def _attempted(self, work: Work, call: RunCall) -> None:
        """Do the run once; where another attempt follows, any worker may make it."""
        run = await work.attempt(call)
        wait_s = call.retry.wait_s(run, call.attempt)
        if wait_s is not None and await work.set_back(run, call, wait_s):
            await in_thread(lambda: self._queue.call_again(call.run_id, wait_s))
            return
        try:
            await work.ended(run, call)
        finally:
            if run.memory_writes:
                await write_or_owe(call.run_id, lambda: in_thread(lambda: self._queue.let_go(call.run_id)))

    async def _call(self, taken: Taken, request: Request) -> RunCall:
        """The run as this worker sees it: the skill with exactly that content, and whether its result may be kept."""
        skill = await asyncio.to_thread(self._find, request.skill, request.digest)
        keeping = await asyncio.to_thread(
            keeping_of, skill, request.parameters, context=request.context, entry=request.entry, digest=request.digest
        )
        retry = await asyncio.to_thread(retry_of, skill)
        return RunCall(
            taken.run_id,
            skill,
            request.parameters,
            request.context,
            request.entry,
            request.digest,
            keeping,
            warnings=request.warnings,
            attempt=taken.attempt,
            retry=retry,
            finished=retry.finished(taken.finished),
        )

    async def _watched(self, work: Work, call: RunCall) -> None:
        """Do the run; end it when somebody else has ended its record, as a caller does who cancels."""
        async with self._bell.ring(call.run_id) as rung:
            working = asyncio.create_task(self._attempted(work, call))
            try:
                while not working.done() and not await self._is_over(call):
                    ringing = asyncio.create_task(rung.wait())
                    await asyncio.wait([working, ringing], timeout=_LOOK_S, return_when=asyncio.FIRST_COMPLETED)
                    ringing.cancel()
                    rung.clear()
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
        """Note that this worker was stopped before the run had ended: another one makes the next attempt, if it may."""
        if call.attempt < call.retry.attempts:
            with suppress(DatabaseUnavailable):
                if await in_thread(lambda: self._journal.set_back(call.run_id, call.attempt, _STOPPED)):
                    return
        await note_end(self._journal, "interrupted", call.run_id, _STOPPED, attempt=call.attempt)

    async def _is_over(self, call: RunCall) -> bool:
        """Whether it has ended, or another attempt goes on; not when by a result of our own, whose memories are being saved."""
        with suppress(DatabaseUnavailable):
            place = await asyncio.to_thread(self._queue.place, call.run_id)
            return (place.state in FINAL and place.state != "succeeded") or place.attempt != call.attempt
        return False
