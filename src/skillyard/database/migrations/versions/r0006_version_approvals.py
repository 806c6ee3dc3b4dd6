"""Which exact contents of skills wait for a person's approval, have it, or lost it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "r0006"
down_revision = "r0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add it; versions of before need no approval until they are to become current again."""
    op.create_table(
        "version_approvals",
        sa.Column("skill_id", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("reasons", sa.JSON(), nullable=False),
        sa.Column("asked_by", sa.Text(), nullable=False),
        sa.Column("asked_by_member", sa.Boolean(), nullable=False),
        sa.Column("asked_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("decided_by", sa.Text(), nullable=True),
        sa.Column("decided_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.CheckConstraint("state IN ('waiting', 'approved', 'withdrawn')", name=op.f("ck_version_approvals_state")),
        sa.PrimaryKeyConstraint("skill_id", "digest", name="pk_version_approvals"),
        sa.ForeignKeyConstraint(
            ["skill_id"], ["skill_definitions.skill_id"], name="fk_version_approvals_skill_id", ondelete="CASCADE"
        ),
    )
    op.create_index("ix_version_approvals_state", "version_approvals", ["state"])
