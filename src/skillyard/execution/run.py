"""The record of one execution of a skill: its output, error, steps and memory writes; and its result for each protocol.

Steps and memory writes are what the skill says; each entry is checked here, and a bad one is dropped with a warning. An outcome
is a plain value or an object with fields of its own: `output`, `status` and `message`. One that says `status: error` is an
error, however well the process ended. VCP and ABP have forms of their own for a result, a model gets it as text.
"""

from __future__ import annotations

import json
import math
import os
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, get_args

from skillyard.execution.run_inputs import WorkFile
from skillyard.network import Contact
from skillyard.sandbox import Limit, Status
from skillyard.wire import WireForm, wire

MOST_STEPS: Final = 500
LONGEST_MS: Final = 10**12
_SLOW_MS: Final = 1_000
_HIDDEN: Final = wire(hidden=True)
_IF_GIVEN: Final = wire(omit_none=True)  # an empty text is one that the skill gave
_PLAIN: Final = wire(write=lambda value: value)  # it is JSON already, and may be large


@dataclass(frozen=True, slots=True)
class StepTrace(WireForm, camel_case=True):
    """One step: what went in, what came out, how long it took (`duration`, milliseconds) and why it failed."""

    step_id: str
    step_name: str
    input: object = field(default=None, metadata=_PLAIN)
    output: Any = field(default=None, metadata=_PLAIN)
    duration: float = 0.0
    error: object = field(default=None, metadata=_IF_GIVEN)
    timestamp: object = field(default=None, metadata=_IF_GIVEN)


def read_steps(value: object) -> tuple[tuple[StepTrace, ...], tuple[str, ...]]:
    """The steps in `intermediateSteps` and a warning for each entry that is none, for failed steps and for slow runs."""
    if value is None:
        return (), ()
    if not isinstance(value, list):
        return (), ("intermediateSteps is not a list and was dropped",)
    steps: list[StepTrace] = []
    warnings: list[str] = []
    for index, item in enumerate(value[:MOST_STEPS]):
        if isinstance(item, Mapping):
            steps.append(_step(item, index))
        else:
            warnings.append(f"intermediateSteps[{index}] is not an object and was dropped")
    if len(value) > MOST_STEPS:
        warnings.append(f"only the first {MOST_STEPS} of {len(value)} steps were kept")
    return tuple(steps), (*warnings, *_remarks(steps))


def _step(item: Mapping[str, object], index: int) -> StepTrace:
    step_id = item.get("stepId", item.get("step_id", item.get("id"))) or f"step-{index + 1}"
    name = item.get("stepName", item.get("step_name", item.get("name"))) or step_id
    duration = item.get("duration", item.get("duration_ms", 0))
    return StepTrace(
        step_id=str(step_id),
        step_name=str(name),
        input=item.get("input"),
        output=item.get("output"),
        duration=_duration(duration),
        error=item.get("error"),
        timestamp=item.get("timestamp"),
    )


