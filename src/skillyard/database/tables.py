"""The tables of the records.

Types and constraints are those that SQLite and PostgreSQL both know. A change here needs a migration in `migrations/versions`;
a test holds the two against each other.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import (
    JSON,
    Boolean,
    CheckConstraint,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    Table,
    UniqueConstraint,
)

from skillyard.database.columns import Instant, SafeText

__all__ = ["METADATA", "approvals", "memories", "memory_tags", "runs", "steps", "worker_pools", "workers"]

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
    Column("printed", JSON(none_as_null=True)),  # how far it was told while it went on, where the record is not all of that
    Column("cache_key", SafeText),
    Column("cache_hit", Boolean, nullable=False),
    Column("cached_from", SafeText),
    Column("expires_at", Instant),
    Column("owner", SafeText, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("started_at", Instant),
    Column("finished_at", Instant),
    Column("priority", Integer, nullable=False, server_default="0"),
    Column("attempt", Integer, nullable=False, server_default="1"),  # the number of this one: who carries it shows it
    Column("schedule", SafeText),
    CheckConstraint(_STATES, name="state"),
    Index(None, "schedule", "created_at"),
    Index(None, "created_at"),
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
    Column("number", Integer, primary_key=True),  # what a full-text index knows a memory by
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
