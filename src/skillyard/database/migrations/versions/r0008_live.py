"""What goes on now, for every process to see: happenings, open questions, approvals of sessions, sessions of tools."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "r0008"
down_revision = "r0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make them; a run says how much it printed, because its record keeps only the end of that."""
    op.add_column("runs", sa.Column("printed", sa.JSON(none_as_null=True)))
    _happenings()
    _questions()
    _session_approvals()
    _tool_sessions()


def _moment(name: str) -> sa.Column[object]:
    return sa.Column(name, sa.DateTime(timezone=True), nullable=False)


def _text(name: str, *, nullable: bool = False) -> sa.Column[str]:
    return sa.Column(name, sa.Text(), nullable=nullable)


def _json(name: str) -> sa.Column[object]:
    return sa.Column(name, sa.JSON(none_as_null=True), nullable=False)


def _happenings() -> None:
    op.create_table(
        "happenings",
        _text("subject"),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        _json("body"),
        _moment("at"),
        sa.PrimaryKeyConstraint("subject", "number", name="pk_happenings"),
    )
    op.create_index("ix_happenings_at", "happenings", ["at"])


def _questions() -> None:
    op.create_table(
        "questions",
        _text("id"),
        _text("session"),
        _text("workspace"),
        _text("skill_id"),
        _text("skill_name"),
        _text("description"),
        _text("digest"),
        _text("asked_by"),
        _text("run_id", nullable=True),
        _text("owner"),
        _moment("asked_at"),
        _moment("seen_at"),
        _moment("expires_at"),
        _text("decision", nullable=True),
        _text("reason", nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_questions"),
    )
    op.create_index("ix_questions_skill_id_digest", "questions", ["skill_id", "digest"])
    op.create_index("ix_questions_run_id", "questions", ["run_id"])


def _session_approvals() -> None:
    op.create_table(
        "session_approvals",
        _text("session"),
        _text("skill_id"),
        _text("digest"),
        _moment("expires_at"),
        sa.PrimaryKeyConstraint("session", "skill_id", name="pk_session_approvals"),
    )


def _tool_sessions() -> None:
    op.create_table(
        "tool_sessions",
        _text("owner"),
        _text("name"),
        _json("state"),
        _moment("at"),
        sa.PrimaryKeyConstraint("owner", "name", name="pk_tool_sessions"),
    )
