"""The engine in this process: runs wait for a slot, work, and are recorded."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING

from skillyard.engine.base_engine import BaseEngine
from skillyard.engine.protocol import Runner
from skillyard.engine.run_lifecycle import RunLifecycle
from skillyard.engine.slots import Slots
from skillyard.memory import SqlMemoryService

if TYPE_CHECKING:
    from skillyard.catalog import Skill
    from skillyard.engine.journal import Journal
    from skillyard.engine.records import Records
    from skillyard.engine.run_call import RunCall
    from skillyard.execution import Run
    from skillyard.memory import MemoryService


class LocalEngine(BaseEngine):
    """Executes runs with `runner` in this process and records them in `records`.

    Memories that a run suggests go to `memory`, by default the one beside the records. Without `records` and `memory` nothing
    is recorded, kept or remembered. At most `concurrency` runs work at once (default: two for each
    processor), or as many as `slots` that several engines share; then `organisation` is whose runs this engine executes.
    """

    def __init__(
        self,
        runner: Runner,
        records: Records | None = None,
        *,
        memory: MemoryService | None = None,
        concurrency: int | None = None,
        slots: Slots | None = None,
        organisation: str = "",
    ) -> None:
        super().__init__(records)
        self._runner = runner
        self._memory = memory or (SqlMemoryService(lambda: records.database) if records is not None else None)
        self._slots = slots or Slots(concurrency)
        self._organisation = organisation

    def through(self, runner: Runner) -> LocalEngine:
        """This engine with another runner: the same records and turns."""
        engine = copy(self)
        engine._runner = runner
        return engine

    def unrecorded(self) -> LocalEngine:
        """This engine without its records and memory: the same runner and turns."""
        engine = copy(self)
        engine._records = engine._memory = None
        return engine

    def can_run(self, skill: Skill) -> bool:
        """Whether the skill has something that could be started; looks at files, starts nothing."""
        return self._runner.can_run(skill)

    def work(self, journal: Journal | None) -> RunLifecycle:
        """Executes one run and records in `journal` how it ended."""
        return RunLifecycle(self._runner, journal, self._memory, self._slots, self._organisation)

    async def _execute(self, call: RunCall, journal: Journal | None) -> Run:
        return await self.work(journal).carry_out(call)
