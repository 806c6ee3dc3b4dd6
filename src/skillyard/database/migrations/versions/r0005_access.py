"""Organisations, what a key is for, the sessions of pages, and more of who did what."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "r0005"
down_revision = "r0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make them."""
    op.create_table(
        "organisations",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_organisations"),
    )
    op.add_column("api_keys", sa.Column("organisation", sa.Text(), nullable=False, server_default="default"))
    op.add_column("api_keys", sa.Column("prefix", sa.Text(), nullable=False, server_default=""))
    op.create_table(
        "api_sessions",
        sa.Column("hash", sa.Text(), nullable=False),
        sa.Column("key_id", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["key_id"], ["api_keys.id"], name="fk_api_sessions_key_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("hash", name="pk_api_sessions"),
    )
    op.create_index("ix_api_sessions_key_id", "api_sessions", ["key_id"])
    op.create_index("ix_api_sessions_expires_at", "api_sessions", ["expires_at"])
    op.add_column("audit_events", sa.Column("organisation", sa.Text(), nullable=False, server_default="default"))
    op.add_column("audit_events", sa.Column("request_id", sa.Text()))
    op.add_column("audit_events", sa.Column("address", sa.Text()))
    op.create_index("ix_audit_events_actor_at", "audit_events", ["actor", "at"])
