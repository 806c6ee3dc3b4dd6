"""The seams of this room: what carries runs, and what does them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from skillyard.catalog import Skill
    from skillyard.execution import Run, RunRequest


class Runner(Protocol):
    """Does one run and reports it, without any record; `skillyard.execution.Executor` is one."""

    def can_run(self, skill: Skill) -> bool:
        """Whether the skill has something that could be started; looks at files, starts nothing."""

    async def run(self, request: RunRequest) -> Run:
        """Carry out the request and report what became of it.

        Raises:
            SkillyardError: it could not be started.
        """


class Engine(Protocol):
    """Carries runs: each is recorded before it starts and ends in exactly one final state."""

    def can_run(self, skill: Skill) -> bool:
        """Whether the skill has something that could be started; looks at files, starts nothing."""

    async def run(self, request: RunRequest) -> Run:
        """Carry out the request, or give a cached result that still holds, unless it is to be `fresh`.

        With `arguments` or a `workspace` the run works in this process, and its result is not cached.

        Raises:
            InvalidInput: the priority is not from -100 to 100.
            DatabaseUnavailable: the run cannot be recorded; nothing was started.
            SkillyardError: it could not be started; the record says why.
        """

    async def cancel(self, run_id: str) -> bool:
        """End a run that waits or works in this engine, as `cancelled`; False when none of that id does, or it has ended."""
