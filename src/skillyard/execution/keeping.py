"""Which results may be kept and given again, for how long, and under which key (row 000-22, C-24, defect D-35).

A result is only kept for a skill that declares `cacheable` or `ttl` itself: most skills on disk never heard of a result cache,
and what they do (send, write, look at the clock) must happen each time they are run.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from skillyard.execution.schema import with_defaults

if TYPE_CHECKING:
    from skillyard.catalog import Skill

__all__ = ["keep_seconds", "result_key"]

_LONGEST: Final = 30 * 24 * 3600
_PASSING: Final = frozenset(
    {"callId", "conversationId", "messageId", "requestId", "runId", "sessionId", "spanId", "timestamp", "traceId"}
)


def keep_seconds(skill: Skill) -> int:
    """How many seconds a result of the skill may be kept; 0 for not at all, 30 days at most.

    Nothing is kept of a `preprocessor`, of a skill that declares neither `cacheable` nor `ttl`, says `cacheable: false`, or
    declares a `ttl` that is not above 0.
    """
    metadata = skill.document().metadata
    declares = not {"cacheable", "ttl"}.isdisjoint(metadata.declared)
    if skill.kind == "preprocessor" or not declares or not metadata.cacheable:
        return 0
    return max(0, min(metadata.ttl, _LONGEST))


def result_key(
    skill: Skill, digest: str, parameters: Mapping[str, object], *, context: Mapping[str, object], entry: str | None
) -> str | None:
    """`sha256:…` over everything a result depends on; None when that cannot be written as JSON.

    That is the skill's id and content digest, the entry that was asked for, the parameters with the defaults of the schema, and
    the context but for what changes with every call: ids of sessions, conversations, messages, calls, requests, runs and
    traces, and the time. Whoever's result it is (`userId`, `householdId`, …) is part of the key, so nobody is given another's.
    """
    filled = with_defaults(skill.document().metadata.input_schema, parameters)
    lasting = {name: value for name, value in context.items() if name not in _PASSING}
    try:
        said = json.dumps([skill.id, digest, entry, filled, lasting], sort_keys=True, allow_nan=False)
    except (TypeError, ValueError):
        return None
    return f"sha256:{hashlib.sha256(said.encode()).hexdigest()}"
