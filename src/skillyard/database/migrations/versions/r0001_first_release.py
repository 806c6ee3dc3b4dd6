"""The tables of the first release."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import sqlalchemy as sa
from alembic import op

from skillyard.database.dialects import create_fulltext
from skillyard.database.registry_tables import make_substring_index

revision = "r0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make them, and a column for the oldest revision whose programs can use the tables as they are."""
    op.add_column("alembic_version", sa.Column("oldest", sa.Text()))
    _runs()
    _memories()
    _approvals()
    _workers()
    _conversations()
    _skills()
    _access()


def _runs() -> None:
    """Runs: their steps and attempts, those that wait for a worker, what is scheduled, and what goes on now."""
    op.create_table(
        "runs",
        _text("id"),
        _text("skill_id"),
        _text("skill_name"),
        _text("kind"),
        _text("entry", nullable=True),
        _text("digest", nullable=True),
        _text("state"),
        _text("status", nullable=True),
        _json("parameters"),
        _json("context"),
        _json("output", nullable=True),
        _text("format", nullable=True),
        _text("message", nullable=True),
        _text("error_code", nullable=True),
        _text("error_message", nullable=True),
        _json("warnings", nullable=True),
        _json("limits", nullable=True),
        _json("memory_writes", nullable=True),
        _json("token_usage", nullable=True),
        _json("contacts", nullable=True),
        _text("ran_as", nullable=True),
        _text("isolation", nullable=True),
        _text("interpreter", nullable=True),
        _text("stdout", nullable=True),
        _text("stderr", nullable=True),
        _integer("duration_ms", nullable=True),
        _json("printed", nullable=True),
        _text("cache_key", nullable=True),
        _flag("cache_hit"),
        _text("cached_from", nullable=True),
        _time("expires_at", nullable=True),
        _text("owner"),
        _time("created_at"),
        _time("started_at", nullable=True),
        _time("finished_at", nullable=True),
        _integer("priority", default="0"),
        _integer("attempt", default="1"),
        _text("schedule", nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_runs"),
        sa.CheckConstraint(
            "state IN ('queued', 'running', 'succeeded', 'failed', 'cancelled', 'interrupted')", name=op.f("ck_runs_state")
        ),
    )
    _index("runs", "cache_key", "expires_at")
    _index("runs", "created_at")
    _index("runs", "schedule", "created_at")
    _index("runs", "skill_id", "created_at")
    _index("runs", "skill_name", "created_at")
    _index("runs", "state", "created_at")
    _index("runs", "status", "created_at")
    op.create_table(
        "steps",
        _text("run_id"),
        _integer("position", autoincrement=False),
        _text("step_id"),
        _text("step_name"),
        _json("input", nullable=True),
        _json("output", nullable=True),
        _float("duration"),
        _json("error", nullable=True),
        _json("timestamp", nullable=True),
        _parent("steps", "run_id", "runs.id"),
        sa.PrimaryKeyConstraint("run_id", "position", name="pk_steps"),
    )
    op.create_table(
        "attempts",
        _text("run_id"),
        _integer("number", autoincrement=False),
        _text("owner"),
        _text("error_code"),
        _text("error_message", nullable=True),
        _time("started_at", nullable=True),
        _time("finished_at"),
        _parent("attempts", "run_id", "runs.id"),
        sa.PrimaryKeyConstraint("run_id", "number", name="pk_attempts"),
    )
    op.create_table(
        "queued_runs",
        _text("run_id"),
        _text("pool"),
        _text("request", nullable=True),
        _integer("priority", default="0"),
        _integer("attempts", default="1"),
        _flag("waiting", default=sa.true()),
        _time("ready_at", nullable=True),
        _time("queued_at", nullable=True),
        _parent("queued_runs", "run_id", "runs.id"),
        sa.PrimaryKeyConstraint("run_id", name="pk_queued_runs"),
    )
    _index("queued_runs", "pool")
    _index("queued_runs", "pool", "waiting", "priority")
    op.create_table(
        "schedules",
        _text("name"),
        _text("skill"),
        _json("parameters"),
        _json("context"),
        _text("cron", nullable=True),
        _text("time_zone"),
        _text("missed"),
        _integer("priority"),
        _text("digest", nullable=True),
        _flag("paused"),
        _time("created_at"),
        _time("next_at", nullable=True),
        _time("last_at", nullable=True),
        _text("last_run", nullable=True),
        _text("made_by", nullable=True),
        _text("key_id", nullable=True),
        _text("held", nullable=True),
        sa.PrimaryKeyConstraint("name", name="pk_schedules"),
        sa.CheckConstraint("missed IN ('skip', 'once', 'all')", name=op.f("ck_schedules_missed")),
    )
    _index("schedules", "next_at")
    op.create_table(
        "live_events",
        _text("subject"),
        _integer("number", autoincrement=False),
        _json("body"),
        _time("at"),
        sa.PrimaryKeyConstraint("subject", "number", name="pk_live_events"),
    )
    _index("live_events", "at")


def _memories() -> None:
    """Memories with their tags, and the index over their words."""
    op.create_table(
        "memories",
        _integer("number"),
        _text("id"),
        _text("key", nullable=True),
        _text("content"),
        _text("words"),
        _text("owner_type"),
        _text("owner_id"),
        _text("type"),
        _float("importance"),
        _text("knowledge_base", nullable=True),
        _text("source"),
        _text("run_id", nullable=True),
        _json("metadata"),
        _time("created_at"),
        sa.PrimaryKeyConstraint("number", name="pk_memories"),
        sa.UniqueConstraint("id", name="uq_memories_id"),
        sa.UniqueConstraint("key", name="uq_memories_key"),
        sa.CheckConstraint("importance >= 0 AND importance <= 1", name=op.f("ck_memories_importance")),
    )
    _index("memories", "owner_type", "owner_id", "created_at")
    op.create_table(
        "memory_tags",
        _text("memory_id"),
        _text("tag"),
        _parent("memory_tags", "memory_id", "memories.id"),
        sa.PrimaryKeyConstraint("memory_id", "tag", name="pk_memory_tags"),
    )
    _index("memory_tags", "tag")
    create_fulltext(op.get_bind())


def _approvals() -> None:
    """Approvals, for a workspace and for a session, the questions that wait for one, and the sessions of tools."""
    op.create_table(
        "approvals",
        _text("workspace"),
        _text("skill_id"),
        _text("digest"),
        _time("approved_at"),
        sa.PrimaryKeyConstraint("workspace", "skill_id", name="pk_approvals"),
    )
    op.create_table(
        "session_approvals",
        _text("session"),
        _text("skill_id"),
        _text("digest"),
        _time("expires_at"),
        sa.PrimaryKeyConstraint("session", "skill_id", name="pk_session_approvals"),
    )
    op.create_table(
        "questions",
        _text("id"),
        _text("session"),
        _text("workspace"),
        _text("skill_id"),
        _text("skill_name"),
        _text("description"),
        _text("digest"),
        _text("asked_by"),
        _text("run_id", nullable=True),
        _text("owner"),
        _time("asked_at"),
        _time("seen_at"),
        _time("expires_at"),
        _text("decision", nullable=True),
        _text("reason", nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_questions"),
    )
    _index("questions", "run_id")
    _index("questions", "skill_id", "digest")
    op.create_table(
        "tool_sessions",
        _text("owner"),
        _text("name"),
        _json("state"),
        _time("at"),
        sa.PrimaryKeyConstraint("owner", "name", name="pk_tool_sessions"),
    )


def _workers() -> None:
    """Workers and the pools that they serve."""
    op.create_table(
        "workers",
        _text("id"),
        _text("owner"),
        _text("host"),
        _integer("concurrency"),
        _flag("draining"),
        _time("started_at"),
        _time("seen_at"),
        sa.PrimaryKeyConstraint("id", name="pk_workers"),
    )
    _index("workers", "owner")
    _index("workers", "seen_at")
    op.create_table(
        "worker_pools",
        _text("pool"),
        _text("worker_id"),
        _parent("worker_pools", "worker_id", "workers.id"),
        sa.PrimaryKeyConstraint("pool", "worker_id", name="pk_worker_pools"),
    )
    _index("worker_pools", "worker_id")


def _conversations() -> None:
    """Conversations, their turns and files, and how skills were used in them."""
    op.create_table(
        "conversations",
        _text("id"),
        _text("owner"),
        _text("title"),
        _text("agent", nullable=True),
        _text("model", nullable=True),
        _json("settings"),
        _json("memory"),
        _time("created_at"),
        _time("updated_at"),
        sa.PrimaryKeyConstraint("id", name="pk_conversations"),
    )
    _index("conversations", "owner", "updated_at")
    op.create_table(
        "turns",
        _text("id"),
        _text("conversation_id"),
        _integer("number"),
        _text("state"),
        _flag("replaced"),
        _text("request"),
        _text("answer"),
        _json("messages"),
        _json("events"),
        _json("pending", nullable=True),
        _text("model", nullable=True),
        _json("usage", nullable=True),
        _text("error_code", nullable=True),
        _text("error_message", nullable=True),
        _flag("stop_asked"),
        _text("process"),
        _time("created_at"),
        _time("finished_at", nullable=True),
        _parent("turns", "conversation_id", "conversations.id"),
        sa.PrimaryKeyConstraint("id", name="pk_turns"),
        sa.UniqueConstraint("conversation_id", "number", name="uq_turns_conversation_id"),
        sa.CheckConstraint(
            "state IN ('running', 'waiting', 'done', 'failed', 'stopped', 'interrupted')", name=op.f("ck_turns_state")
        ),
    )
    _index("turns", "state")
    op.create_table(
        "attachments",
        _text("conversation_id"),
        _text("name"),
        _text("origin"),
        _text("media_type"),
        _big("size_bytes"),
        _text("sha256"),
        _time("created_at"),
        _parent("attachments", "conversation_id", "conversations.id"),
        sa.PrimaryKeyConstraint("conversation_id", "name", name="pk_attachments"),
    )
    op.create_table(
        "skill_usage",
        _integer("number"),
        _text("conversation_id"),
        _text("turn_id"),
        _text("event"),
        _text("skill_id", nullable=True),
        _text("detail", nullable=True),
        _flag("ok"),
        _integer("tokens"),
        _integer("duration_ms"),
        _time("at"),
        _parent("skill_usage", "conversation_id", "conversations.id"),
        sa.PrimaryKeyConstraint("number", name="pk_skill_usage"),
    )
    _index("skill_usage", "conversation_id", "number")
    _index("skill_usage", "skill_id", "event")


def _skills() -> None:
    """Installed skills, their versions and tags, stars and counts, and the logs of operations."""
    op.create_table(
        "skill_definitions",
        _text("skill_id"),
        _text("name"),
        _text("description"),
        _json("trigger_keywords"),
        _text("category", nullable=True),
        _json("tags"),
        _text("author", nullable=True),
        _text("license", nullable=True),
        _text("homepage_url", nullable=True),
        _text("documentation_url", nullable=True),
        _text("icon_url", nullable=True),
        _text("current_version", nullable=True),
        _flag("is_active"),
        _text("skill_md_content", nullable=True),
        _text("skill_md_hash", nullable=True),
        _json("file_inventory", nullable=True),
        _json("edits", nullable=True),
        _text("created_by", nullable=True),
        _time("created_at"),
        _time("updated_at"),
        sa.PrimaryKeyConstraint("skill_id", name="pk_skill_definitions"),
    )
    _index("skill_definitions", "is_active", "skill_id")
    _index("skill_definitions", "name")
    op.create_table(
        "skill_versions",
        _text("skill_id"),
        _text("version"),
        _text("declared_version", nullable=True),
        _text("status"),
        _text("operation_id", nullable=True),
        _text("source_type"),
        _json("origin"),
        _text("package_path"),
        _text("digest"),
        _text("checksum_sha256", nullable=True),
        _text("package_digest", nullable=True),
        _big("size_bytes"),
        _text("skill_md_content", nullable=True),
        _text("skill_md_hash", nullable=True),
        _json("file_inventory", nullable=True),
        _json("powers", nullable=True),
        _json("findings", nullable=True),
        _text("signer", nullable=True),
        _text("installed_by", nullable=True),
        _time("installed_at", nullable=True),
        _time("deprecated_at", nullable=True),
        _text("deprecated_reason", nullable=True),
        _time("yanked_at", nullable=True),
        _text("yanked_reason", nullable=True),
        _time("removed_at", nullable=True),
        _time("created_at"),
        _parent("skill_versions", "skill_id", "skill_definitions.skill_id"),
        sa.PrimaryKeyConstraint("skill_id", "version", name="pk_skill_versions"),
        sa.CheckConstraint(
            "status IN ('pending', 'downloading', 'validating', 'installing', 'active', 'deprecated', 'failed')",
            name=op.f("ck_skill_versions_status"),
        ),
    )
    _index("skill_versions", "digest")
    _index("skill_versions", "operation_id")
    op.create_table(
        "skill_tags",
        _text("skill_id"),
        _text("tag"),
        _text("version"),
        _parent("skill_tags", "skill_id", "skill_definitions.skill_id"),
        sa.PrimaryKeyConstraint("skill_id", "tag", name="pk_skill_tags"),
    )
    op.create_table(
        "skill_stars",
        _text("skill_id"),
        _text("owner"),
        _time("starred_at"),
        _parent("skill_stars", "skill_id", "skill_definitions.skill_id"),
        sa.PrimaryKeyConstraint("skill_id", "owner", name="pk_skill_stars"),
    )
    op.create_table(
        "skill_counts",
        _text("skill_id"),
        _integer("downloads"),
        _integer("installs"),
        _parent("skill_counts", "skill_id", "skill_definitions.skill_id"),
        sa.PrimaryKeyConstraint("skill_id", name="pk_skill_counts"),
    )
    op.create_table(
        "skill_callers",
        _text("skill_id"),
        _text("owner"),
        _text("what"),
        _integer("day"),
        _parent("skill_callers", "skill_id", "skill_definitions.skill_id"),
        sa.PrimaryKeyConstraint("skill_id", "owner", "what", name="pk_skill_callers"),
    )
    op.create_table(
        "install_logs",
        _text("id"),
        _text("operation_id"),
        _text("skill_id", nullable=True),
        _text("version", nullable=True),
        _text("operation"),
        _text("status"),
        _text("step", nullable=True),
        _integer("progress"),
        _text("message", nullable=True),
        _text("error_code", nullable=True),
        _text("error_message", nullable=True),
        _text("source", nullable=True),
        _json("steps"),
        _json("details", nullable=True),
        _time("started_at"),
        _time("completed_at", nullable=True),
        _integer("duration_ms", nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_install_logs"),
        sa.CheckConstraint("progress >= 0 AND progress <= 100", name=op.f("ck_install_logs_progress")),
        sa.CheckConstraint("status IN ('pending', 'in_progress', 'success', 'failed')", name=op.f("ck_install_logs_status")),
        sa.CheckConstraint(
            "operation IN ('install', 'update', 'rollback', 'uninstall')", name=op.f("ck_install_logs_operation")
        ),
    )
    _index("install_logs", "operation_id")
    _index("install_logs", "skill_id", "started_at")
    _index("install_logs", "started_at")
    make_substring_index(op.get_bind())


def _access() -> None:
    """Agents, organisations, keys and their sessions, and the audit log."""
    op.create_table(
        "agents",
        _text("id"),
        _text("name"),
        _text("description", nullable=True),
        _text("system_prompt", nullable=True),
        _text("model", nullable=True),
        _json("settings"),
        _time("created_at"),
        _time("updated_at"),
        sa.PrimaryKeyConstraint("id", name="pk_agents"),
        sa.UniqueConstraint("name", name="uq_agents_name"),
    )
    op.create_table(
        "agent_skills",
        _text("agent_id"),
        _text("skill_id"),
        _integer("position"),
        _text("version_lock", nullable=True),
        _flag("auto_update"),
        _parent("agent_skills", "agent_id", "agents.id"),
        sa.PrimaryKeyConstraint("agent_id", "skill_id", name="pk_agent_skills"),
    )
    op.create_table(
        "organisations", _text("name"), _time("created_at"), sa.PrimaryKeyConstraint("name", name="pk_organisations")
    )
    op.create_table(
        "api_keys",
        _text("id"),
        _text("name"),
        _text("organisation", default="default"),
        _text("prefix", default=""),
        _text("hash"),
        _json("scopes"),
        _time("created_at"),
        _time("expires_at", nullable=True),
        _time("revoked_at", nullable=True),
        _time("last_used_at", nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_api_keys"),
        sa.UniqueConstraint("hash", name="uq_api_keys_hash"),
    )
    op.create_table(
        "api_sessions",
        _text("hash"),
        _text("key_id"),
        _time("created_at"),
        _time("expires_at"),
        _parent("api_sessions", "key_id", "api_keys.id"),
        sa.PrimaryKeyConstraint("hash", name="pk_api_sessions"),
    )
    _index("api_sessions", "expires_at")
    _index("api_sessions", "key_id")
    op.create_table(
        "audit_events",
        _text("id"),
        _time("at"),
        _text("actor"),
        _text("action"),
        _text("subject"),
        _text("outcome"),
        _json("details", nullable=True),
        _text("organisation", default="default"),
        _text("request_id", nullable=True),
        _text("address", nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_audit_events"),
    )
    _index("audit_events", "actor", "at")
    _index("audit_events", "at")
    _index("audit_events", "subject", "at")


def _text(name: str, *, nullable: bool = False, default: str | None = None) -> sa.Column[str]:
    return sa.Column(name, sa.Text(), nullable=nullable, server_default=default)


def _json(name: str, *, nullable: bool = False) -> sa.Column[object]:
    return sa.Column(name, sa.JSON(none_as_null=True), nullable=nullable)


def _time(name: str, *, nullable: bool = False) -> sa.Column[datetime]:
    return sa.Column(name, sa.DateTime(timezone=True), nullable=nullable)


def _integer(
    name: str, *, nullable: bool = False, default: str | None = None, autoincrement: Literal["auto"] | bool = "auto"
) -> sa.Column[int]:
    return sa.Column(name, sa.Integer(), nullable=nullable, server_default=default, autoincrement=autoincrement)


def _big(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger(), nullable=False)


def _float(name: str) -> sa.Column[float]:
    return sa.Column(name, sa.Float(), nullable=False)


def _flag(name: str, *, default: sa.ColumnElement[bool] | None = None) -> sa.Column[bool]:
    return sa.Column(name, sa.Boolean(), nullable=False, server_default=default)


def _parent(table: str, column: str, parent: str) -> sa.ForeignKeyConstraint:
    """A row goes with the one that it refers to."""
    return sa.ForeignKeyConstraint([column], [parent], name=f"fk_{table}_{column}", ondelete="CASCADE")


def _index(table: str, *columns: str) -> None:
    op.create_index("_".join(("ix", table, *columns)), table, list(columns))
