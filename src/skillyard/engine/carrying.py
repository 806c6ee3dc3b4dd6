"""What every engine does with a request: a kept result is given again, everything else is written down and carried."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from skillyard.engine.call import RunCall
from skillyard.engine.keeping import as_run, keeping_of
from skillyard.engine.tracing import trace_run
from skillyard.engine.working import CANCELLED
from skillyard.execution import Run, new_run_id

if TYPE_CHECKING:
    from skillyard.catalog import Skill
    from skillyard.engine.journal import Journal
    from skillyard.engine.record import RunRecord
    from skillyard.engine.records import Records

__all__ = ["Carrier"]


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
            return await self._cancellable(call, None)
        journal = await asyncio.to_thread(lambda records: records.journal, self._records)
        keeping = None
        if not call.stays:
            keeping = await asyncio.to_thread(
                keeping_of, skill, parameters, context=call.context, entry=call.entry, digest=call.digest
            )
        if keeping is not None:
            call = replace(call, keeping=keeping)
            if not fresh and (kept := await asyncio.to_thread(journal.kept, keeping.key)) is not None:
                return await asyncio.to_thread(_again, journal, call, kept)
        return await self._cancellable(await asyncio.to_thread(self._queued, call, journal), journal)

    async def cancel(self, run_id: str) -> bool:
        """End a run that waits or works in this engine, as `cancelled`; False when there is none of that id."""
        task = self._working.get(run_id)
        return task is not None and task.cancel()

    def working(self) -> tuple[str, ...]:
        """The ids of the runs that wait or work in this engine."""
        return tuple(self._working)

    def _queued(self, call: RunCall, journal: Journal) -> RunCall:
        """The call, written down before anything of it happens."""
        journal.queue(call.record(), cache_key=call.keeping.key if call.keeping else None)
        return call

    @abstractmethod
    async def _carried(self, call: RunCall, journal: Journal | None) -> Run:
        """Bring the run to its end."""

    async def _cancellable(self, call: RunCall, journal: Journal | None) -> Run:
        """The run as a task of its own, so that `cancel` ends it and not its caller."""
        task = self._working[call.run_id] = asyncio.create_task(self._carried(call, journal))
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait([task])
            raise
        finally:
            del self._working[call.run_id]
        if task.cancelled():
            return Run(call.run_id, call.skill.id, status="killed", error=CANCELLED)
        return task.result()


def _again(journal: Journal, call: RunCall, kept: RunRecord) -> Run:
    """A kept result, recorded as a run of its own; nothing is remembered once more."""
    run = as_run(kept, call.run_id, call.skill.id)
    journal.repeat(replace(call.record(), cache_hit=True, cached_from=kept.id), run)
    now = time.time_ns()
    trace_run(run, asked_ns=now, turn_ns=now, ended_ns=now)
    return run
