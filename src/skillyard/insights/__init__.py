"""Insights: usage of skills, by day: offered, loaded, followed, run, how it ended, how long it took, what it cost.

`Insights(database).report(by="skill")`. Runs, turns and the usage of skills are added up once, into rows by day; a report adds
those rows. `run_timeline` and `turn_timeline` say where the time of one run or turn went. Nothing is recorded here that is not
in the records already.
"""

from __future__ import annotations

from skillyard.insights.report import (
    DIMENSIONS,
    Dimension,
    InsightReport,
    InsightRow,
    Insights,
    InsightSettings,
    ModelPrice,
    UsageFigures,
    UsagePeriod,
    period_starts,
)
from skillyard.insights.timeline import Timeline, TimelineSpan, run_timeline, runs_of, turn_timeline
from skillyard.insights.totals import BUCKET_BOUNDS_MS, USED_DAYS, SkillUse, count_usage, read_uses

__all__ = [
    "BUCKET_BOUNDS_MS",
    "DIMENSIONS",
    "USED_DAYS",
    "Dimension",
    "InsightReport",
    "InsightRow",
    "InsightSettings",
    "Insights",
    "ModelPrice",
    "SkillUse",
    "Timeline",
    "TimelineSpan",
    "UsageFigures",
    "UsagePeriod",
    "count_usage",
    "period_starts",
    "read_uses",
    "run_timeline",
    "runs_of",
    "turn_timeline",
]
