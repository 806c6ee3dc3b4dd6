"""Priorities, attempts and schedules of runs, and what a queue has to know to choose the next one."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "r0007"
down_revision = "r0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make them; the defaults are for processes of the release before, which may still write."""
    op.add_column("runs", sa.Column("priority", sa.Integer(), nullable=False, server_default="0"))
    op.add_column("runs", sa.Column("attempt", sa.Integer(), nullable=False, server_default="1"))
    op.add_column("runs", sa.Column("schedule", sa.Text()))
    op.create_index("ix_runs_schedule_created_at", "runs", ["schedule", "created_at"])
    op.add_column("handovers", sa.Column("priority", sa.Integer(), nullable=False, server_default="0"))
    op.add_column("handovers", sa.Column("attempts", sa.Integer(), nullable=False, server_default="1"))
    op.add_column("handovers", sa.Column("waiting", sa.Boolean(), nullable=False, server_default=sa.true()))
    op.add_column("handovers", sa.Column("ready_at", sa.DateTime(timezone=True)))
    op.execute("UPDATE handovers SET waiting = (request IS NOT NULL)")
    op.create_index("ix_handovers_pool_waiting_priority", "handovers", ["pool", "waiting", "priority"])
    _attempts()
    _schedules()


def _moment(name: str, *, nullable: bool = False) -> sa.Column[object]:
    return sa.Column(name, sa.DateTime(timezone=True), nullable=nullable)


def _text(name: str, *, nullable: bool = False) -> sa.Column[str]:
    return sa.Column(name, sa.Text(), nullable=nullable)


def _attempts() -> None:
    op.create_table(
        "attempts",
        _text("run_id"),
        sa.Column("number", sa.Integer(), nullable=False),
        _text("owner"),
        _text("error_code"),
        _text("error_message", nullable=True),
        _moment("started_at", nullable=True),
        _moment("finished_at"),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name="fk_attempts_run_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("run_id", "number", name="pk_attempts"),
    )


def _schedules() -> None:
    op.create_table(
        "schedules",
        _text("name"),
        _text("skill"),
        sa.Column("parameters", sa.JSON(none_as_null=True), nullable=False),
        sa.Column("context", sa.JSON(none_as_null=True), nullable=False),
        _text("cron", nullable=True),
        _text("time_zone"),
        _text("missed"),
        sa.Column("priority", sa.Integer(), nullable=False),
        _text("digest", nullable=True),
        sa.Column("paused", sa.Boolean(), nullable=False),
        _moment("created_at"),
        _moment("next_at", nullable=True),
        _moment("last_at", nullable=True),
        _text("last_run", nullable=True),
        sa.CheckConstraint("missed IN ('skip', 'once', 'all')", name="ck_schedules_missed"),
        sa.PrimaryKeyConstraint("name", name="pk_schedules"),
    )
    op.create_index("ix_schedules_next_at", "schedules", ["next_at"])
