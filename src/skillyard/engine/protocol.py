"""The seams of this room: what carries runs, and what does them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from skillyard.catalog import Skill
    from skillyard.execution import Run, StepTrace


class Runner(Protocol):
    """Does one run and reports it, without any record; `skillyard.execution.Executor` is one."""

    def can_run(self, skill: Skill) -> bool:
        """Whether the skill has something that could be started; looks at files, starts nothing."""

    async def run(
        self,
        skill: Skill,
        parameters: Mapping[str, object],
        *,
        context: Mapping[str, object] | None = None,
        entry: str | None = None,
        digest: str | None = None,
        run_id: str | None = None,
        unavailable: str | None = None,
        arguments: Sequence[str] = (),
        workspace: str | None = None,
        finished: Sequence[StepTrace] = (),
    ) -> Run:
        """Run the skill as the run `run_id` and report what became of it.

        With `unavailable`, which says why, its own kind cannot be used, and only what stands in for it runs. `arguments` follow
        a script on its command line, and it works on a copy of the files in the folder `workspace`. `finished` are steps of an
        attempt before that need not be done again. These four are only given when there is something to say.

        Raises:
            SkillyardError: it could not be started.
        """


class Engine(Protocol):
    """Carries runs: each is recorded before it starts and ends in exactly one final state."""

    def can_run(self, skill: Skill) -> bool:
        """Whether the skill has something that could be started; looks at files, starts nothing."""

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
        priority: int = 0,
    ) -> Run:
        """Run the skill, or give a result that is kept and still holds, unless `fresh`.

        `arguments` follow a script on its command line; it works on a copy of the files in the folder `workspace`, and what it
        writes there is copied back. With one of them the run works in this process, and no result is kept. Of the runs of an
        organisation that wait, one with a higher `priority` (-100 to 100) goes first.

        Raises:
            DatabaseUnavailable: the run cannot be recorded; nothing was started.
            SkillyardError: it could not be started; the record says why.
        """

    async def cancel(self, run_id: str) -> bool:
        """End a run that waits or works in this engine, as `cancelled`; False when none of that id does, or it has ended."""
