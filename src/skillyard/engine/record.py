"""What is known of a run afterwards, by anyone who may read the records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal

from skillyard.execution import StepTrace
from skillyard.times import utc_text

__all__ = ["FINAL", "QUEUE", "Attempt", "RunRecord", "RunState"]

RunState = Literal["queued", "running", "succeeded", "failed", "cancelled", "interrupted"]
FINAL: Final[tuple[RunState, ...]] = ("succeeded", "failed", "cancelled", "interrupted")
"""A run ends in exactly one of these; `interrupted` when the process that carried it is gone."""

QUEUE: Final = "queue"
"""Who carries a run that waits for any worker, whatever becomes of the process that asked for it."""

_TIMES: Final = ("created_at", "started_at", "finished_at", "expires_at")
_HIDDEN: Final = ("id", "skill_id", "skill_name", "error_code", "printed")
_MAPPED: Final = ("memory_writes", "limits", "contacts")


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt at a run that was not its last: when it was made, and why there is another one."""

    number: int
    error_code: str
    error_message: str | None
    started_at: datetime | None
    finished_at: datetime

    def to_dict(self) -> dict[str, object]:
        """The attempt as plain data."""
        return {
            "number": self.number,
            "error": {"code": self.error_code, "message": self.error_message},
            "started_at": _text(self.started_at),
            "finished_at": _text(self.finished_at),
        }


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One run as it is recorded.

    `state` is where it is; `status` how its process ended (`ok`, `error`, `timeout`, …). Parameters and context are recorded
    without what stands under a secret's name. `attempt` is the number of this attempt, `attempts` are those before it;
    `schedule` is the name of the schedule that asked for it. Each of `memory_writes` says in `saved` whether a memory service
    kept it, and else why not. Times are UTC.
    """

    id: str
    skill_id: str
    skill_name: str
    kind: str
    state: RunState
    created_at: datetime
    entry: str | None = None
    digest: str | None = None
    status: str | None = None
    parameters: Mapping[str, object] = field(default_factory=dict, hash=False)
    context: Mapping[str, object] = field(default_factory=dict, hash=False)
    output: object = field(default=None, hash=False)
    format: str | None = None
    message: str | None = None
    error_code: str | None = None
    error_message: str | None = None
    warnings: tuple[str, ...] = ()
    limits: tuple[Mapping[str, object], ...] = field(default=(), hash=False)
    memory_writes: tuple[Mapping[str, object], ...] = field(default=(), hash=False)
    token_usage: Mapping[str, object] | None = field(default=None, hash=False)
    contacts: tuple[Mapping[str, object], ...] = field(default=(), hash=False)
    ran_as: str | None = None
    """The kind that did the work in the end, as `Run.kind`."""
    isolation: str | None = None
    interpreter: str | None = None
    stdout: str = ""
    stderr: str = ""
    printed: Mapping[str, Any] | None = field(default=None, hash=False)
    """How far each stream and the steps were told while it went on, where that is more than the record shows."""
    duration_ms: int | None = None
    cache_hit: bool = False
    cached_from: str | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    expires_at: datetime | None = None
    steps: tuple[StepTrace, ...] = field(default=(), hash=False)
    priority: int = 0
    attempt: int = 1
    schedule: str | None = None
    attempts: tuple[Attempt, ...] = ()

    def summary(self) -> dict[str, object]:
        """One line of a list, as plain data."""
        return {
            "run_id": self.id,
            "skill": self.skill_id,
            "state": self.state,
            "status": self.status,
            "error": self._error(),
            "cache_hit": self.cache_hit,
            "schedule": self.schedule,
            "duration_ms": self.duration_ms,
            "created_at": _text(self.created_at),
            "finished_at": _text(self.finished_at),
        }

    def to_dict(self) -> dict[str, object]:
        """Everything, as plain data; `steps` with the field names of the document."""
        names = (name for name in self.__dataclass_fields__ if name not in _HIDDEN)
        shape: dict[str, object] = {"run_id": self.id, "skill": self.skill_id, "skill_name": self.skill_name}
        for name in names:
            value = getattr(self, name)
            shape[name] = _text(value) if name in _TIMES else [dict(item) for item in value] if name in _MAPPED else value
        shape.pop("error_message")
        return shape | {
            "error": self._error(),
            "warnings": list(self.warnings),
            "steps": [step.to_dict() for step in self.steps],
            "attempts": [attempt.to_dict() for attempt in self.attempts],
        }

    def _error(self) -> dict[str, str | None] | None:
        return {"code": self.error_code, "message": self.error_message} if self.error_code else None


def _text(moment: datetime | None) -> str | None:
    return None if moment is None else utc_text(moment)
