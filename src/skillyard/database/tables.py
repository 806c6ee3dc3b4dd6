"""The tables of runs, memories, approvals, workers and their queues, live events and conversations.

Types and constraints are those that SQLite and PostgreSQL both know. A change here needs a migration in
`migrations/versions`; a test holds the two against each other. The tables of the registry are in `registry_tables`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    UniqueConstraint,
    false,
    true,
)

from skillyard.database.dialects import Instant, SafeText

METADATA: Final = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    }
)
_STATES: Final = "state IN ('queued', 'running', 'succeeded', 'failed', 'cancelled', 'interrupted')"

runs: Final = Table(
    "runs",
    METADATA,
    Column("id", SafeText, primary_key=True),
    Column("skill_id", SafeText, nullable=False),
    Column("skill_name", SafeText, nullable=False),
    Column("kind", SafeText, nullable=False),
    Column("entry", SafeText),
    Column("digest", SafeText),
    Column("state", SafeText, nullable=False),
    Column("status", SafeText),
    Column("parameters", JSON(none_as_null=True), nullable=False),
    Column("context", JSON(none_as_null=True), nullable=False),
    Column("output", JSON(none_as_null=True)),
    Column("format", SafeText),
    Column("message", SafeText),
    Column("error_code", SafeText),
    Column("error_message", SafeText),
    Column("warnings", JSON(none_as_null=True)),
    Column("limits", JSON(none_as_null=True)),
    Column("memory_writes", JSON(none_as_null=True)),
    Column("token_usage", JSON(none_as_null=True)),
    Column("contacts", JSON(none_as_null=True)),
    Column("ran_as", SafeText),
    Column("isolation", SafeText),
    Column("interpreter", SafeText),
    Column("stdout", SafeText),
    Column("stderr", SafeText),
    Column("duration_ms", Integer),
    Column("printed", JSON(none_as_null=True)),  # how much it printed, where the record is incomplete
    Column("cache_key", SafeText),
    Column("cache_hit", Boolean, nullable=False),
    Column("cached_from", SafeText),
    Column("expires_at", Instant),
    Column("owner", SafeText, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("started_at", Instant),
    Column("finished_at", Instant),
    Column("priority", Integer, nullable=False, server_default="0"),
    Column("attempt", Integer, nullable=False, server_default="1"),  # the number of this one: who executes it shows it
    Column("schedule", SafeText),
    Column("arguments", JSON(none_as_null=True)),
    Column("packages", JSON(none_as_null=True)),
    Column("files", JSON(none_as_null=True)),  # the names of those it made
    Column("exit_code", Integer),
    Column("memory_usage", BigInteger),  # bytes
    Column("version", SafeText),  # the one that its skill declares
    Column("interface", SafeText),  # where it was asked for, by whom, by the model of which agent
    Column("caller", SafeText),
    Column("agent", SafeText),
    Column("counted", Boolean, nullable=False, server_default=false()),  # in `usage_totals`
    CheckConstraint(_STATES, name="state"),
    Index(None, "schedule", "created_at"),
    Index(None, "created_at", "id"),
    Index(None, "caller", "created_at"),
    Index(None, "agent", "created_at"),
    Index(None, "interface", "created_at"),
    Index(None, "skill_id", "created_at"),
    Index(None, "skill_name", "created_at"),
    Index(None, "status", "created_at"),
    Index(None, "state", "created_at"),
    Index(None, "cache_key", "expires_at"),
)

steps: Final = Table(
    "steps",
    METADATA,
    Column("run_id", SafeText, ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("step_id", SafeText, nullable=False),
    Column("step_name", SafeText, nullable=False),
    Column("input", JSON(none_as_null=True)),
    Column("output", JSON(none_as_null=True)),
    Column("duration", Float, nullable=False),
    Column("error", JSON(none_as_null=True)),
    Column("timestamp", JSON(none_as_null=True)),
)

memories: Final = Table(
    "memories",
    METADATA,
    Column("number", Integer, primary_key=True),  # the key of a memory in a full-text index
    Column("id", SafeText, nullable=False),
    Column("key", SafeText),
    Column("content", SafeText, nullable=False),
    Column("words", SafeText, nullable=False),
    Column("owner_type", SafeText, nullable=False),
    Column("owner_id", SafeText, nullable=False),
    Column("type", SafeText, nullable=False),
    Column("importance", Float, nullable=False),
    Column("knowledge_base", SafeText),
    Column("source", SafeText, nullable=False),
    Column("run_id", SafeText),
    Column("metadata", JSON(none_as_null=True), nullable=False),
    Column("created_at", Instant, nullable=False),
    UniqueConstraint("id"),
    UniqueConstraint("key"),
    CheckConstraint("importance >= 0 AND importance <= 1", name="importance"),
    Index(None, "owner_type", "owner_id", "created_at"),
)

memory_tags: Final = Table(
    "memory_tags",
    METADATA,
    Column("memory_id", SafeText, ForeignKey("memories.id", ondelete="CASCADE"), primary_key=True),
    Column("tag", SafeText, primary_key=True),
    Index(None, "tag"),
)

approvals: Final = Table(
    "approvals",
    METADATA,
    Column("workspace", SafeText, primary_key=True),
    Column("skill_id", SafeText, primary_key=True),
    Column("digest", SafeText, nullable=False),
    Column("approved_at", Instant, nullable=False),
)

workers: Final = Table(
    "workers",
    METADATA,
    Column("id", SafeText, primary_key=True),
    Column("owner", SafeText, nullable=False),
    Column("host", SafeText, nullable=False),
    Column("concurrency", Integer, nullable=False),
    Column("draining", Boolean, nullable=False),
    Column("started_at", Instant, nullable=False),
    Column("seen_at", Instant, nullable=False),
    Index(None, "owner"),
    Index(None, "seen_at"),
)

worker_pools: Final = Table(
    "worker_pools",
    METADATA,
    Column("pool", SafeText, primary_key=True),
    Column("worker_id", SafeText, ForeignKey("workers.id", ondelete="CASCADE"), primary_key=True),
    Index(None, "worker_id"),
)
queued_runs: Final = Table(  # a run for a worker: deleted when the worker is finished with it
    "queued_runs",
    METADATA,
    Column("run_id", SafeText, ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
    Column("pool", SafeText, nullable=False),
    Column("request", SafeText),  # what to run, with its parameters in full
    Column("priority", Integer, nullable=False, server_default="0"),
    Column("attempts", Integer, nullable=False, server_default="1"),  # the most, in total
    Column("waiting", Boolean, nullable=False, server_default=true()),  # for a worker
    Column("ready_at", Instant),  # not before this; null is at once
    Column("queued_at", Instant),  # a clock before this was set back
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
    Column("digest", SafeText),  # only that content runs
    Column("paused", Boolean, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("next_at", Instant),  # null: never again
    Column("last_at", Instant),
    Column("last_run", SafeText),
    Column("made_by", SafeText),
    Column("key_id", SafeText),  # the API key it was made with; null: at this machine
    Column("held", SafeText),  # why it starts no more runs
    Column("arguments", JSON(none_as_null=True)),
    Column("packages", JSON(none_as_null=True)),
    Column("files", JSON(none_as_null=True)),  # the names of those it is given
    Column("entry", SafeText),
    Column("workspace", SafeText),  # a folder of the machine at which it was made
    CheckConstraint("missed IN ('skip', 'once', 'all')", name="missed"),
    Index(None, "next_at"),
)
run_files: Final = Table(
    "run_files",
    METADATA,
    Column("subject", SafeText, primary_key=True),  # a run, a schedule, or who has uploaded it
    Column("origin", SafeText, primary_key=True),  # given, made, or the id of the upload
    Column("name", SafeText, primary_key=True),
    Column("size", Integer, nullable=False),
    Column("content", LargeBinary, nullable=False),
    Column("at", Instant, nullable=False),
    Index(None, "at"),
)
live_events: Final = Table(
    "live_events",
    METADATA,
    Column("subject", SafeText, primary_key=True),  # a run, a turn of a conversation, an operation
    Column("number", Integer, primary_key=True, autoincrement=False),  # its position among those of the subject, from 1
    Column("body", JSON(none_as_null=True), nullable=False),
    Column("at", Instant, nullable=False),
    Index(None, "at"),
)

questions: Final = Table(
    "questions",
    METADATA,
    Column("id", SafeText, primary_key=True),
    Column("session", SafeText, nullable=False),
    Column("workspace", SafeText, nullable=False),
    Column("skill_id", SafeText, nullable=False),
    Column("skill_name", SafeText, nullable=False),
    Column("description", SafeText, nullable=False),
    Column("digest", SafeText, nullable=False),
    Column("asked_by", SafeText, nullable=False),
    Column("run_id", SafeText),
    Column("owner", SafeText, nullable=False),  # the process that waits for the answer
    Column("asked_at", Instant, nullable=False),
    Column("seen_at", Instant, nullable=False),  # the last sign that it waits
    Column("expires_at", Instant, nullable=False),
    Column("decision", SafeText),
    Column("reason", SafeText),
    Index(None, "skill_id", "digest"),
    Index(None, "run_id"),
)

session_approvals: Final = Table(
    "session_approvals",
    METADATA,
    Column("session", SafeText, primary_key=True),
    Column("skill_id", SafeText, primary_key=True),
    Column("digest", SafeText, nullable=False),
    Column("expires_at", Instant, nullable=False),
)

tool_sessions: Final = Table(
    "tool_sessions",
    METADATA,
    Column("owner", SafeText, primary_key=True),
    Column("name", SafeText, primary_key=True),
    Column("state", JSON(none_as_null=True), nullable=False),
    Column("at", Instant, nullable=False),
)
_TURN_STATES: Final = "state IN ('running', 'waiting', 'done', 'failed', 'stopped', 'interrupted')"

conversations: Final = Table(
    "conversations",
    METADATA,
    Column("id", SafeText, primary_key=True),
    Column("owner", SafeText, nullable=False),  # who began it: nobody else sees it
    Column("title", SafeText, nullable=False),
    Column("agent", SafeText),  # the name of an agent
    Column("model", SafeText),
    Column("settings", JSON(none_as_null=True), nullable=False),  # system prompt, pinned skills, whether tools are used, …
    Column("memory", JSON(none_as_null=True), nullable=False),  # the index shown last, versions held, what was compacted
    Column("created_at", Instant, nullable=False),
    Column("updated_at", Instant, nullable=False),
    Index(None, "owner", "updated_at"),
)

turns: Final = Table(
    "turns",
    METADATA,
    Column("id", SafeText, primary_key=True),
    Column("conversation_id", SafeText, ForeignKey("conversations.id", ondelete="CASCADE"), nullable=False),
    Column("number", Integer, nullable=False),
    Column("state", SafeText, nullable=False),
    Column("replaced", Boolean, nullable=False),  # by an edit or a retry: kept, and no longer part of the conversation
    Column("request", SafeText, nullable=False),
    Column("answer", SafeText, nullable=False),
    Column("messages", JSON(none_as_null=True), nullable=False),  # everything sent and received, as it proceeds
    Column("events", JSON(none_as_null=True), nullable=False),  # what was shown
    Column("pending", JSON(none_as_null=True)),  # the questions that it waits for
    Column("model", SafeText),
    Column("usage", JSON(none_as_null=True)),
    Column("error_code", SafeText),
    Column("error_message", SafeText),
    Column("stop_asked", Boolean, nullable=False),
    Column("process", SafeText, nullable=False),  # which one works on it
    Column("seen_at", Instant),  # its last heartbeat; none of a release that sent none
    Column("created_at", Instant, nullable=False),
    Column("finished_at", Instant),
    Column("counted", Boolean, nullable=False, server_default=false()),
    UniqueConstraint("conversation_id", "number"),
    CheckConstraint(_TURN_STATES, name="state"),
    Index(None, "state"),
    Index(None, "created_at"),
)

attachments: Final = Table(
    "attachments",
    METADATA,
    Column("conversation_id", SafeText, ForeignKey("conversations.id", ondelete="CASCADE"), primary_key=True),
    Column("name", SafeText, primary_key=True),  # its path in the work folder
    Column("origin", SafeText, nullable=False),  # user, or the id of the run that wrote it
    Column("media_type", SafeText, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("sha256", SafeText, nullable=False),
    Column("created_at", Instant, nullable=False),
)

skill_usage: Final = Table(
    "skill_usage",
    METADATA,
    Column("number", Integer, primary_key=True),
    Column("conversation_id", SafeText, ForeignKey("conversations.id", ondelete="CASCADE"), nullable=False),
    Column("turn_id", SafeText, nullable=False),
    Column("event", SafeText, nullable=False),  # offered, loaded, read, run, outcome
    Column("skill_id", SafeText),
    Column("detail", SafeText),  # a file, a run, how it ended
    Column("ok", Boolean, nullable=False),
    Column("tokens", Integer, nullable=False),
    Column("duration_ms", Integer, nullable=False),
    Column("at", Instant, nullable=False),
    Column("counted", Boolean, nullable=False, server_default=false()),
    Index(None, "conversation_id", "number"),
    Index("ix_skill_usage_report", "skill_id", "conversation_id", "event", "ok", "tokens", "duration_ms"),  # all it reads
)

USAGE_DIMENSIONS: Final = ("skill_id", "version", "agent", "caller", "interface", "model")
USAGE_MEASURES: Final = (
    "offered", "loaded", "followed", "succeeded",  # conversations
    "runs", "runs_succeeded", "runs_failed", "runs_cancelled", "runs_cached",
    "refused", "turns", "turns_failed", "input_tokens", "output_tokens", "duration_ms",
)  # fmt: skip
USAGE_BUCKETS: Final = 24
"""Columns `took_0`, …: how many runs took so long; `insights` knows how long."""


def _usage_columns() -> Iterator[Column[int]]:
    yield from (Column(name, BigInteger, nullable=False) for name in USAGE_MEASURES)
    yield from (Column(f"took_{number}", Integer, nullable=False) for number in range(USAGE_BUCKETS))


usage_totals: Final = Table(  # what happened on one day, added up: an empty text where nobody knows
    "usage_totals",
    METADATA,
    Column("id", SafeText, primary_key=True),  # a digest of the day and the dimensions
    Column("day", Integer, nullable=False),  # days since 1970, in UTC
    *(Column(name, SafeText, nullable=False) for name in USAGE_DIMENSIONS),
    *_usage_columns(),
    Index(None, "day"),
    Index(None, "skill_id", "day"),
)

usage_by_dimension: Final = Table(  # the same, added up again for each dimension alone: few rows, however many runs
    "usage_by_dimension",
    METADATA,
    Column("dimension", SafeText, primary_key=True),  # one of the above
    Column("day", Integer, primary_key=True, autoincrement=False),
    Column("key", SafeText, primary_key=True),
    Column("skill_id", SafeText, primary_key=True),  # that of a version, else empty
    Column("model", SafeText, primary_key=True),
    *_usage_columns(),
    # all that lists read which are ordered by use:
    Index("ix_usage_by_dimension_use", "dimension", "key", "skill_id", "day", "runs", "loaded", "turns"),
)

for _order in (runs.c.created_at, turns.c.created_at, skill_usage.c.counted):
    Index(f"ix_{_order.table.name}_uncounted", _order)  # of rows that are not counted yet: the migration has the condition
