"""Where runs were asked for, and totals of what happened by day."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "r0004"
down_revision = "r0003"
branch_labels = None
depends_on = None

_DIMENSIONS = ("skill_id", "version", "agent", "caller", "interface", "model")
_MEASURES = (
    "offered", "loaded", "followed", "succeeded", "runs", "runs_succeeded", "runs_failed", "runs_cancelled", "runs_cached",
    "refused", "turns", "turns_failed", "input_tokens", "output_tokens", "duration_ms",
)  # fmt: skip


def upgrade() -> None:
    """Add them; rows of before are counted when the totals are next looked at."""
    for name in ("version", "interface", "caller", "agent"):
        op.add_column("runs", sa.Column(name, sa.Text()))
    uncounted = sa.column("counted", sa.Boolean()).is_(False)
    for table in ("runs", "turns", "skill_usage"):
        op.add_column(table, sa.Column("counted", sa.Boolean(), nullable=False, server_default=sa.false()))
        name = f"ix_{table}_uncounted"
        op.create_index(name, table, ["counted"], sqlite_where=uncounted, postgresql_where=uncounted)
    op.create_table(
        "usage_totals",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("day", sa.Integer(), nullable=False),
        *(sa.Column(name, sa.Text(), nullable=False) for name in _DIMENSIONS),
        *(sa.Column(name, sa.BigInteger(), nullable=False) for name in _MEASURES),
        *(sa.Column(f"took_{number}", sa.Integer(), nullable=False) for number in range(24)),
        sa.PrimaryKeyConstraint("id", name="pk_usage_totals"),
    )
    op.create_index("ix_usage_totals_day", "usage_totals", ["day"])
