"""What is recorded of a run and its attempts, readable by anyone who may read the records, and the `Run` that a caller gets.

The number of the current attempt is the fence that an older one cannot pass. A run that is tried again waits once more, under
the next number; the result of the attempt before is recorded. A process that still executes an older attempt, because it was
suspended or disconnected, sees another number and changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, get_args

from sqlalchemy import delete, func, insert, or_, select, update

from skillyard import errors
from skillyard.database import attempts, queued_runs, runs, steps
from skillyard.errors import ExecutionProblem, SkillyardError
from skillyard.execution import Format, MemoryWrite, Run, RunError, StepTrace
from skillyard.network import Contact
from skillyard.plain_json import REDACTED, to_redacted_json
from skillyard.sandbox import Limit, Status
from skillyard.times import utc_now
from skillyard.wire import WireForm, to_wire, wire

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Connection


RunState = Literal["queued", "running", "succeeded", "failed", "cancelled", "interrupted"]
FINAL_STATES: Final[tuple[RunState, ...]] = ("succeeded", "failed", "cancelled", "interrupted")
"""A run ends in exactly one of these; `interrupted` when the process that executed it has ended."""
FAILED_STATES: Final[tuple[RunState, ...]] = ("failed", "interrupted")
"""Those of them that nobody wanted."""

QUEUE_OWNER: Final = "queue"
"""The owner of a run that waits for any worker, whatever happens to the requesting process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFilter:
    """Which runs of the journal: of the skill with that id or name, in those states, requested by that schedule.

    `statuses` are how their processes ended; they were requested at the earliest at `since` and before `until`, by `caller`,
    by a model of `agent`, through `interface`; `version` is the one that the skill declared then. Without `tests` those that
    test or evaluate a skill are left out.
    """

    skill: str | None = None
    states: Collection[RunState] = ()
    statuses: Collection[str] = ()
    schedule: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    interface: str | None = None
    caller: str | None = None
    agent: str | None = None
    version: str | None = None
    tests: bool = True


ALL_RUNS: Final = RunFilter()


@dataclass(frozen=True, slots=True)
class Attempt(WireForm, also=("error",)):
    """One attempt at a run that was not its last: when it was made, and why there is another one."""

    number: int
    error_code: str = field(metadata=wire(hidden=True))
    error_message: str | None = field(metadata=wire(hidden=True))
    started_at: datetime | None
    finished_at: datetime

    @property
    def error(self) -> dict[str, str | None]:
        """Why it failed: `code` and `message`."""
        return {"code": self.error_code, "message": self.error_message}


@dataclass(frozen=True, slots=True)
class RunRecord(WireForm, also=("error",)):
    """One run as it is recorded.

    `state` is where it is; `status` how its process ended (`ok`, `error`, `timeout`, …). Parameters and context are recorded
    without what stands under a secret's name. `attempt` is the number of this attempt, `attempts` are those before it;
    `schedule` is the name of the schedule that requested it, `interface`, `caller` and `agent` are of its `RunOrigin` (None
    in records of older releases), and `version` is the one that its skill declares. Each of `memory_writes` has `saved`:
    whether a memory service kept it, and else why not. `arguments` and `packages` are those of the request, `files` the
    names of what the run made; `memory_usage` is in bytes. Times are UTC.
    """

    id: str = field(metadata=wire(name="run_id"))
    skill_id: str = field(metadata=wire(name="skill"))
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
    error_code: str | None = field(default=None, metadata=wire(hidden=True))
    error_message: str | None = field(default=None, metadata=wire(hidden=True))
    warnings: tuple[str, ...] = ()
    limits: tuple[Mapping[str, Any], ...] = field(default=(), hash=False)
    memory_writes: tuple[Mapping[str, object], ...] = field(default=(), hash=False)
    token_usage: Mapping[str, object] | None = field(default=None, hash=False)
    contacts: tuple[Mapping[str, Any], ...] = field(default=(), hash=False)
    ran_as: str | None = None
    """The kind that did the work in the end, as `Run.kind`."""
    isolation: str | None = None
    interpreter: str | None = None
    stdout: str = ""
    stderr: str = ""
    printed: Mapping[str, Any] | None = field(default=None, hash=False, metadata=wire(hidden=True))
    """How far each stream and the steps were published live, where that is more than the record shows."""
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
    arguments: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    exit_code: int | None = None
    memory_usage: int | None = None
    version: str | None = None
    interface: str | None = None
    caller: str | None = None
    agent: str | None = None

    @property
    def error(self) -> dict[str, str | None] | None:
        """Why it failed: `code` and `message`; None when it did not."""
        return {"code": self.error_code, "message": self.error_message} if self.error_code else None

    def summary(self) -> dict[str, object]:
        """One line of a list, as plain data."""
        return {name: to_wire(getattr(self, attribute)) for name, attribute in _SUMMARY.items()}


