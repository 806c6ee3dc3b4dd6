"""The outcome of a skill: a plain value, or an object with fields of its own (`output`, `status`, `message`, …).

An outcome that says `status: error` is an error, however well the process ended.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, get_args

from skillyard.execution.run import Format, TokenUsage

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
