"""The first tables: runs and their steps, memories with their words and tags, approvals."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from skillyard.database.dialects import create_fulltext

revision = "r0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make them."""
    _runs()
    _memories()
    create_fulltext(op.get_bind())
    _approvals()


def _runs() -> None:
    op.create_table(
        "runs",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("skill_id", sa.Text(), nullable=False),
        sa.Column("skill_name", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("entry", sa.Text()),
        sa.Column("digest", sa.Text()),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("status", sa.Text()),
        sa.Column("parameters", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("context", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("output", sa.JSON(none_as_null=True)),
        sa.Column("format", sa.Text()),
        sa.Column("message", sa.Text()),
        sa.Column("error_code", sa.Text()),
        sa.Column("error_message", sa.Text()),
        sa.Column("warnings", sa.JSON(none_as_null=True)),
        sa.Column("limits", sa.JSON(none_as_null=True)),
        sa.Column("memory_writes", sa.JSON(none_as_null=True)),
        sa.Column("token_usage", sa.JSON(none_as_null=True)),
        sa.Column("isolation", sa.Text()),
        sa.Column("interpreter", sa.Text()),
        sa.Column("stdout", sa.Text()),
        sa.Column("stderr", sa.Text()),
        sa.Column("duration_ms", sa.Integer()),
        sa.Column("cache_key", sa.Text()),
        sa.Column("cache_hit", sa.Boolean(), nullable=False),
        sa.Column("cached_from", sa.Text()),
        sa.Column("expires_at", sa.DateTime(timezone=True)),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True)),
        sa.Column("finished_at", sa.DateTime(timezone=True)),
        sa.CheckConstraint(
            "state IN ('queued', 'running', 'succeeded', 'failed', 'cancelled', 'interrupted')", name=op.f("ck_runs_state")
        ),
        sa.PrimaryKeyConstraint("id", name="pk_runs"),
    )
    op.create_index("ix_runs_cache_key_expires_at", "runs", ["cache_key", "expires_at"])
    op.create_index("ix_runs_created_at", "runs", ["created_at"])
    op.create_index("ix_runs_skill_id_created_at", "runs", ["skill_id", "created_at"])
    op.create_index("ix_runs_state", "runs", ["state"])
    op.create_table(
        "steps",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("position", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("step_id", sa.Text(), nullable=False),
        sa.Column("step_name", sa.Text(), nullable=False),
        sa.Column("input", sa.JSON(none_as_null=True)),
        sa.Column("output", sa.JSON(none_as_null=True)),
        sa.Column("duration", sa.Float(), nullable=False),
        sa.Column("error", sa.JSON(none_as_null=True)),
        sa.Column("timestamp", sa.JSON(none_as_null=True)),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_steps_run_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", "position", name="pk_steps"),
    )


def _memories() -> None:
    op.create_table(
        "memories",
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("key", sa.Text()),
        sa.Column("content", sa.Text(), nullable=False),
        sa.Column("words", sa.Text(), nullable=False),
        sa.Column("owner_type", sa.Text(), nullable=False),
        sa.Column("owner_id", sa.Text(), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("importance", sa.Float(), nullable=False),
        sa.Column("knowledge_base", sa.Text()),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("run_id", sa.Text()),
        sa.Column("metadata", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint("importance >= 0 AND importance <= 1", name=op.f("ck_memories_importance")),
        sa.PrimaryKeyConstraint("number", name="pk_memories"),
        sa.UniqueConstraint("id", name="uq_memories_id"),
        sa.UniqueConstraint("key", name="uq_memories_key"),
    )
    op.create_index("ix_memories_owner_type_owner_id_created_at", "memories", ["owner_type", "owner_id", "created_at"])
    op.create_table(
        "memory_tags",
        sa.Column("memory_id", sa.Text(), nullable=False),
        sa.Column("tag", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["memory_id"], ["memories.id"], name="fk_memory_tags_memory_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("memory_id", "tag", name="pk_memory_tags"),
    )
    op.create_index("ix_memory_tags_tag", "memory_tags", ["tag"])


def _approvals() -> None:
    op.create_table(
        "approvals",
        sa.Column("workspace", sa.Text(), nullable=False),
        sa.Column("skill_id", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("approved_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("workspace", "skill_id", name="pk_approvals"),
    )
