"""The engine in this process: runs wait for their turn, work, and are recorded."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, TypeVar
from weakref import WeakKeyDictionary

from skillyard.engine.keeping import Keeping, as_run, keeping_of, still_keeps
from skillyard.engine.protocol import Runner
from skillyard.engine.record import RunRecord, RunState
from skillyard.engine.tracing import trace_run
from skillyard.errors import ExecutionProblem, SkillyardError
from skillyard.execution import Run, RunError, new_run_id
from skillyard.memory import SqlMemoryService, keep_suggestions

if TYPE_CHECKING:
    from skillyard.catalog import Skill
    from skillyard.engine.journal import Journal
    from skillyard.engine.records import Records
    from skillyard.memory import MemoryService

__all__ = ["LocalEngine", "Slots"]

_CANCELLED: Final = RunError("CANCELLED", "the run was cancelled")
_log = logging.getLogger(__name__)
_Value = TypeVar("_Value")


class Slots:
    """How many runs work at once; those that wait take their turn in order."""

    def __init__(self, number: int | None = None) -> None:
        self.number = number or 2 * (os.cpu_count() or 1)
        self._of_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()

    def here(self) -> asyncio.Semaphore:
        """The slots of the running loop; a semaphore serves one loop only."""
        return self._of_loop.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(self.number))


@dataclass(frozen=True, slots=True)
class _Call:
    """One request, with the id its run will have."""

    run_id: str
    skill: Skill
    parameters: Mapping[str, object]
    context: Mapping[str, object]
    entry: str | None
    digest: str | None
    keeping: Keeping | None = None

    def record(self) -> RunRecord:
        """What is known of the run before it starts."""
        return RunRecord(
            id=self.run_id,
            skill_id=self.skill.id,
            skill_name=str(getattr(self.skill, "name", self.skill.id)),
            kind=self.skill.kind,
            state="queued",
            created_at=datetime.now(UTC),
            entry=self.entry,
            digest=self.keeping.digest if self.keeping else self.digest,
            parameters=self.parameters,
            context=self.context,
        )


class LocalEngine:
    """Carries runs to `runner` in this process and records them in `records`.

    Memories that a run suggests go to `memory`, by default the one beside the records. Without `records` and `memory` nothing
    is recorded, kept or remembered. At most `concurrency` runs work at once (default: two for each
    processor), or as many as `slots` that several engines share.
    """

    def __init__(
        self,
        runner: Runner,
        records: Records | None = None,
        *,
        memory: MemoryService | None = None,
        concurrency: int | None = None,
        slots: Slots | None = None,
    ) -> None:
        self._runner = runner
        self._records = records
        self._memory = memory or (SqlMemoryService(lambda: records.database) if records is not None else None)
        self._slots = slots or Slots(concurrency)
        self._working: dict[str, asyncio.Task[Run]] = {}

    def through(self, runner: Runner) -> LocalEngine:
        """This engine with another runner: the same records and turns."""
        return self._like(runner, self._records, self._memory)

    def unrecorded(self) -> LocalEngine:
        """This engine without its records and memory: the same runner and turns."""
        return self._like(self._runner, None, None)

    def _like(self, runner: Runner, records: Records | None, memory: MemoryService | None) -> LocalEngine:
        engine = LocalEngine(runner, records, memory=memory, slots=self._slots)
        engine._working = self._working
        return engine

    def can_run(self, skill: Skill) -> bool:
        """Whether the skill has something that could be started; looks at files, starts nothing."""
        return self._runner.can_run(skill)

    async def run(
        self,
        skill: Skill,
        parameters: Mapping[str, object],
        *,
        context: Mapping[str, object] | None = None,
        entry: str | None = None,
        digest: str | None = None,
        fresh: bool = False,
    ) -> Run:
        """Run the skill (see `Engine.run`); cancelling the caller ends the run as `cancelled`.

        Raises:
            DatabaseUnavailable: the run cannot be recorded; nothing was started.
            SkillyardError: it could not be started; the record says why.
        """
        call = _Call(new_run_id(), skill, parameters, context or {}, entry, digest)
        if self._records is None:
            return await self._cancellable(call, None)
        journal = await asyncio.to_thread(lambda records: records.journal, self._records)
        keeping = await asyncio.to_thread(
            keeping_of, skill, parameters, context=call.context, entry=call.entry, digest=call.digest
        )
        if keeping is not None:
            call = replace(call, keeping=keeping)
            if not fresh and (kept := await asyncio.to_thread(journal.kept, keeping.key)) is not None:
                return await asyncio.to_thread(_again, journal, call, kept)
        await asyncio.to_thread(journal.queue, call.record(), cache_key=keeping.key if keeping else None)
        return await self._cancellable(call, journal)

    async def cancel(self, run_id: str) -> bool:
        """End a run that waits or works in this engine, as `cancelled`; False when there is none of that id."""
        task = self._working.get(run_id)
        return task is not None and task.cancel()

    def working(self) -> tuple[str, ...]:
        """The ids of the runs that wait or work in this engine."""
        return tuple(self._working)

    async def _cancellable(self, call: _Call, journal: Journal | None) -> Run:
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
            return Run(call.run_id, call.skill.id, status="killed", error=_CANCELLED)
        return task.result()

    async def _carried(self, call: _Call, journal: Journal | None) -> Run:
        """Wait for a turn, run, and record how it ended, whatever happens."""
        asked = time.time_ns()
        try:
            async with self._slots.here():
                turn = time.time_ns()
                if journal is not None and not await asyncio.to_thread(journal.start, call.run_id):
                    raise ExecutionProblem("the run was ended before it started", hint="look at its record, then run again")
                run = await self._done(call)
        except asyncio.CancelledError:
            await _finally(journal, "cancelled", call.run_id, _CANCELLED)
            raise
        except SkillyardError as error:
            await _finally(journal, "failed", call.run_id, RunError(error.code, error.message))
            raise
        except BaseException as error:
            await _finally(journal, "failed", call.run_id, RunError("UNKNOWN_ERROR", f"{type(error).__name__}: {error}"))
            raise
        trace_run(run, asked_ns=asked, turn_ns=turn, ended_ns=time.time_ns())
        return await self._remembered(await _recorded(run, call, journal), call, journal)

    async def _remembered(self, run: Run, call: _Call, journal: Journal | None) -> Run:
        """The run, after the memories it suggests were saved; a run that failed suggests none."""
        if self._memory is None or not run.ok or not run.memory_writes:
            return run
        kept = await keep_suggestions(
            self._memory, run.memory_writes, run_id=run.run_id, skill_id=run.skill_id, context=call.context
        )
        lost = tuple(f"memory {number} was not saved: {item.reason}" for number, item in enumerate(kept, 1) if not item.saved)
        run = replace(run, warnings=(*run.warnings, *lost))
        if journal is not None:
            with suppress(SkillyardError):  # the memories are safe; only the note about them is not
                await _in_thread(lambda: journal.note_memories(run.run_id, [item.to_dict() for item in kept], run.warnings))
        return run

    async def _done(self, call: _Call) -> Run:
        return await self._runner.run(
            call.skill, call.parameters, context=call.context, entry=call.entry, digest=call.digest, run_id=call.run_id
        )


def _again(journal: Journal, call: _Call, kept: RunRecord) -> Run:
    """A kept result, recorded as a run of its own; nothing is remembered once more."""
    run = as_run(kept, call.run_id, call.skill.id)
    journal.repeat(replace(call.record(), cache_hit=True, cached_from=kept.id), run)
    now = time.time_ns()
    trace_run(run, asked_ns=now, turn_ns=now, ended_ns=now)
    return run


async def _recorded(run: Run, call: _Call, journal: Journal | None) -> Run:
    """The run, noted as ended; what cannot be noted is said, and the result is not lost."""
    if journal is None:
        return run
    keeping = call.keeping
    try:
        await _in_thread(lambda: journal.finish(run, keep_s=still_keeps(keeping, call.skill) if keeping and run.ok else 0))
    except Exception as error:  # whatever a skill gave that a database does not take: its result is more than its record
        _log.exception("how run %s ended could not be recorded", run.run_id)
        problem = RunError("RECORD_INCOMPLETE", f"how the run ended could not be recorded: {error}"[:500])
        await _finally(journal, "succeeded" if run.ok else "failed", run.run_id, problem)
        return replace(run, warnings=(*run.warnings, problem.message))
    return run


async def _finally(journal: Journal | None, state: RunState, run_id: str, error: RunError) -> None:
    """Note that a run ended without a result; the reason it did so is on its way already and is not replaced."""
    if journal is None:
        return
    try:
        await _in_thread(lambda: journal.stop(run_id, state, error))
    except SkillyardError as problem:
        _log.error("run %s could not be recorded: %s", run_id, problem.message)


async def _in_thread(work: Callable[[], _Value]) -> _Value:
    """Do the work in a thread and wait for it, also when the waiting is cancelled meanwhile."""
    doing = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(doing)
    except asyncio.CancelledError:
        await asyncio.wait([doing])
        raise
