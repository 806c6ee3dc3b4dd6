"""Worker pools, what a run asked the network for, and the kind that did its work."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "r0003"
down_revision = "r0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make them."""
    op.add_column("runs", sa.Column("contacts", sa.JSON(none_as_null=True)))
    op.add_column("runs", sa.Column("ran_as", sa.Text()))
    _workers()


def _workers() -> None:
    op.create_table(
        "workers",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("concurrency", sa.Integer(), nullable=False),
        sa.Column("draining", sa.Boolean(), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("seen_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_workers"),
    )
    op.create_index("ix_workers_owner", "workers", ["owner"])
    op.create_index("ix_workers_seen_at", "workers", ["seen_at"])
    op.create_table(
        "worker_pools",
        sa.Column("pool", sa.Text(), nullable=False),
        sa.Column("worker_id", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["worker_id"], ["workers.id"], name="fk_worker_pools_worker_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("pool", "worker_id", name="pk_worker_pools"),
    )
    op.create_index("ix_worker_pools_worker_id", "worker_pools", ["worker_id"])
    op.create_table(
        "handovers",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("pool", sa.Text(), nullable=False),
        sa.Column("request", sa.Text()),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_handovers_run_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", name="pk_handovers"),
    )
    op.create_index("ix_handovers_pool", "handovers", ["pool"])
