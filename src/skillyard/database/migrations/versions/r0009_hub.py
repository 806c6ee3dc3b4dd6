"""What a person says of an installed skill, stars, counts of downloads, and tags of versions."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "r0009"
down_revision = "r0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make them."""
    op.add_column("skill_definitions", sa.Column("edits", sa.JSON(none_as_null=True)))
    op.create_table(
        "skill_stars",
        _text("skill_id"),
        _text("owner"),
        sa.Column("starred_at", sa.DateTime(timezone=True), nullable=False),
        _of_skill("skill_stars"),
        sa.PrimaryKeyConstraint("skill_id", "owner", name="pk_skill_stars"),
    )
    op.create_table(
        "skill_counts",
        _text("skill_id"),
        sa.Column("downloads", sa.Integer(), nullable=False),
        sa.Column("installs", sa.Integer(), nullable=False),
        _of_skill("skill_counts"),
        sa.PrimaryKeyConstraint("skill_id", name="pk_skill_counts"),
    )
    op.create_table(
        "skill_tags",
        _text("skill_id"),
        _text("tag"),
        _text("version"),
        _of_skill("skill_tags"),
        sa.PrimaryKeyConstraint("skill_id", "tag", name="pk_skill_tags"),
    )


def _text(name: str) -> sa.Column[str]:
    return sa.Column(name, sa.Text(), nullable=False)


def _of_skill(table: str) -> sa.ForeignKeyConstraint:
    key = f"fk_{table}_skill_id"
    return sa.ForeignKeyConstraint(["skill_id"], ["skill_definitions.skill_id"], name=key, ondelete="CASCADE")
