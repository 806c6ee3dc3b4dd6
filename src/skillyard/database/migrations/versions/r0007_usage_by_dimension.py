"""Totals of what happened by day for each dimension alone; indexes of runs by who asked, where, and in the order of time."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "r0007"
down_revision = "r0006"
branch_labels = None
depends_on = None

_MEASURES = (
    "offered", "loaded", "followed", "succeeded", "runs", "runs_succeeded", "runs_failed", "runs_cancelled", "runs_cached",
    "refused", "turns", "turns_failed", "input_tokens", "output_tokens", "duration_ms",
)  # fmt: skip
_BUCKETS = tuple(f"took_{number}" for number in range(24))
_RUNS = {
    "ix_runs_created_at_id": ("created_at", "id"),
    "ix_runs_caller_created_at": ("caller", "created_at"),
    "ix_runs_agent_created_at": ("agent", "created_at"),
    "ix_runs_interface_created_at": ("interface", "created_at"),
}


def upgrade() -> None:
    """Add them, and add up what is there."""
    table = op.create_table(
        "usage_by_dimension",
        sa.Column("dimension", sa.Text(), nullable=False),
        sa.Column("day", sa.Integer(), autoincrement=False, nullable=False),
        *(sa.Column(name, sa.Text(), nullable=False) for name in ("key", "skill_id", "model")),
        *(sa.Column(name, sa.BigInteger(), nullable=False) for name in _MEASURES),
        *(sa.Column(name, sa.Integer(), nullable=False) for name in _BUCKETS),
        sa.PrimaryKeyConstraint("dimension", "day", "key", "skill_id", "model", name="pk_usage_by_dimension"),
    )
    op.create_index("ix_usage_totals_skill_id_day", "usage_totals", ["skill_id", "day"])
    for name, columns in _RUNS.items():
        op.create_index(name, "runs", list(columns))
    op.drop_index("ix_runs_created_at", "runs")
    uncounted = sa.column("counted", sa.Boolean()).is_(False)
    for name in ("runs", "turns"):  # counted in the order of time, so that few totals are changed at once
        op.drop_index(f"ix_{name}_uncounted", name)
        op.create_index(f"ix_{name}_uncounted", name, ["created_at"], sqlite_where=uncounted, postgresql_where=uncounted)
    for dimension in ("skill", "version", "agent", "caller", "interface", "model"):
        op.execute(added_up(table, dimension))


def added_up(table: sa.Table, dimension: str) -> sa.Insert:
    """The rows of one dimension without tests: of skills without what concerns none, of versions with runs alone."""
    named = ("day", "skill_id", "version", "agent", "caller", "interface", "model", *_MEASURES, *_BUCKETS)
    totals = sa.table("usage_totals", *(sa.column(name) for name in named)).c
    key = totals["skill_id" if dimension == "skill" else dimension]
    skill = totals.skill_id if dimension == "version" else sa.literal("")
    sums = [sa.cast(sa.func.sum(totals[name]), table.c[name].type).label(name) for name in (*_MEASURES, *_BUCKETS)]
    by = [totals.day, key, *([totals.skill_id] if dimension == "version" else []), totals.model]
    query = sa.select(sa.literal(dimension), totals.day, key, skill, totals.model, *sums).group_by(*by)
    query = query.where(totals.interface != "test")
    if dimension in ("skill", "version"):
        query = query.where(totals.skill_id != "")
    if dimension == "version":
        query = query.where(totals.runs > 0)
    return sa.insert(table).from_select([column.name for column in table.columns], query)
