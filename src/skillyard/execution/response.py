"""A run in the one envelope of row 000-38, for clients that expect it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from skillyard.execution.run import Run

__all__ = ["ExecutionResponse", "execution_response"]


class ExecutionResponse(TypedDict, total=False):
    """The envelope: `result` when the run succeeded, `error` when not; `warnings` only when there are some."""

    success: bool
    result: dict[str, object]
    error: dict[str, str]
    metadata: dict[str, object]
    warnings: list[str]


def execution_response(run: Run) -> ExecutionResponse:
    """The run as `{"success", "result"?, "error"?, "metadata", "warnings"?}`.

    `metadata` has `executionTime` (milliseconds), `memoryUsage` (null: it is limited and not measured), `tokenUsage`,
    `cacheHit`, `executionType` and `timestamp` (milliseconds, when it began). A text is the `message` of the result and not its
    `data`, unless the skill has a message of its own (row 000-39).
    """
    shape: ExecutionResponse = {"success": run.ok}
    if run.error is None:
        shape["result"] = _result(run)
    else:
        shape["error"] = run.error.to_dict()
    shape["metadata"] = {
        "executionTime": run.duration_ms,
        "memoryUsage": None,
        "tokenUsage": dict(run.token_usage) if isinstance(run.token_usage, Mapping) else run.token_usage,
        "cacheHit": run.cache_hit,
        "executionType": run.kind or "direct",
        "timestamp": int(run.run_id[4:20], 16) // 1_000_000,
    }
    if run.warnings:
        shape["warnings"] = list(run.warnings)
    return shape


def _result(run: Run) -> dict[str, object]:
    shape: dict[str, object] = {"status": "success", "format": run.format}
    if run.format == "text" and isinstance(run.output, str) and run.message is None:
        return shape | {"message": run.output}
    if run.format != "void":
        shape["data"] = run.output
    return shape | {"message": run.message} if run.message is not None else shape
