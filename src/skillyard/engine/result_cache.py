"""The cache of results: under which key and for how long a result is kept, and a kept result as a run of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from skillyard.engine.run_record import recorded_format, recorded_limits
from skillyard.errors import SkillyardError
from skillyard.execution import Run, cache_seconds, result_cache_key

if TYPE_CHECKING:
    from skillyard.catalog import Skill
    from skillyard.engine.run_record import RunRecord
    from skillyard.execution import RunRequest


@dataclass(frozen=True, slots=True)
class CachePolicy:
    """That a result may be kept `seconds` under `key`, when it comes of exactly the content `digest`."""

    key: str
    seconds: int
    digest: str


def cache_policy_of(request: RunRequest) -> CachePolicy | None:
    """How the result of this run is cached, None when it is not; a skill that cannot be read is for the run to report."""
    try:
        seconds = cache_seconds(request.skill)
        if not seconds:
            return None
        content = request.digest or request.skill.digest()
        key = result_cache_key(request, content)
    except (SkillyardError, OSError):
        return None
    return None if key is None else CachePolicy(key, seconds, content)


def remaining_cache_seconds(cache_policy: CachePolicy, skill: Skill) -> int:
    """How many seconds the result may be kept now that the run has ended; 0 when the skill has changed meanwhile."""
    try:
        same = skill.digest() == cache_policy.digest
    except (SkillyardError, OSError):
        return 0
    return cache_policy.seconds if same else 0


def run_from_cache(record: RunRecord, run_id: str, skill_id: str) -> Run:
    """A kept result as the run `run_id`, with the steps, limits and sandbox it came of.

    Nothing was started for it, no tokens were used, and nothing is to be remembered once more.
    """
    return Run(
        run_id=run_id,
        skill_id=skill_id,
        status="ok",
        output=record.output,
        format=recorded_format(record),
        message=record.message,
        steps=record.steps,
        limits=recorded_limits(record),
        isolation=record.isolation or "none",
        warnings=record.warnings,
        cache_hit=True,
    )
