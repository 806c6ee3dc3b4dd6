"""The records: runs, memories, approvals, installed skills in SQLite, or in PostgreSQL when a URL names one.

`with Database.open(url).write() as connection: connection.execute(insert(runs).values(...))`. This room decides nothing: it
stores what services tell it. It takes half a second to import, so whoever lists, shows or tells skills never does.
"""

from __future__ import annotations

from skillyard.database.address import database_url, separate_url, shown_url
from skillyard.database.chat_tables import attachments, conversations, trail, turns
from skillyard.database.connection import Database
from skillyard.database.copying import CopiedTable, compare_records, copy_records, count_records, has_records, replace_records
from skillyard.database.dialects import announce, insert_or_update, make_schema, with_any_word
from skillyard.database.migrating import HEAD, DatabaseStatus
from skillyard.database.queue_tables import attempts, handovers, schedules
from skillyard.database.registry_tables import (
    agent_skills,
    agents,
    api_keys,
    api_sessions,
    audit_events,
    install_logs,
    organisations,
    skill_definitions,
    skill_versions,
)
from skillyard.database.tables import METADATA, approvals, memories, memory_tags, runs, steps, worker_pools, workers

__all__ = [
    "HEAD",
    "METADATA",
    "CopiedTable",
    "Database",
    "DatabaseStatus",
    "agent_skills",
    "agents",
    "announce",
    "api_keys",
    "api_sessions",
    "approvals",
    "attachments",
    "attempts",
    "audit_events",
    "compare_records",
    "conversations",
    "copy_records",
    "count_records",
    "database_url",
    "handovers",
    "has_records",
    "insert_or_update",
    "install_logs",
    "make_schema",
    "memories",
    "memory_tags",
    "organisations",
    "replace_records",
    "runs",
    "schedules",
    "separate_url",
    "shown_url",
    "skill_definitions",
    "skill_versions",
    "steps",
    "trail",
    "turns",
    "with_any_word",
    "worker_pools",
    "workers",
]
