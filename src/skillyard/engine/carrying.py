"""What every engine does with a request: a kept result is given again, everything else is written down and carried."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from skillyard.engine.call import RunCall
from skillyard.engine.keeping import as_run, keeping_of
from skillyard.engine.tracing import trace_run
from skillyard.engine.working import CANCELLED, note_end
from skillyard.errors import DatabaseUnavailable, SkillyardError
from skillyard.execution import Run, RunError, new_run_id

if TYPE_CHECKING:
    from skillyard.catalog import Skill
    from skillyard.engine.journal import Journal
    from skillyard.engine.record import RunRecord
    from skillyard.engine.records import Records

__all__ = ["Begun", "Carrier"]

_LOOK_S: Final = 1.0  # how often a run looks whether somebody in another process has ended it


@dataclass(frozen=True, slots=True)
class Begun:
    """A run that goes on by itself: `ended` gives what became of it, or raises as `Carrier.run` does.

    Whoever keeps this keeps the run: a task that nobody holds may be thrown away.
    """

    run_id: str
    ended: asyncio.Task[Run]


class Carrier(ABC):
    """The part of an engine that does not depend on where runs work."""

    def __init__(self, records: Records | None) -> None:
        self._records = records
        self._working: dict[str, asyncio.Task[Run]] = {}

    async def run(
        self,
        skill: Skill,
        parameters: Mapping[str, object],
        *,
        context: Mapping[str, object] | None = None,
        entry: str | None = None,
        digest: str | None = None,
        fresh: bool = False,
        arguments: Sequence[str] = (),
        workspace: str | None = None,
    ) -> Run:
        """Run the skill (see `Engine.run`); cancelling the caller ends the run as `cancelled`.

        Raises:
            DatabaseUnavailable: the run cannot be recorded; nothing was started.
            SkillyardError: it could not be started; the record says why.
        """
        call = RunCall(
            new_run_id(), skill, parameters, context or {}, entry, digest, arguments=tuple(arguments), workspace=workspace
        )
        if self._records is None:
            return await self._cancellable(self._carried(call, None), call, None)
        journal = await asyncio.to_thread(lambda records: records.journal, self._records)
        return await self._answered(call, journal, fresh=fresh)

    async def begin(
        self,
        skill: Skill,
        parameters: Mapping[str, object],
        *,
        context: Mapping[str, object] | None = None,
        entry: str | None = None,
        digest: str | None = None,
        fresh: bool = False,
        run_id: str | None = None,
        consent: Callable[[], Awaitable[str | None]] | None = None,
    ) -> Begun:
        """Write a run down and let it go on by itself, whatever becomes of the caller.

        With a `run_id` of the caller's the same request twice is one run. `consent` is awaited before anything starts: it gives
        the digest that was agreed to, or raises; the run waits for it as `queued`.

        Raises:
            RecordExists: there is a run with that id.
            DatabaseUnavailable: the run cannot be recorded; nothing was started.
        """
        call = RunCall(run_id or new_run_id(), skill, parameters, context or {}, entry, digest, recorded=True)
        if self._records is None:
            return Begun(call.run_id, asyncio.create_task(self._cancellable(self._carried(call, None), call, None)))
        journal = await asyncio.to_thread(lambda records: records.journal, self._records)
        await asyncio.to_thread(journal.queue, call.record())
        going = self._agreed(call, journal, fresh=fresh, consent=consent)
        return Begun(call.run_id, asyncio.create_task(self._cancellable(going, call, journal)))

    async def cancel(self, run_id: str) -> bool:
        """End a run that waits or works in this engine, as `cancelled`; False when there is none of that id."""
        task = self._working.get(run_id)
        return task is not None and task.cancel()

    def working(self) -> tuple[str, ...]:
        """The ids of the runs that wait or work in this engine."""
        return tuple(self._working)

    async def _agreed(
        self, call: RunCall, journal: Journal, *, fresh: bool, consent: Callable[[], Awaitable[str | None]] | None
    ) -> Run:
        """The run after somebody has agreed to it; that nobody did is noted."""
        try:
            if consent is not None:
                call = replace(call, digest=await consent() or call.digest)
            return await self._answered(call, journal, fresh=fresh)
        except asyncio.CancelledError:
            await note_end(journal, "cancelled", call.run_id, CANCELLED)
            raise
        except BaseException as error:
            code = error.code if isinstance(error, SkillyardError) else "UNKNOWN_ERROR"
            await note_end(journal, "failed", call.run_id, RunError(code, str(error)))
            raise

    async def _answered(self, call: RunCall, journal: Journal, *, fresh: bool) -> Run:
        """The run: a result that is kept, or one that is made now."""
        keeping = None
        if not call.stays:
            keeping = await asyncio.to_thread(
                keeping_of, call.skill, call.parameters, context=call.context, entry=call.entry, digest=call.digest
            )
        if keeping is not None:
            call = replace(call, keeping=keeping)
            if not fresh and (kept := await asyncio.to_thread(journal.kept, keeping.key)) is not None:
                return await asyncio.to_thread(_again, journal, call, kept)
        call = await asyncio.to_thread(self._queued, call, journal)
        if call.recorded:  # it is a task of its own already
            return await self._carried(call, journal)
        return await self._cancellable(self._carried(call, journal), call, journal)

    def _queued(self, call: RunCall, journal: Journal) -> RunCall:
        """The call, written down before anything of it happens."""
        journal.queue(call.record(), cache_key=call.keeping.key if call.keeping else None, known=call.recorded)
        return call

    @abstractmethod
    async def _carried(self, call: RunCall, journal: Journal | None) -> Run:
        """Bring the run to its end."""

    async def _cancellable(self, going: Coroutine[object, object, Run], call: RunCall, journal: Journal | None) -> Run:
        """The run as a task of its own, so that `cancel` ends it and not its caller."""
        task = self._working[call.run_id] = asyncio.create_task(going)
        heeding = asyncio.create_task(_heed(call.run_id, task, journal)) if journal else None
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait([task])
            raise
        finally:
            del self._working[call.run_id]
            if heeding is not None:
                heeding.cancel()
        if task.cancelled():
            await note_end(journal, "cancelled", call.run_id, CANCELLED)  # also one that had not come to its first step
            return Run(call.run_id, call.skill.id, status="killed", error=CANCELLED)
        return task.result()


async def _heed(run_id: str, task: asyncio.Task[Run], journal: Journal) -> None:
    """End the run when its record says that somebody has, in whatever process."""
    while not task.done():
        await asyncio.sleep(_LOOK_S)
        with suppress(DatabaseUnavailable):
            if await asyncio.to_thread(journal.state, run_id) == "cancelled":
                task.cancel()
                return


def _again(journal: Journal, call: RunCall, kept: RunRecord) -> Run:
    """A kept result, recorded as a run of its own; nothing is remembered once more."""
    run = as_run(kept, call.run_id, call.skill.id)
    journal.repeat(replace(call.record(), cache_hit=True, cached_from=kept.id), run, known=call.recorded)
    now = time.time_ns()
    trace_run(run, asked_ns=now, turn_ns=now, ended_ns=now)
    return run
