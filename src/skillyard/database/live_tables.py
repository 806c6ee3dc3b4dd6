"""The tables of what goes on now, for every process of the database to see; nothing here outlives what it is about."""

from __future__ import annotations

from typing import Final

from sqlalchemy import JSON, Column, Index, Integer, Table

from skillyard.database.columns import Instant, SafeText
from skillyard.database.tables import METADATA

__all__ = ["happenings", "questions", "session_approvals", "tool_sessions"]

happenings: Final = Table(
    "happenings",
    METADATA,
    Column("subject", SafeText, primary_key=True),  # a run, a turn of a conversation, an operation
    Column("number", Integer, primary_key=True, autoincrement=False),  # its place among those of the subject, from 1
    Column("body", JSON(none_as_null=True), nullable=False),
    Column("at", Instant, nullable=False),
    Index(None, "at"),
)

questions: Final = Table(
    "questions",
    METADATA,
    Column("id", SafeText, primary_key=True),
    Column("session", SafeText, nullable=False),
    Column("workspace", SafeText, nullable=False),
    Column("skill_id", SafeText, nullable=False),
    Column("skill_name", SafeText, nullable=False),
    Column("description", SafeText, nullable=False),
    Column("digest", SafeText, nullable=False),
    Column("asked_by", SafeText, nullable=False),
    Column("run_id", SafeText),
    Column("owner", SafeText, nullable=False),  # the process that waits for the answer
    Column("asked_at", Instant, nullable=False),
    Column("seen_at", Instant, nullable=False),  # when it last said that it waits
    Column("expires_at", Instant, nullable=False),
    Column("decision", SafeText),
    Column("reason", SafeText),
    Index(None, "skill_id", "digest"),
    Index(None, "run_id"),
)

session_approvals: Final = Table(
    "session_approvals",
    METADATA,
    Column("session", SafeText, primary_key=True),
    Column("skill_id", SafeText, primary_key=True),
    Column("digest", SafeText, nullable=False),
    Column("expires_at", Instant, nullable=False),
)

tool_sessions: Final = Table(
    "tool_sessions",
    METADATA,
    Column("owner", SafeText, primary_key=True),
    Column("name", SafeText, primary_key=True),
    Column("state", JSON(none_as_null=True), nullable=False),
    Column("at", Instant, nullable=False),
)
