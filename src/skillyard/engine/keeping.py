"""Results that are kept: looked up before a run, and given as a run of their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from skillyard.engine.outcome import format_of, limit_of
from skillyard.errors import SkillyardError
from skillyard.execution import Run, keep_seconds, result_key

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skillyard.catalog import Skill
    from skillyard.engine.record import RunRecord

__all__ = ["Keeping", "as_run", "keeping_of", "still_keeps"]


@dataclass(frozen=True, slots=True)
class Keeping:
    """That a result may be kept `seconds` under `key`, when it comes of exactly the content `digest`."""

    key: str
    seconds: int
    digest: str


def keeping_of(
    skill: Skill,
    parameters: Mapping[str, object],
    *,
    context: Mapping[str, object],
    entry: str | None,
    digest: str | None,
) -> Keeping | None:
    """How the result of this run is kept, None when it is not; a skill that cannot be read is for the run to complain about."""
    try:
        seconds = keep_seconds(skill)
        if not seconds:
            return None
        content = digest or skill.digest()
        key = result_key(skill, content, parameters, context=context, entry=entry)
    except (SkillyardError, OSError):
        return None
    return None if key is None else Keeping(key, seconds, content)


def still_keeps(keeping: Keeping, skill: Skill) -> int:
    """How many seconds the result may be kept now that the run has ended; 0 when the skill has changed meanwhile."""
    try:
        same = skill.digest() == keeping.digest
    except (SkillyardError, OSError):
        return 0
    return keeping.seconds if same else 0


def as_run(record: RunRecord, run_id: str, skill_id: str) -> Run:
    """A kept result as the run `run_id`, with the steps, limits and sandbox it came of.

    Nothing was started for it, no tokens were used, and nothing is to be remembered once more (D-18).
    """
    return Run(
        run_id=run_id,
        skill_id=skill_id,
        status="ok",
        output=record.output,
        format=format_of(record),
        message=record.message,
        steps=record.steps,
        limits=tuple(limit_of(shape) for shape in record.limits),
        isolation=record.isolation or "none",
        warnings=record.warnings,
        cache_hit=True,
    )