def _duration(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return 0.0
    return value if 0 <= value <= LONGEST_MS else 0.0


def _remarks(steps: list[StepTrace]) -> list[str]:
    failed = [step.step_name for step in steps if step.error]
    total = sum(step.duration for step in steps)
    remarks = [f"steps with an error: {', '.join(failed)}"] if failed else []
    return [*remarks, f"the steps took {total:.0f} ms together"] if total > _SLOW_MS else remarks


_OWNER_TYPES: Final = ("user", "household", "task", "group")
_TYPES: Final = ("preference", "fact", "event", "summary")
_CONTEXT_KEYS: Final = {"user": "userId", "household": "householdId", "task": "taskId", "group": "groupId"}
MOST_WRITES: Final = 100


@dataclass(frozen=True, slots=True)
class MemoryWrite(WireForm, camel_case=True):
    """One suggestion; `importance` as the skill gave it, `normalized_importance` from 0 to 1."""

    owner_type: str
    owner_id: str
    type: str
    importance: float
    normalized_importance: float
    content: str
    metadata: Mapping[str, object] = field(default_factory=dict, hash=False)


class _Refused(ValueError):
    """Why a suggestion cannot be kept."""


def read_memory_writes(
    value: object, *, protocol: str, context: Mapping[str, object]
) -> tuple[tuple[MemoryWrite, ...], tuple[str, ...]]:
    """The good suggestions in `memoryWrites`, and a warning with the reason for each that was dropped.

    The scale of `importance` follows the skill's protocol, never the number itself: `vcp` from 1 to 5, `abp` from 0
    to 1. An owner that the context knows differently is refused; an `abp` suggestion without owner is the context user's.
    """
    if value is None:
        return (), ()
    if not isinstance(value, list):
        return (), ("memoryWrites is not a list and was dropped",)
    writes: list[MemoryWrite] = []
    warnings: list[str] = []
    for index, item in enumerate(value[:MOST_WRITES]):
        try:
            writes.append(_write(item, protocol, context))
        except _Refused as reason:
            warnings.append(f"memoryWrites[{index}] was dropped: {reason}")
    if len(value) > MOST_WRITES:
        warnings.append(f"only the first {MOST_WRITES} of {len(value)} memory writes were read")
    return tuple(writes), tuple(warnings)


def _write(item: object, protocol: str, context: Mapping[str, object]) -> MemoryWrite:
    if not isinstance(item, Mapping):
        raise _Refused("it is not an object")
    owner_type, owner_id = _owner(item, protocol, context)
    importance = item.get("importance")
    metadata = item.get("metadata") or {}
    if not isinstance(metadata, Mapping):
        raise _Refused("metadata is not an object")
    return MemoryWrite(
        owner_type=owner_type,
        owner_id=owner_id,
        type=_choice(item.get("type"), _TYPES, "type"),
        importance=_number(importance),
        normalized_importance=_normalized(_number(importance), protocol),
        content=_text(item.get("content"), "content"),
        metadata=metadata,
    )


def _owner(item: Mapping[str, object], protocol: str, context: Mapping[str, object]) -> tuple[str, str]:
    owner_type = item.get("ownerType", item.get("owner_type"))
    owner_id = item.get("ownerId", item.get("owner_id"))
    if protocol == "abp" and not owner_type and not owner_id:
        if not context.get("userId"):
            raise _Refused("it names no owner and the run has no user")
        owner_type, owner_id = "user", context["userId"]
    kind, name = _choice(owner_type, _OWNER_TYPES, "ownerType"), _text(owner_id, "ownerId")
    owner = context.get(_CONTEXT_KEYS[kind])
    if owner is not None and str(owner) != name:
        raise _Refused(f"its {kind} is not the one of this run")
    return kind, name


def _choice(value: object, choices: tuple[str, ...], name: str) -> str:
    if value not in choices:
        raise _Refused(f"{name} must be one of {', '.join(choices)}")
    return str(value)


def _text(value: object, name: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise _Refused(f"{name} is missing")
    return value


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < math.inf:
        raise _Refused("importance must be a number")
    return value


def _normalized(importance: float, protocol: str) -> float:
    least, most, scale = (0, 1, 1) if protocol == "abp" else (1, 5, 5)
    if not least <= importance <= most:
        raise _Refused(f"importance must be from {least} to {most}")
    return importance / scale


Format = Literal["object", "text", "binary", "void", "primitive"]
TokenUsage = float | Mapping[str, object]
"""What a skill says it spent on models: one number of tokens, or numbers by kind."""


@dataclass(frozen=True, slots=True)
class RunError(WireForm):
    """Why a run did not succeed: a stable code and a sentence."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Run(WireForm):
    """The record of one execution; its plain data is the same at every interface.

    `output` is plain JSON data; strings in it and in the logs come from the skill and are not yet made safe to show.
    `isolation` names the sandbox backend, `none` when nothing was started. `contacts` has the hosts it requested, `files`
    what it wrote into the folder it worked in: into the folder of the caller, or else what is in `made`. `exit_code` is that of
    its process, `memory_usage` the most bytes of memory it used at once; both are None where nobody knows. With `cache_hit` it
    is a cached result, with the steps, limits and sandbox of the run that made it.
    """

    run_id: str
    skill_id: str = field(metadata=_HIDDEN)
    status: Status
    output: Any = field(default=None, metadata=_PLAIN)
    error: RunError | None = None
    steps: tuple[StepTrace, ...] = ()
    memory_writes: tuple[MemoryWrite, ...] = ()
    limits: tuple[Limit, ...] = ()
    isolation: str = "none"
    stdout: str = field(default="", metadata=_HIDDEN)
    stderr: str = field(default="", metadata=_HIDDEN)
    warnings: tuple[str, ...] = ()
    duration_ms: int = 0
    format: Format = "void"
    message: str | None = None
    token_usage: TokenUsage | None = field(default=None, hash=False, metadata=_PLAIN)
    interpreter: str | None = None
    contacts: tuple[Contact, ...] = ()
    cache_hit: bool = False
    files: tuple[str, ...] = ()
    exit_code: int | None = None
    memory_usage: int | None = None
    made: tuple[WorkFile, ...] = field(default=(), repr=False, compare=False, metadata=_HIDDEN)
    kind: str | None = field(default=None, metadata=wire(name="ran_as"))
    """How it was run in the end: the skill's own kind, or its fallback; None when nothing was."""

    @property
    def ok(self) -> bool:
        """Whether the skill succeeded."""
        return self.status == "ok"

    @property
    def verdict(self) -> str:
        """How it ended in a few words for people: the status, how long it took, and where."""
        return verdict(
            self.status, isolation=self.isolation, kind=self.kind, duration_ms=self.duration_ms, cached=self.cache_hit
        )


def verdict(status: str, *, isolation: str | None, kind: str | None, duration_ms: int | None, cached: bool) -> str:
    """How a run with that status ended: `ok after 12 ms in bwrap`, `ok after 80 ms, asked over HTTP`."""
    if cached:
        return f"{status}, a cached result"
    took = f"{status} after {duration_ms or 0:,} ms"
    if isolation not in (None, "none"):
        return f"{took} in {isolation}"
    if kind in _ASKED and status not in ("denied", "unavailable"):
        return f"{took}, {_ASKED[kind]}"
    return f"{status}, nothing was started"


_ASKED: Final = {
    "service": "asked over HTTP",
    "distributed": "asked of an MCP server",
    "static": "read from a file of the skill",
}
_lock = threading.Lock()
_last = 0


def new_id(prefix: str) -> str:
    """A unique id that sorts by time: the prefix, `_`, 16 hex digits of the clock, 10 random ones."""
    global _last  # the clock may stand still or step back; ids must not
    with _lock:
        _last = max(time.time_ns(), _last + 1)
        return f"{prefix}_{_last:016x}{os.urandom(5).hex()}"


def new_run_id() -> str:
    """The id of a new run."""
    return new_id("run")


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
