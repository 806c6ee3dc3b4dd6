"""Who made a schedule, with which key, and why it is held; who has been counted for a skill, and on which day."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "r0012"
down_revision = "r0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make them; of schedules that are there it is not known, they go on as those of this machine."""
    for name in ("made_by", "key_id", "held"):
        op.add_column("schedules", sa.Column(name, sa.Text()))
    op.create_table(
        "skill_callers",
        sa.Column("skill_id", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("what", sa.Text(), nullable=False),
        sa.Column("day", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["skill_id"], ["skill_definitions.skill_id"], name="fk_skill_callers_skill_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("skill_id", "owner", "what", name="pk_skill_callers"),
    )
