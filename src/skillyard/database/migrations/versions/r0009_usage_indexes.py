"""Indexes for the report of skills in conversations, and for lists of the turns behind a figure."""

from __future__ import annotations

from alembic import op

revision = "r0009"
down_revision = "r0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add them; the first holds all that the report reads, so that it reads no table."""
    op.drop_index("ix_skill_usage_skill_id_event", "skill_usage")
    read = ["skill_id", "conversation_id", "event", "ok", "tokens", "duration_ms"]
    op.create_index("ix_skill_usage_report", "skill_usage", read)
    op.create_index("ix_turns_created_at", "turns", ["created_at"])
