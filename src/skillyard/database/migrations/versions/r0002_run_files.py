"""What a run was given on its command line and what it used, the files that travel with runs, and heartbeats of turns."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "r0002"
down_revision = "r0001"
branch_labels = None
depends_on = None

_JSON = sa.JSON(none_as_null=True)


def upgrade() -> None:
    """Add them; rows of before have nulls."""
    for name in ("arguments", "packages", "files"):
        op.add_column("runs", sa.Column(name, _JSON))
        op.add_column("schedules", sa.Column(name, _JSON))
    op.add_column("runs", sa.Column("exit_code", sa.Integer()))
    op.add_column("runs", sa.Column("memory_usage", sa.BigInteger()))
    op.add_column("schedules", sa.Column("entry", sa.Text()))
    op.add_column("schedules", sa.Column("workspace", sa.Text()))
    op.add_column("turns", sa.Column("seen_at", sa.DateTime(timezone=True)))
    op.create_table(
        "run_files",
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("origin", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("subject", "origin", "name", name="pk_run_files"),
    )
    op.create_index("ix_run_files_at", "run_files", ["at"])
