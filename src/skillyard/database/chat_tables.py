"""The tables of conversations: their turns with everything that was said, their files, and the trail of the skills in them."""

from __future__ import annotations

from typing import Final

from sqlalchemy import JSON, BigInteger, Boolean, CheckConstraint, Column, ForeignKey, Index, Integer, Table, UniqueConstraint

from skillyard.database.columns import Instant, SafeText
from skillyard.database.tables import METADATA

__all__ = ["attachments", "conversations", "trail", "turns"]

_TURN_STATES: Final = "state IN ('running', 'waiting', 'done', 'failed', 'stopped', 'interrupted')"

conversations: Final = Table(
    "conversations",
    METADATA,
    Column("id", SafeText, primary_key=True),
    Column("owner", SafeText, nullable=False),  # whoever began it: nobody else sees it
    Column("title", SafeText, nullable=False),
    Column("agent", SafeText),  # the name of an agent
    Column("model", SafeText),
    Column("settings", JSON(none_as_null=True), nullable=False),  # system prompt, pinned skills, whether tools are used, …
    Column("memory", JSON(none_as_null=True), nullable=False),  # the index shown last, versions held, what was compacted
    Column("created_at", Instant, nullable=False),
    Column("updated_at", Instant, nullable=False),
    Index(None, "owner", "updated_at"),
)

turns: Final = Table(
    "turns",
    METADATA,
    Column("id", SafeText, primary_key=True),
    Column("conversation_id", SafeText, ForeignKey("conversations.id", ondelete="CASCADE"), nullable=False),
    Column("number", Integer, nullable=False),
    Column("state", SafeText, nullable=False),
    Column("replaced", Boolean, nullable=False),  # by an edit or a retry: kept, and no longer part of the conversation
    Column("request", SafeText, nullable=False),
    Column("answer", SafeText, nullable=False),
    Column("messages", JSON(none_as_null=True), nullable=False),  # everything sent and received, as it goes on
    Column("events", JSON(none_as_null=True), nullable=False),  # what was shown
    Column("pending", JSON(none_as_null=True)),  # the questions that it waits for
    Column("model", SafeText),
    Column("usage", JSON(none_as_null=True)),
    Column("error_code", SafeText),
    Column("error_message", SafeText),
    Column("stop_asked", Boolean, nullable=False),
    Column("process", SafeText, nullable=False),  # which one works on it
    Column("created_at", Instant, nullable=False),
    Column("finished_at", Instant),
    UniqueConstraint("conversation_id", "number"),
    CheckConstraint(_TURN_STATES, name="state"),
    Index(None, "state"),
)

attachments: Final = Table(
    "attachments",
    METADATA,
    Column("conversation_id", SafeText, ForeignKey("conversations.id", ondelete="CASCADE"), primary_key=True),
    Column("name", SafeText, primary_key=True),  # its path in the work folder
    Column("origin", SafeText, nullable=False),  # user, or the id of the run that wrote it
    Column("media_type", SafeText, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("sha256", SafeText, nullable=False),
    Column("created_at", Instant, nullable=False),
)

trail: Final = Table(
    "trail",
    METADATA,
    Column("number", Integer, primary_key=True),
    Column("conversation_id", SafeText, ForeignKey("conversations.id", ondelete="CASCADE"), nullable=False),
    Column("turn_id", SafeText, nullable=False),
    Column("event", SafeText, nullable=False),  # offered, loaded, read, run, outcome
    Column("skill_id", SafeText),
    Column("detail", SafeText),  # a file, a run, how it ended
    Column("ok", Boolean, nullable=False),
    Column("tokens", Integer, nullable=False),
    Column("duration_ms", Integer, nullable=False),
    Column("at", Instant, nullable=False),
    Index(None, "conversation_id", "number"),
    Index(None, "skill_id", "event"),
)
