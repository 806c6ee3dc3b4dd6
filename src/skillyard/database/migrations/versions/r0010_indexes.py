"""Indexes for what is asked of many records: skills by name, active ones by id, runs by name, state and status."""

from __future__ import annotations

from alembic import op

revision = "r0010"
down_revision = "r0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make them."""
    op.create_index("ix_skill_definitions_name", "skill_definitions", ["name"])
    op.create_index("ix_skill_definitions_is_active_skill_id", "skill_definitions", ["is_active", "skill_id"])
    op.drop_index("ix_skill_definitions_is_active", "skill_definitions")
    op.create_index("ix_runs_skill_name_created_at", "runs", ["skill_name", "created_at"])
    op.create_index("ix_runs_status_created_at", "runs", ["status", "created_at"])
    op.create_index("ix_runs_state_created_at", "runs", ["state", "created_at"])
    op.drop_index("ix_runs_state", "runs")
