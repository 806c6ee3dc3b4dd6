"""Webhooks: addresses at which others report events."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "r0003"
down_revision = "r0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add them."""
    op.create_table(
        "webhooks",
        *(sa.Column(name, sa.Text(), nullable=False) for name in ("name", "event", "organisation", "owner", "made_by")),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("id_field", sa.Text()),
        sa.Column("key_id", sa.Text()),
        sa.Column("last_used_at", sa.DateTime(timezone=True)),
        sa.Column("secret", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_webhooks"),
    )
