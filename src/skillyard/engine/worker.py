"""A worker: takes the runs of its pools from their queues, works on several at once, and records how each ended.

The row of a run is the fence: a worker starts a run only while it waits, and notes its end only while it is its own. A worker
that was taken for dead and comes back changes nothing and saves no memory.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from skillyard.engine.bell import Bell
from skillyard.engine.call import RunCall
from skillyard.engine.journal import Journal
from skillyard.engine.keeping import keeping_of
from skillyard.engine.owner import Owner
from skillyard.engine.owing import write_or_owe
from skillyard.engine.queue import RunQueue, name_problem
from skillyard.engine.record import FINAL
from skillyard.engine.request import Request, read_request
from skillyard.engine.roster import BEAT_S, Roster, worker_id
from skillyard.engine.working import Slots, Work, in_thread, note_end
from skillyard.errors import DatabaseUnavailable, InvalidInput, SkillyardError
from skillyard.execution import RunError
from skillyard.memory import SqlMemoryService

if TYPE_CHECKING:
    from procrastinate import App

    from skillyard.catalog import Skill
    from skillyard.database import Database
    from skillyard.engine.protocol import Runner

__all__ = ["Worker"]

_LOOK_S: Final = 5.0  # how often a worker looks whether a run was cancelled, should nobody tell
_AGAIN_S: Final = 2.0  # before the database is tried again
_STOPPED: Final = RunError("INTERRUPTED", "its worker was stopped before the run had ended")
_log = logging.getLogger(__name__)


class Worker:
    """Serves `pools`, at most `concurrency` runs at once.

    `find` gives the skill with an id and a content digest, or says why this worker must not run it; `runner` gives what runs a
    skill for at most so many milliseconds.

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
    ) -> None:
        self.pools = tuple(dict.fromkeys(pools))
        wrong = next((problem for pool in self.pools if (problem := name_problem(pool))), None)
        if wrong or not self.pools or concurrency < 1:
            raise InvalidInput(wrong or "a worker needs a pool, and takes at least one run at once", hint="name one: gpu")
        self.id = worker_id()
        self.concurrency = concurrency
        self._find, self._runner = find, runner
        self._queue = RunQueue(database)
        self._roster = Roster(database)
        self._owner = str(Owner.current())
        self._journal = Journal(database, owner=self._owner)
        self._bell = Bell(str(database.conninfo))
        self._memory = SqlMemoryService(lambda: database)
        self._slots = Slots(concurrency)

    async def serve(self, stop: asyncio.Event, *, grace_s: float = 600.0) -> None:
        """Work until `stop` is set; then take nothing new, and give the runs that work `grace_s` seconds to end.

        Those that have not ended then end as `interrupted`. A database that goes away is waited for.

        Raises:
            DatabaseUnavailable: the database cannot be used to begin with.
        """
        await in_thread(self._queue.prepare)
        await in_thread(self._join)
        beating = asyncio.create_task(self._beat())
        app = self._queue.receiver(self._carry)
        try:
            while not stop.is_set():
                await self._receive(app, stop, grace_s)
        finally:
            beating.cancel()
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
            await asyncio.wait([stopping, receiving])
        if not stop.is_set():
            problem = None if receiving.cancelled() else receiving.exception()
            _log.warning("the queue is not there, trying again: %s", problem or "the connection was lost")
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), _AGAIN_S)

    async def _listen(self, app: App, grace_s: float) -> None:
        async with app.open_async():
            await app.run_worker_async(
                queues=list(self.pools),
                name=self.id,
                concurrency=self.concurrency,
                shutdown_graceful_timeout=grace_s,
                delete_jobs="always",
                install_signal_handlers=False,
            )

    def _join(self) -> None:
        self._roster.join(self.id, self.pools, self.concurrency)

    async def _beat(self) -> None:
        """Say every few seconds that this worker lives."""
        while True:
            await asyncio.sleep(BEAT_S)
            with suppress(DatabaseUnavailable):
                if not await asyncio.to_thread(self._roster.beat, self.id):
                    await asyncio.to_thread(self._join)
                await asyncio.to_thread(self._queue.forget_ended)

    async def _carry(self, run_id: str) -> None:
        """Bring one run to its end, if it still waits for one."""
        text = await in_thread(lambda: self._queue.take(run_id, self._owner))
        if text is None:
            return
        try:
            await self._work(run_id, text)
        except SkillyardError as error:
            _log.info("run %s: %s", run_id, error.message)  # its record says so
        finally:
            await write_or_owe(run_id, lambda: in_thread(lambda: self._queue.let_go(run_id)))

    async def _work(self, run_id: str, text: str) -> None:
        try:
            request = read_request(text)
            call = await self._call(run_id, request)
        except SkillyardError as error:
            await note_end(self._journal, "failed", run_id, RunError(error.code, error.message))
            raise
        except Exception as error:
            await note_end(self._journal, "failed", run_id, RunError("UNKNOWN_ERROR", f"{type(error).__name__}: {error}"))
            raise
        work = Work(self._runner(request.timeout_ms), self._journal, self._memory, self._slots)
        await self._watched(asyncio.create_task(work.carry_out(call, started=True)), run_id)

    async def _call(self, run_id: str, request: Request) -> RunCall:
        """The run as this worker sees it: the skill with exactly that content, and whether its result may be kept."""
        skill = await asyncio.to_thread(self._find, request.skill, request.digest)
        keeping = await asyncio.to_thread(
            keeping_of, skill, request.parameters, context=request.context, entry=request.entry, digest=request.digest
        )
        return RunCall(
            run_id,
            skill,
            request.parameters,
            request.context,
            request.entry,
            request.digest,
            keeping,
            warnings=request.warnings,
        )

    async def _watched(self, working: asyncio.Task[object], run_id: str) -> None:
        """Wait for the run; end it when somebody else has ended its record, as a caller does who cancels."""
        async with self._bell.ring(run_id) as rung:
            try:
                while not working.done():
                    ringing = asyncio.create_task(rung.wait())
                    await asyncio.wait([working, ringing], timeout=_LOOK_S, return_when=asyncio.FIRST_COMPLETED)
                    ringing.cancel()
                    rung.clear()
                    if not working.done() and await self._is_over(run_id):
                        break
            except asyncio.CancelledError:  # this worker is stopped; nobody cancelled the run
                await note_end(self._journal, "interrupted", run_id, _STOPPED)
                raise
            finally:
                if not working.done():
                    working.cancel()
                    await asyncio.wait([working])
        if not working.cancelled():
            working.result()

    async def _is_over(self, run_id: str) -> bool:
        """Whether the record has ended; not when it has by a result of our own, whose memories are being saved."""
        with suppress(DatabaseUnavailable):
            state = (await asyncio.to_thread(self._queue.place, run_id)).state
            return state in FINAL and state != "succeeded"
        return False
