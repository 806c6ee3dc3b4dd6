"""Skills that people mark with a star or collect under a name, and saved searches; an index of when skills were used."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "r0010"
down_revision = "r0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add them, with the stars of before; those were of installed skills only."""
    collected = op.create_table(
        "collected_skills",
        *(sa.Column(name, sa.Text(), nullable=False) for name in ("owner", "collection", "skill_id")),
        sa.Column("added_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("owner", "collection", "skill_id", name="pk_collected_skills"),
    )
    op.create_index("ix_collected_skills_collection_skill_id", "collected_skills", ["collection", "skill_id"])
    op.create_table(
        "saved_searches",
        *(sa.Column(name, sa.Text(), nullable=False) for name in ("owner", "name")),
        sa.Column("search", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("saved_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("owner", "name", name="pk_saved_searches"),
    )
    read = ["dimension", "key", "skill_id", "day", "runs", "loaded", "turns"]
    op.create_index("ix_usage_by_dimension_use", "usage_by_dimension", read)
    stars = sa.table("skill_stars", *(sa.column(name) for name in ("skill_id", "owner", "starred_at")))
    before = sa.select(stars.c.owner, sa.literal(""), sa.literal("installed:").concat(stars.c.skill_id), stars.c.starred_at)
    op.execute(sa.insert(collected).from_select(["owner", "collection", "skill_id", "added_at"], before))
