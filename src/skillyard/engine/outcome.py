"""A run as its caller gets it, from the record that whoever carried it has left."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, get_args

from skillyard import errors
from skillyard.errors import ExecutionProblem, SkillyardError
from skillyard.execution import Format, MemoryWrite, Run, RunError
from skillyard.sandbox import Contact, Limit, Status

if TYPE_CHECKING:
    from skillyard.engine.record import RunRecord

__all__ = ["format_of", "limit_of", "run_of"]

_STOPPED: Final = ("cancelled", "interrupted")
_CODES: Final = {
    error.code: error
    for error in vars(errors).values()
    if isinstance(error, type) and issubclass(error, SkillyardError) and error is not SkillyardError
}


def run_of(record: RunRecord) -> Run:
    """What became of a run that has ended.

    Raises:
        SkillyardError: it could not be started; of the same kind as where it was tried.
    """
    error = RunError(record.error_code, record.error_message or "") if record.error_code else None
    status: Status | None = next((known for known in get_args(Status) if known == record.status), None)
    if status is None:
        if (
            record.state not in _STOPPED
            and error is not None
            and error.code not in ("RECORD_INCOMPLETE", "RESOURCE_LIMIT_ERROR")
        ):
            raise _raised(error, record.id)
        status = "timeout" if error and error.code == "RESOURCE_LIMIT_ERROR" else "killed"
    return Run(
        run_id=record.id,
        skill_id=record.skill_id,
        status=status,
        output=record.output,
        error=error,
        steps=record.steps,
        memory_writes=tuple(_memory_write(shape) for shape in record.memory_writes),
        limits=tuple(limit_of(shape) for shape in record.limits),
        isolation=record.isolation or "none",
        stdout=record.stdout,
        stderr=record.stderr,
        warnings=record.warnings,
        duration_ms=record.duration_ms or 0,
        format=format_of(record),
        message=record.message,
        token_usage=record.token_usage,
        interpreter=record.interpreter,
        contacts=tuple(_contact(shape) for shape in record.contacts),
        kind=record.ran_as,
    )


def format_of(record: RunRecord) -> Format:
    """The format of a recorded output; `object` when it is none that is known."""
    return next((known for known in get_args(Format) if known == record.format), "object")


def limit_of(shape: Mapping[str, object]) -> Limit:
    """A limit from its plain data."""
    return Limit(str(shape.get("name")), shape.get("value"), shape.get("enforced") is True, str(shape.get("by")))


def _raised(error: RunError, run_id: str) -> SkillyardError:
    kind = _CODES.get(error.code, ExecutionProblem)
    return kind(error.message, hint=f"the worker said so; `skillyard runs show {run_id}` has its record", run_id=run_id)


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


def _contact(shape: Mapping[str, Any]) -> Contact:
    return Contact(**shape)
