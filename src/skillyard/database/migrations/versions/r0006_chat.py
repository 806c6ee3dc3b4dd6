"""Conversations, their turns and files, and the trail of the skills in them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "r0006"
down_revision = "r0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make them."""
    _conversations()
    _turns()
    _attachments()
    _trail()


def _moment(name: str, *, nullable: bool = False) -> sa.Column[object]:
    return sa.Column(name, sa.DateTime(timezone=True), nullable=nullable)


def _text(name: str, *, nullable: bool = False) -> sa.Column[str]:
    return sa.Column(name, sa.Text(), nullable=nullable)


def _json(name: str, *, nullable: bool = False) -> sa.Column[object]:
    return sa.Column(name, sa.JSON(none_as_null=True), nullable=nullable)


def _of_conversation(table: str) -> sa.ForeignKeyConstraint:
    name = f"fk_{table}_conversation_id"
    return sa.ForeignKeyConstraint(["conversation_id"], ["conversations.id"], name=name, ondelete="CASCADE")


def _conversations() -> None:
    op.create_table(
        "conversations",
        _text("id"),
        _text("owner"),
        _text("title"),
        _text("agent", nullable=True),
        _text("model", nullable=True),
        _json("settings"),
        _json("memory"),
        _moment("created_at"),
        _moment("updated_at"),
        sa.PrimaryKeyConstraint("id", name="pk_conversations"),
    )
    op.create_index("ix_conversations_owner_updated_at", "conversations", ["owner", "updated_at"])


def _turns() -> None:
    states = "state IN ('running', 'waiting', 'done', 'failed', 'stopped', 'interrupted')"
    op.create_table(
        "turns",
        _text("id"),
        _text("conversation_id"),
        sa.Column("number", sa.Integer(), nullable=False),
        _text("state"),
        sa.Column("replaced", sa.Boolean(), nullable=False),
        _text("request"),
        _text("answer"),
        _json("messages"),
        _json("events"),
        _json("pending", nullable=True),
        _text("model", nullable=True),
        _json("usage", nullable=True),
        _text("error_code", nullable=True),
        _text("error_message", nullable=True),
        sa.Column("stop_asked", sa.Boolean(), nullable=False),
        _text("process"),
        _moment("created_at"),
        _moment("finished_at", nullable=True),
        _of_conversation("turns"),
        sa.PrimaryKeyConstraint("id", name="pk_turns"),
        sa.UniqueConstraint("conversation_id", "number", name="uq_turns_conversation_id"),
        sa.CheckConstraint(states, name="state"),
    )
    op.create_index("ix_turns_state", "turns", ["state"])


def _attachments() -> None:
    op.create_table(
        "attachments",
        _text("conversation_id"),
        _text("name"),
        _text("origin"),
        _text("media_type"),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        _text("sha256"),
        _moment("created_at"),
        _of_conversation("attachments"),
        sa.PrimaryKeyConstraint("conversation_id", "name", name="pk_attachments"),
    )


def _trail() -> None:
    op.create_table(
        "trail",
        sa.Column("number", sa.Integer(), nullable=False),
        _text("conversation_id"),
        _text("turn_id"),
        _text("event"),
        _text("skill_id", nullable=True),
        _text("detail", nullable=True),
        sa.Column("ok", sa.Boolean(), nullable=False),
        sa.Column("tokens", sa.Integer(), nullable=False),
        sa.Column("duration_ms", sa.Integer(), nullable=False),
        _moment("at"),
        _of_conversation("trail"),
        sa.PrimaryKeyConstraint("number", name="pk_trail"),
    )
    op.create_index("ix_trail_conversation_id_number", "trail", ["conversation_id", "number"])
    op.create_index("ix_trail_skill_id_event", "trail", ["skill_id", "event"])
