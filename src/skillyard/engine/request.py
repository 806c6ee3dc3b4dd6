"""What a worker is told about a run: written by who hands it over, read by who takes it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from skillyard.engine.plain import plain
from skillyard.errors import InvalidInput
from skillyard.execution import without_credentials

if TYPE_CHECKING:
    from skillyard.engine.call import RunCall

__all__ = ["LONGEST_MS", "Request", "read_request", "write_request"]

LONGEST_MS: Final = 600_000
"""No run may take longer, wherever it works."""

_KINDS: Final = {"skill": str, "digest": str, "parameters": dict, "context": dict, "timeout_ms": int}


@dataclass(frozen=True, slots=True)
class Request:
    """A run that was handed over: the skill by its id and the digest of its content, and with what it is called."""

    skill: str
    digest: str
    parameters: Mapping[str, object]
    context: Mapping[str, object]
    entry: str | None
    timeout_ms: int
    warnings: tuple[str, ...]


def write_request(call: RunCall, *, timeout_ms: int) -> str:
    """The request as text that any database takes; what may be a credential in the context stays behind.

    Raises:
        InvalidInput: the parameters are no JSON.
    """
    context, warnings = without_credentials(call.context)
    request = {
        "skill": call.skill.id,
        "digest": call.digest,
        "parameters": call.parameters,
        "context": context,
        "entry": call.entry,
        "timeout_ms": timeout_ms,
        "warnings": warnings,
    }
    try:
        return json.dumps(request, allow_nan=False, default=plain)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"the parameters cannot be written as JSON: {error}", hint="give plain JSON values") from None


def read_request(text: str) -> Request:
    """The request that `write_request` wrote.

    Raises:
        InvalidInput: it is none; a caller of another version may have written it.
    """
    try:
        values = json.loads(text)
        if not all(isinstance(values[name], kind) for name, kind in _KINDS.items()):
            raise TypeError("it does not say what to run")
        if not isinstance(values.get("entry"), str | None) or not 0 < values["timeout_ms"] <= LONGEST_MS:
            raise ValueError("it runs nothing, or for longer than anything may")
        return Request(**values | {"warnings": tuple(map(str, values["warnings"]))})
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise InvalidInput(
            f"what a worker is told about this run cannot be read: {type(error).__name__}: {error}",
            hint="let callers and workers have the same version of skillyard",
        ) from None
