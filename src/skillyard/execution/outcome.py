"""The outcome of a skill, a plain value or an object with fields of its own; and a result in the form of each protocol.

An outcome that says `status: error` is an error, however well the process ended. `output`, `status` and `message` are fields of
an outcome; VCP and ABP have forms of their own for a result, a model gets it as text.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, get_args

from skillyard.execution.run import Format, TokenUsage

if TYPE_CHECKING:
    from skillyard.execution.run import MemoryWrite, Run


_ALIASES: Final[Mapping[str, str]] = {
    "token_usage": "tokenUsage",
    "memory_writes": "memoryWrites",
    "intermediate_steps": "intermediateSteps",
    "steps": "intermediateSteps",
}
_FIELDS: Final = {
    "output", "format", "status", "message", "tokenUsage", "warnings", "memoryWrites", "intermediateSteps", "error", *_ALIASES,
}  # fmt: skip
_STATUSES: Final = ("success", "error")
_FORMATS: Final[tuple[Format, ...]] = get_args(Format)


@dataclass(frozen=True, slots=True)
class SkillOutcome:
    """A skill's answer with every field filled; `memory_writes` and `steps` are still as the skill gave them."""

    output: object
    format: Format
    failed: bool = False
    message: str | None = None
    token_usage: TokenUsage | None = field(default=None, hash=False)
    warnings: tuple[str, ...] = ()
    memory_writes: object = None
    steps: object = None


def read_outcome(value: object) -> SkillOutcome:
    """The outcome in `value`; anything that is not one is the output itself.

    An object is an outcome when all its keys are an outcome's and it has `output`, or `status` with a valid value.
    """
    if not isinstance(value, Mapping) or not value.keys() <= _FIELDS:
        return SkillOutcome(value, infer_format(value))
    if "output" not in value and value.get("status") not in _STATUSES:
        return SkillOutcome(value, infer_format(value))
    fields = {_ALIASES.get(name, name): item for name, item in value.items()}
    output = fields.get("output")
    message, warnings = fields.get("message"), fields.get("warnings")
    return SkillOutcome(
        output=output,
        format=next((name for name in _FORMATS if name == fields.get("format")), infer_format(output)),
        failed=fields.get("status") == "error",
        message=str(message) if message is not None else _error_text(fields.get("error")),
        token_usage=_token_usage(fields.get("tokenUsage")),
        warnings=tuple(str(item) for item in warnings) if isinstance(warnings, list) else (),
        memory_writes=fields.get("memoryWrites"),
        steps=fields.get("intermediateSteps"),
    )


def _token_usage(usage: object) -> TokenUsage | None:
    """A number of tokens, or numbers by kind; anything else says nothing."""
    if isinstance(usage, Mapping):
        return usage
    if isinstance(usage, bool) or not isinstance(usage, (int, float)):
        return None
    return usage if 0 <= usage < math.inf else None


def _error_text(error: object) -> str | None:
    if isinstance(error, Mapping):
        return str(error.get("message") or error)
    return str(error) if error else None


def infer_format(value: object) -> Format:
    """The format of a plain value: text, primitive, object, or void when there is none."""
    if value is None:
        return "void"
    if isinstance(value, str):
        return "text"
    return "primitive" if isinstance(value, (bool, int, float)) else "object"


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