_SUMMARY: Final = {"run_id": "id", "skill": "skill_id"} | {
    name: name
    for name in (
        "state", "status", "error", "cache_hit", "schedule", "interface", "caller", "agent", "version", "duration_ms",
        "created_at", "finished_at",
    )
}  # fmt: skip


class FoldedRun(NamedTuple):
    """A run in a list in which one schedule has one row: its newest run, of so many `runs` and `failures` that the list holds.

    A run that no schedule requested stands for itself alone.
    """

    newest: RunRecord
    runs: int
    failures: int


_STOPPED: Final = ("cancelled", "interrupted")
_SAME_IN_RUN: Final = (
    "skill_id", "output", "steps", "stdout", "stderr", "warnings", "message", "token_usage", "interpreter", "exit_code",
    "memory_usage", "files",
)  # fmt: skip
_CODES: Final = {
    error.code: error
    for error in vars(errors).values()
    if isinstance(error, type) and issubclass(error, SkillyardError) and error is not SkillyardError
}


def run_from_record(record: RunRecord) -> Run:
    """The result of a run that has ended.

    Raises:
        SkillyardError: it could not be started; of the same kind as where it was tried.
    """
    error = RunError(record.error_code, record.error_message or "") if record.error_code else None
    status: Status | None = next((status_name for status_name in get_args(Status) if status_name == record.status), None)
    if status is None:
        if (
            record.state not in _STOPPED
            and error is not None
            and error.code not in ("RECORD_INCOMPLETE", "RESOURCE_LIMIT_ERROR")
        ):
            raise _raised(error, record.id)
        status = "timeout" if error and error.code == "RESOURCE_LIMIT_ERROR" else "killed"
    return Run(
        **{name: getattr(record, name) for name in _SAME_IN_RUN},
        run_id=record.id,
        status=status,
        error=error,
        memory_writes=tuple(_memory_write(shape) for shape in record.memory_writes),
        limits=recorded_limits(record),
        isolation=record.isolation or "none",
        duration_ms=record.duration_ms or 0,
        format=recorded_format(record),
        contacts=tuple(Contact(**shape) for shape in record.contacts),
        kind=record.ran_as,
    )


def recorded_format(record: RunRecord) -> Format:
    """The format of a recorded output; `object` when it is unknown."""
    return next((name for name in get_args(Format) if name == record.format), "object")


def recorded_limits(record: RunRecord) -> tuple[Limit, ...]:
    """The limits from their plain data."""
    return tuple(Limit(**shape) for shape in record.limits)


def _raised(error: RunError, run_id: str) -> SkillyardError:
    kind = _CODES.get(error.code, ExecutionProblem)
    return kind(error.message, hint=f"reported by the worker; `skillyard runs show {run_id}` has its record", run_id=run_id)


def _memory_write(shape: Mapping[str, Any]) -> MemoryWrite:
    return MemoryWrite(
        owner_type=str(shape["ownerType"]),
        owner_id=str(shape["ownerId"]),
        type=str(shape["type"]),
        importance=shape["importance"],
        normalized_importance=shape["normalizedImportance"],
        content=str(shape["content"]),
        metadata=shape.get("metadata") or {},
    )


