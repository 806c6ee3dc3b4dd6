"""The records: runs, memories, approvals, installed skills in SQLite, or in PostgreSQL when a URL names one.

`with Database.open(url).write() as connection: connection.execute(insert(runs).values(...))`. This room decides nothing: it
stores what services tell it. It takes half a second to import, so whoever lists, shows or tells skills never does.
"""

from __future__ import annotations

from skillyard.database.address import database_url, separate_url, shown_url
from skillyard.database.bell import ENDED, NEWS, Bell, heard
from skillyard.database.chat_tables import attachments, conversations, trail, turns
from skillyard.database.connection import Database
from skillyard.database.copying import (
    CopiedTable,
    compare_records,
    copy_records,
    count_records,
    has_records,
    replace_records,
)
from skillyard.database.dialects import (
    announce,
    clock_of,
    insert_if_new,
    insert_or_update,
    make_schema,
    one_at_a_time,
    with_any_word,
)
from skillyard.database.hub_tables import skill_callers, skill_counts, skill_stars, skill_tags
from skillyard.database.integrity import DatabaseCheck
from skillyard.database.live_tables import happenings, questions, session_approvals, tool_sessions
from skillyard.database.migrating import HEAD, DatabaseStatus
from skillyard.database.part_index import with_part
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
from skillyard.database.repair import RepairedTable, RepairReport, repair_file
from skillyard.database.tables import METADATA, approvals, memories, memory_tags, runs, steps, worker_pools, workers
from skillyard.database.telling import (
    Happening,
    forget_happenings,
    forget_old_happenings,
    happenings_of,
    tell_happenings,
)

__all__ = [
    "ENDED",
    "HEAD",
    "METADATA",
    "NEWS",
    "Bell",
    "CopiedTable",
    "Database",
    "DatabaseCheck",
    "DatabaseStatus",
    "Happening",
    "RepairReport",
    "RepairedTable",
    "agent_skills",
    "agents",
    "announce",
    "api_keys",
    "api_sessions",
    "approvals",
    "attachments",
    "attempts",
    "audit_events",
    "clock_of",
    "compare_records",
    "conversations",
    "copy_records",
    "count_records",
    "database_url",
    "forget_happenings",
    "forget_old_happenings",
    "handovers",
    "happenings",
    "happenings_of",
    "has_records",
    "heard",
    "insert_if_new",
    "insert_or_update",
    "install_logs",
    "make_schema",
    "memories",
    "memory_tags",
    "one_at_a_time",
    "organisations",
    "questions",
    "repair_file",
    "replace_records",
    "runs",
    "schedules",
    "separate_url",
    "session_approvals",
    "shown_url",
    "skill_callers",
    "skill_counts",
    "skill_definitions",
    "skill_stars",
    "skill_tags",
    "skill_versions",
    "steps",
    "tell_happenings",
    "tool_sessions",
    "trail",
    "turns",
    "with_any_word",
    "with_part",
    "worker_pools",
    "workers",
]
