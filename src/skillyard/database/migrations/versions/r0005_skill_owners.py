"""Who owns the name of a skill."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "r0005"
down_revision = "r0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add it; skills of before belong to nobody."""
    op.create_table(
        "skill_owners",
        sa.Column("skill_id", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("since", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("skill_id", "owner", name="pk_skill_owners"),
        sa.ForeignKeyConstraint(
            ["skill_id"], ["skill_definitions.skill_id"], name="fk_skill_owners_skill_id", ondelete="CASCADE"
        ),
    )
