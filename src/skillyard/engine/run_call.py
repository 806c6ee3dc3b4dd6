"""One request to run a skill, with the id its run will have; and the text of it that a worker gets through the queue.

`RunCall` is the request inside a process; `write_request` and `read_request` carry it to a worker as a `WorkerRequest`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from skillyard.engine.run_record import RunRecord
from skillyard.engine.slots import SlotRequest
from skillyard.errors import InvalidInput
from skillyard.execution import ONCE, RetryPolicy, StepTrace, without_credentials
from skillyard.plain_json import to_plain_json

if TYPE_CHECKING:
    from skillyard.catalog import Skill
    from skillyard.engine.result_cache import CachePolicy


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
    keeping: CachePolicy | None = None
    pool: str | None = None
    unavailable: str | None = None
    warnings: tuple[str, ...] = ()
    recorded: bool = False
    arguments: tuple[str, ...] = ()
    workspace: str | None = None
    priority: int = 0
    schedule: str | None = None
    attempt: int = 1
    retry: RetryPolicy = ONCE
    finished: tuple[StepTrace, ...] = field(default=(), hash=False)

    @property
    def must_run_here(self) -> bool:
        """Whether the run belongs to this process, because of the files or the command line it is given."""
        return bool(self.arguments) or self.workspace is not None

    def asks(self, organisation: str) -> SlotRequest:
        """What it is in the line of those that wait for a turn."""
        name = str(getattr(self.skill, "name", self.skill.id))
        return SlotRequest(organisation, name, self.skill.id, self.priority)

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
    hint = f"from -{_MOST_IMPORTANT} to {_MOST_IMPORTANT}; 0 is the default"
    raise InvalidInput(f"{priority} is not a valid priority", hint=hint)


MAX_RUN_MS: Final = 600_000
"""No run may take longer, wherever it works."""

_KINDS: Final = {"skill": str, "digest": str, "parameters": dict, "context": dict, "timeout_ms": int}


@dataclass(frozen=True, slots=True)
class WorkerRequest:
    """A run that was handed over: the skill by its id and the digest of its content, and with what it is called."""

    skill: str
    digest: str
    parameters: Mapping[str, object]
    context: Mapping[str, object]
    entry: str | None
    timeout_ms: int
    warnings: tuple[str, ...]


def write_request(call: RunCall, *, timeout_ms: int) -> str:
    """The request as text that any database takes; what may be a credential in the context stays behind.

    Raises:
        InvalidInput: the parameters are no JSON.
    """
    context, warnings = without_credentials(call.context)
    request = {
        "skill": call.skill.id,
        "digest": call.digest,
        "parameters": call.parameters,
        "context": context,
        "entry": call.entry,
        "timeout_ms": timeout_ms,
        "warnings": warnings,
    }
    try:
        return json.dumps(request, allow_nan=False, default=to_plain_json)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"the parameters cannot be written as JSON: {error}", hint="give plain JSON values") from None


def read_request(text: str) -> WorkerRequest:
    """The request that `write_request` wrote.

    Raises:
        InvalidInput: it is none; a caller of another version may have written it.
    """
    try:
        values = json.loads(text)
        if not all(isinstance(values[name], kind) for name, kind in _KINDS.items()):
            raise TypeError("it names no skill to run")
        if not isinstance(values.get("entry"), str | None) or not 0 < values["timeout_ms"] <= MAX_RUN_MS:
            raise ValueError("it runs nothing, or for longer than anything may")
        return WorkerRequest(**values | {"warnings": tuple(map(str, values["warnings"]))})
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise InvalidInput(
            f"the request of this run cannot be read: {type(error).__name__}: {error}",
            hint="let callers and workers have the same version of skillyard",
        ) from None
