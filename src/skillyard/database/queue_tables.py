"""The tables of runs that wait: what is on its way to a worker, attempts that failed, and when runs come due."""

from __future__ import annotations

from typing import Final

from sqlalchemy import JSON, Boolean, CheckConstraint, Column, ForeignKey, Index, Integer, Table, true

from skillyard.database.columns import Instant, SafeText
from skillyard.database.tables import METADATA

__all__ = ["attempts", "handovers", "schedules"]

handovers: Final = Table(  # a run on its way to a worker: gone when the worker has done everything about it
    "handovers",
    METADATA,
    Column("run_id", SafeText, ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
    Column("pool", SafeText, nullable=False),
    Column("request", SafeText),  # what to run, with its parameters in full
    Column("priority", Integer, nullable=False, server_default="0"),
    Column("attempts", Integer, nullable=False, server_default="1"),  # so many at most, all in all
    Column("waiting", Boolean, nullable=False, server_default=true()),  # for a worker
    Column("ready_at", Instant),  # not before this; null is at once
    Column("told_at", Instant),  # when it was told so: a clock that shows less has been set back
    Index(None, "pool"),
    Index(None, "pool", "waiting", "priority"),
)

attempts: Final = Table(  # those of a run that were not its last
    "attempts",
    METADATA,
    Column("run_id", SafeText, ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("owner", SafeText, nullable=False),
    Column("error_code", SafeText, nullable=False),
    Column("error_message", SafeText),
    Column("started_at", Instant),
    Column("finished_at", Instant, nullable=False),
)

schedules: Final = Table(
    "schedules",
    METADATA,
    Column("name", SafeText, primary_key=True),
    Column("skill", SafeText, nullable=False),
    Column("parameters", JSON(none_as_null=True), nullable=False),
    Column("context", JSON(none_as_null=True), nullable=False),
    Column("cron", SafeText),  # null: once, at next_at
    Column("time_zone", SafeText, nullable=False),
    Column("missed", SafeText, nullable=False),
    Column("priority", Integer, nullable=False),
    Column("digest", SafeText),  # nothing runs but that content
    Column("paused", Boolean, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("next_at", Instant),  # null: never again
    Column("last_at", Instant),
    Column("last_run", SafeText),
    Column("made_by", SafeText),
    Column("key_id", SafeText),  # the API key it was made with; null: at this machine
    Column("held", SafeText),  # why it begins nothing any more
    CheckConstraint("missed IN ('skip', 'once', 'all')", name="missed"),
    Index(None, "next_at"),
)