IMMEDIATELY: Final = datetime(2000, 1, 1, tzinfo=UTC)
"""From when a run may start that need not wait: no clock is ever set back so far."""
_LONGEST_MS: Final = 1e12  # a skill may claim any number


def requeue(
    connection: Connection,
    run_id: str,
    attempt: int,
    error: RunError,
    *,
    finished: tuple[StepTrace, ...] = (),
    wait_s: float = 0,
) -> bool:
    """Queue the run for its next attempt, not before `wait_s` seconds; False when `attempt` is no longer the running one.

    A run in the queue of a pool waits there for any worker, every other one in its own process.
    """
    this_attempt = (runs.c.id == run_id, runs.c.state == "running", runs.c.attempt == attempt)
    before = connection.execute(select(runs.c.owner, runs.c.started_at).where(*this_attempt)).first()
    queued = update(queued_runs).where(queued_runs.c.run_id == run_id)
    if before is None:
        return False
    values: dict[str, Any] = {"state": "queued", "attempt": attempt + 1, "started_at": None}
    if connection.dialect.name == "postgresql":
        later = func.now() + timedelta(seconds=wait_s) if wait_s else IMMEDIATELY
        if connection.execute(queued.values(waiting=True, ready_at=later, queued_at=func.now())).rowcount == 1:
            values["owner"] = QUEUE_OWNER
    if connection.execute(update(runs).where(*this_attempt).values(values)).rowcount != 1:
        return False
    note = {"owner": before.owner, "started_at": before.started_at, "finished_at": utc_now()}
    failed = {"error_code": error.code, "error_message": error.message}
    connection.execute(insert(attempts).values(run_id=run_id, number=attempt, **note, **failed))
    if finished:
        connection.execute(delete(steps).where(steps.c.run_id == run_id))
        connection.execute(insert(steps), step_rows(run_id, finished))
    return True


def lock_queue_row(connection: Connection, run_id: str) -> None:
    """Lock a run's row in the queue before its row in the journal, in the same order as a worker that claims it.

    The opposite order could deadlock with such a worker.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(select(queued_runs.c.run_id).where(queued_runs.c.run_id == run_id).with_for_update())


def is_due() -> ColumnElement[bool]:
    """The condition that a queued run may start now; also when the clock was set back after it was delayed."""
    at = queued_runs.c.ready_at
    return or_(at <= func.now(), at.is_(None), queued_runs.c.queued_at > func.now())


def attempts_of(connection: Connection, run_id: str) -> tuple[Attempt, ...]:
    """The attempts at a run before the current or last one."""
    columns = [attempts.c[field.name] for field in fields(Attempt)]
    rows = connection.execute(select(*columns).where(attempts.c.run_id == run_id).order_by(attempts.c.number))
    return tuple(Attempt(**row._mapping) for row in rows)


def steps_of(connection: Connection, run_id: str) -> tuple[StepTrace, ...]:
    """The recorded steps of a run, in their order."""
    columns = [steps.c[field.name] for field in fields(StepTrace)]
    rows = connection.execute(select(*columns).where(steps.c.run_id == run_id).order_by(steps.c.position))
    return tuple(StepTrace(**row._mapping) for row in rows)


def is_reusable(step: StepTrace) -> bool:
    """Whether a recorded step is complete: values under a secret's name are redacted in the record."""
    return not step.error and not _has(step.output, REDACTED) and not _has(step.input, REDACTED)


def _has(value: object, text: str) -> bool:
    if isinstance(value, dict):
        return any(_has(inner, text) for inner in value.values())
    if isinstance(value, list):
        return any(_has(inner, text) for inner in value)
    return value == text


def step_rows(run_id: str, traced: Iterable[StepTrace]) -> list[dict[str, Any]]:
    """The rows of the steps of a run."""
    return [
        {
            "run_id": run_id,
            "position": position,
            "step_id": step.step_id,
            "step_name": step.step_name,
            "duration": float(min(step.duration, _LONGEST_MS)),
            **{name: to_redacted_json(getattr(step, name)) for name in ("input", "output", "error", "timestamp")},
        }
        for position, step in enumerate(traced)
    ]
