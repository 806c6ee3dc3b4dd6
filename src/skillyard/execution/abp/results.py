"""The result of a run in the form of each protocol (VCP and ABP), and as text for a model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from skillyard.execution.run import MemoryWrite, Run


_RESULT: Final = {"id", "tool", "result"}


def vcp_result(run: Run) -> dict[str, object]:
    """The run as `{"output", "memoryWrites"?, "intermediateSteps"?}`; importance is a whole number from 1 to 5.

    A run that failed has `{"status": "error", "message"}` besides, which reads as a failure wherever an outcome is read.
    """
    shape: dict[str, object] = {"output": run.output}
    if run.error is not None:
        shape |= {"status": "error", "message": run.error.message}
    if run.memory_writes:
        shape["memoryWrites"] = [
            _memory_form(write, max(1, round(write.normalized_importance * 5)), owner=True) for write in run.memory_writes
        ]
    if run.steps:
        shape["intermediateSteps"] = [step.to_dict() for step in run.steps]
    return shape


def abp_result(run: Run, *, call_id: str, tool: str) -> dict[str, object]:
    """The run as `{"id", "tool", "result": {"output", "memoryWrites"?}}`; importance is a number from 0 to 1.

    A run that failed has `"error": {"code", "message"}` instead of `result`.
    """
    shape: dict[str, object] = {"id": call_id, "tool": tool}
    if run.error is not None:
        return shape | {"error": run.error.to_dict()}
    result: dict[str, object] = {"output": run.output}
    if run.memory_writes:
        result["memoryWrites"] = [_memory_form(write, write.normalized_importance, owner=False) for write in run.memory_writes]
    return shape | {"result": result}


def unwrapped(answer: object) -> object:
    """What is inside `answer` when it is a result of this form, so that a skill may answer in it too; else `answer` itself."""
    if not isinstance(answer, Mapping) or not answer.keys() <= _RESULT:
        return answer
    result = answer.get("result")
    return result if isinstance(result, Mapping) and "output" in result else answer


def result_text(result: Mapping[str, object]) -> str:
    r"""A result of either form as text for a model: readable JSON, or `Tool execution failed: …`.

    It never contains `[[`: inside JSON it is written `\u005b[`, so that no output can end a block or begin one.
    """
    error = result.get("error")
    if isinstance(error, Mapping):
        return _harmless(f"Tool execution failed: {error.get('message') or error.get('code')}", plain=True)
    if result.get("status") == "error":
        return _harmless(f"Tool execution failed: {result.get('message')}", plain=True)
    return _harmless(json.dumps(result, ensure_ascii=False, indent=2, default=str))


def _harmless(text: str, *, plain: bool = False) -> str:
    while "[[" in text:
        text = text.replace("[[", "[ [" if plain else "\\u005b[")
    return text


def _memory_form(write: MemoryWrite, importance: float, *, owner: bool) -> dict[str, object]:
    """A suggestion with its importance on the scale of the protocol, and the owner it is for."""
    left_out = {"normalizedImportance"} if owner else {"normalizedImportance", "ownerType", "ownerId"}
    shape = write.to_dict() | {"importance": importance}
    return {name: value for name, value in shape.items() if name not in left_out}
