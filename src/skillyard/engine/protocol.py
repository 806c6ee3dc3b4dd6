"""The interfaces of this package: what records runs, and what executes them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from skillyard.catalog import Skill
    from skillyard.execution import Run, RunRequest


class Runner(Protocol):
    """Executes one run without recording it; `skillyard.execution.Executor` is one."""

    def can_run(self, skill: Skill) -> bool:
        """Whether the skill has something that could be started; looks at files, starts nothing."""

    async def run(self, request: RunRequest) -> Run:
        """Execute the request and return the result.

        Raises:
            SkillyardError: it could not be started.
        """


class Engine(Protocol):
    """Executes runs: each is recorded before it starts and ends in exactly one final state."""

    def can_run(self, skill: Skill) -> bool:
        """Whether the skill has something that could be started; looks at files, starts nothing."""

    async def run(self, request: RunRequest) -> Run:
        """Execute the request, or return a cached result that is still valid, unless it is to be `fresh`.

        With a `workspace` the run works in this process. A result is only cached for a request without arguments, packages,
        files and a workspace.

        Raises:
            InvalidInput: the priority is not from -100 to 100.
            DatabaseUnavailable: the run cannot be recorded; nothing was started.
            SkillyardError: it could not be started; the reason is in the record.
        """

    async def cancel(self, run_id: str) -> bool:
        """End a run that waits or works in this engine, as `cancelled`; False when none of that id does, or it has ended."""
