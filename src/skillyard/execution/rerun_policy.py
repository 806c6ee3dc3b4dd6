"""What a skill declares about running again: retries, idempotent steps, and how long a result may be cached.

::

    config:
      retry: {attempts: 3, backoff: 2}
      idempotentSteps: [download, count]

Without a declaration nothing is tried again and no result is cached; of a kind that only reads (`static`, and a `service` that
is called by GET or HEAD) a run may start again when the process that executed it has ended.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from skillyard.errors import SkillyardError
from skillyard.execution.skill_call import with_defaults

if TYPE_CHECKING:
    from skillyard.catalog import Skill
    from skillyard.execution.run import Run, StepTrace
    from skillyard.execution.skill_call import RunRequest


_MOST: Final = 10
_LONGEST_S: Final = 3600.0
_READING: Final = ("GET", "HEAD")
_MAY_PASS: Final = ("error", "timeout", "killed")
_STAYS: Final = ("VALIDATION_FAILED", "COMPILATION_ERROR", "DEPENDENCY_RESOLUTION_ERROR", "kind_unavailable")


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """At most `attempts` all in all; with `failures` also when the skill has failed, not only when its process has ended.

    The second attempt waits `backoff_s` seconds, each later one twice as long as the one before. Steps named in `steps` that
    have ended well are not done again (None: none, an empty set: every step).
    """

    attempts: int = 1
    backoff_s: float = 1.0
    failures: bool = False
    steps: frozenset[str] | None = None

    def wait_s(self, run: Run, attempt: int) -> float | None:
        """How long the next attempt waits after the attempt of that number came to this; None when there is none."""
        if run.ok or not self.failures or attempt >= self.attempts or run.status not in _MAY_PASS:
            return None
        if run.error is not None and run.error.code in _STAYS:
            return None
        return min(self.backoff_s * float(2 ** min(attempt - 1, 20)), _LONGEST_S)

    def finished(self, steps: tuple[StepTrace, ...]) -> tuple[StepTrace, ...]:
        """Those of the steps that need not be done again."""
        if self.steps is None:
            return ()
        return tuple(step for step in steps if not step.error and (not self.steps or self._names(step)))

    def _names(self, step: StepTrace) -> bool:
        return self.steps is not None and bool(self.steps & {step.step_name, step.step_id})


ONCE: Final = RetryPolicy()


def retry_policy(skill: Skill) -> RetryPolicy:
    """What the skill declares; what is not valid counts as not declared."""
    try:
        config = skill.document().metadata.config
    except (SkillyardError, OSError):
        return ONCE
    steps = _steps(config.get("idempotentSteps", config.get("idempotent_steps")))
    declared = config.get("retry")
    if isinstance(declared, Mapping) and (attempts := _number(declared.get("attempts"), 1, _MOST)):
        backoff = _number(declared.get("backoff", 1), 0, _LONGEST_S)
        return RetryPolicy(int(attempts), 1.0 if backoff is None else backoff, failures=True, steps=steps)
    return RetryPolicy(3, steps=steps) if _only_reads(skill.kind, config) else ONCE


def _only_reads(kind: str, config: Mapping[str, object]) -> bool:
    return kind == "static" or (kind == "service" and str(config.get("method", "")).upper() in _READING)


def _number(value: object, least: float, most: float) -> float | None:
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        return None
    return float(value)


def _steps(value: object) -> frozenset[str] | None:
    if value is True or value == "true":
        return frozenset()
    if isinstance(value, list) and value:
        return frozenset(str(name) for name in value)
    return None


_LONGEST: Final = 30 * 24 * 3600
_PASSING: Final = frozenset(
    {"callId", "conversationId", "messageId", "requestId", "runId", "sessionId", "spanId", "timestamp", "traceId"}
)


def cache_seconds(skill: Skill) -> int:
    """How many seconds a result of the skill may be kept; 0 for not at all, 30 days at most.

    Nothing is kept of a `preprocessor`, of a skill that declares neither `cacheable` nor `ttl`, says `cacheable: false`, or
    declares a `ttl` that is not above 0.
    """
    metadata = skill.document().metadata
    declares = not {"cacheable", "ttl"}.isdisjoint(metadata.declared)
    if skill.kind == "preprocessor" or not declares or not metadata.cacheable:
        return 0
    return max(0, min(metadata.ttl, _LONGEST))


def result_cache_key(request: RunRequest, digest: str) -> str | None:
    """`sha256:…` over everything a result depends on; None when that cannot be written as JSON.

    That is the skill's id and content `digest`, the requested entry, the parameters with the defaults of the schema,
    and the context but for what changes with every call: ids of sessions, conversations, messages, calls, requests, runs and
    traces, and the time. Whoever's result it is (`userId`, `householdId`, …) is part of the key, so nobody is given another's.
    """
    parameters = with_defaults(request.skill.document().metadata.input_schema, request.parameters)
    context = {name: value for name, value in request.context.items() if name not in _PASSING}
    try:
        text = json.dumps([request.skill.id, digest, request.entry, parameters, context], sort_keys=True, allow_nan=False)
    except (TypeError, ValueError):
        return None
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"
