"""One request to run a skill, with the id its run will have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from skillyard.engine.record import RunRecord
from skillyard.engine.turns import Asks
from skillyard.errors import InvalidInput
from skillyard.execution import ONCE, Retry, StepTrace

if TYPE_CHECKING:
    from skillyard.catalog import Skill
    from skillyard.engine.keeping import Keeping

__all__ = ["RunCall", "check_priority"]

_MOST_IMPORTANT: Final = 100


@dataclass(frozen=True, slots=True)
class RunCall:
    """One request; `pool` is where it was handed over to, `unavailable` why the skill's own kind cannot be used.

    `warnings` are what there was to say before the run; one that is `recorded` has its row already. `arguments` follow a script
    on its command line, `workspace` is the folder whose files it works on. A higher `priority` goes first. `attempt` is the
    number of this attempt, `retry` says whether another one may follow, and `finished` are steps that need not be done again.
    """

    run_id: str
    skill: Skill
    parameters: Mapping[str, object]
    context: Mapping[str, object]
    entry: str | None = None
    digest: str | None = None
    keeping: Keeping | None = None
    pool: str | None = None
    unavailable: str | None = None
    warnings: tuple[str, ...] = ()
    recorded: bool = False
    arguments: tuple[str, ...] = ()
    workspace: str | None = None
    priority: int = 0
    schedule: str | None = None
    attempt: int = 1
    retry: Retry = ONCE
    finished: tuple[StepTrace, ...] = field(default=(), hash=False)

    @property
    def stays(self) -> bool:
        """Whether the run belongs to this process, because of the files or the command line it is given."""
        return bool(self.arguments) or self.workspace is not None

    def asks(self, organisation: str) -> Asks:
        """What it is in the line of those that wait for a turn."""
        name = str(getattr(self.skill, "name", self.skill.id))
        return Asks(organisation, name, self.skill.id, self.priority)

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
            context={**self.context, **({"arguments": list(self.arguments)} if self.arguments else {})},
            priority=self.priority,
            schedule=self.schedule,
        )


def check_priority(priority: int) -> int:
    """The priority, when it is one.

    Raises:
        InvalidInput: it is not from -100 to 100.
    """
    if -_MOST_IMPORTANT <= priority <= _MOST_IMPORTANT:
        return priority
    raise InvalidInput(f"{priority} is no priority", hint=f"from -{_MOST_IMPORTANT} to {_MOST_IMPORTANT}; 0 is the usual one")
