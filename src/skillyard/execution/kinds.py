"""The kinds of skills, and what stands in for one that cannot be used here (document 000, section 2.1).

A kind only gives way while nothing has run: it is not set up, or nobody answers. What ran and failed has failed (defect D-17),
and what a policy refuses stays refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from skillyard.errors import SkillyardError
from skillyard.execution.outcome import Outcome
from skillyard.execution.run import RunError
from skillyard.sandbox import Status

__all__ = ["Answer", "KindUnavailable", "chain", "failed", "fallback_warning", "unavailable_message"]

_FALLBACKS: Final[Mapping[str, tuple[str, ...]]] = {
    "service": ("direct", "internal"),
    "distributed": ("service", "direct"),
    "direct": ("internal",),
    "preprocessor": ("internal",),
    "static": ("direct",),
    "internal": (),
}
# These run the skill's own script; after one of them the others would only do the same again.
_SCRIPTS: Final = ("direct", "preprocessor", "internal")


class KindUnavailable(Exception):
    """A kind cannot be used here and nothing of it has run; `error` is what to raise when nothing stands in."""

    def __init__(self, kind: str, reason: str, *, error: SkillyardError | None = None) -> None:
        super().__init__(reason)
        self.kind = kind
        self.reason = reason
        self.error = error


@dataclass(frozen=True, slots=True)
class Answer:
    """What a kind that runs outside the sandbox came to: an outcome, or an error with the output it left."""

    outcome: Outcome
    status: Status = "ok"
    error: RunError | None = None
    warnings: tuple[str, ...] = ()


def failed(code: str, message: str, *, status: Status = "error", outcome: Outcome | None = None) -> Answer:
    """An answer that is a failure."""
    return Answer(outcome or Outcome(None, "void"), status, RunError(code, message))


def chain(kind: str) -> tuple[str, ...]:
    """The kind and those that stand in for it, in the order they are tried; none comes twice."""
    order: list[str] = []
    waiting = [kind if kind in _FALLBACKS else "direct"]
    while waiting:
        name = waiting.pop(0)
        same = _SCRIPTS if name in _SCRIPTS else (name,)
        if not any(known in order for known in same):
            order.append(name)
            waiting = [*_FALLBACKS[name], *waiting]
    return tuple(order)


def fallback_warning(first: KindUnavailable, used: str) -> str:
    """What a run says that another kind did the work."""
    return f"the kind {first.kind} is unavailable ({first.reason}); {used} was used in its place"


def unavailable_message(reasons: Sequence[KindUnavailable]) -> str:
    """Why a skill of a kind cannot be run, with what keeps the others from standing in."""
    first, *others = reasons
    more = "".join(f"; as {other.kind}: {other.reason}" for other in others)
    return f"this {first.kind} skill cannot be run here: {first.reason}{more}"
