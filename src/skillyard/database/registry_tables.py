"""The tables of the registry: what is installed, in which versions, from where, and everything that was done about it.

Agents, keys and the audit log stand beside them, and what a hub shows beside its skills: stars, counts, tags. As in
`tables.py`, a change needs a migration.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import JSON, BigInteger, Boolean, CheckConstraint, Column, ForeignKey, Index, Integer, Table, UniqueConstraint

from skillyard.database.dialects import Instant, SafeText
from skillyard.database.tables import METADATA

_VERSION_STATES: Final = "status IN ('pending', 'downloading', 'validating', 'installing', 'active', 'deprecated', 'failed')"
_OPERATIONS: Final = "operation IN ('install', 'update', 'rollback', 'uninstall')"
_LOG_STATES: Final = "status IN ('pending', 'in_progress', 'success', 'failed')"

skill_definitions: Final = Table(
    "skill_definitions",
    METADATA,
    Column("skill_id", SafeText, primary_key=True),
    Column("name", SafeText, nullable=False),
    Column("description", SafeText, nullable=False),
    Column("trigger_keywords", JSON(none_as_null=True), nullable=False),
    Column("category", SafeText),
    Column("tags", JSON(none_as_null=True), nullable=False),
    Column("author", SafeText),
    Column("license", SafeText),
    Column("homepage_url", SafeText),
    Column("documentation_url", SafeText),
    Column("icon_url", SafeText),
    Column("current_version", SafeText),  # the install version
    Column("is_active", Boolean, nullable=False),
    Column("skill_md_content", SafeText),
    Column("skill_md_hash", SafeText),
    Column("file_inventory", JSON(none_as_null=True)),
    Column("edits", JSON(none_as_null=True)),  # a person's values in place of those in SKILL.md, by column
    Column("created_by", SafeText),
    Column("created_at", Instant, nullable=False),
    Column("updated_at", Instant, nullable=False),
    Index(None, "is_active", "skill_id"),
    Index(None, "name"),
)

skill_versions: Final = Table(
    "skill_versions",
    METADATA,
    Column("skill_id", SafeText, ForeignKey("skill_definitions.skill_id", ondelete="CASCADE"), primary_key=True),
    Column("version", SafeText, primary_key=True),  # the install version: a UTC time
    Column("declared_version", SafeText),  # the one in SKILL.md, if any
    Column("status", SafeText, nullable=False),
    Column("operation_id", SafeText),
    Column("source_type", SafeText, nullable=False),
    Column("origin", JSON(none_as_null=True), nullable=False),
    Column("package_path", SafeText, nullable=False),
    Column("digest", SafeText, nullable=False),
    Column("checksum_sha256", SafeText),  # of the archive or file that was downloaded
    Column("package_digest", SafeText),  # of the package in the store, when there is one
    Column("size_bytes", BigInteger, nullable=False),
    Column("skill_md_content", SafeText),
    Column("skill_md_hash", SafeText),
    Column("file_inventory", JSON(none_as_null=True)),
    Column("powers", JSON(none_as_null=True)),
    Column("findings", JSON(none_as_null=True)),
    Column("signer", SafeText),
    Column("installed_by", SafeText),
    Column("installed_at", Instant),
    Column("deprecated_at", Instant),
    Column("deprecated_reason", SafeText),
    Column("yanked_at", Instant),
    Column("yanked_reason", SafeText),
    Column("removed_at", Instant),  # when its files were deleted
    Column("created_at", Instant, nullable=False),
    CheckConstraint(_VERSION_STATES, name="status"),
    Index(None, "digest"),
    Index(None, "operation_id"),
)

install_logs: Final = Table(
    "install_logs",
    METADATA,
    Column("id", SafeText, primary_key=True),
    Column("operation_id", SafeText, nullable=False),
    Column("skill_id", SafeText),  # None until the package has been read
    Column("version", SafeText),
    Column("operation", SafeText, nullable=False),
    Column("status", SafeText, nullable=False),
    Column("step", SafeText),
    Column("progress", Integer, nullable=False),
    Column("message", SafeText),
    Column("error_code", SafeText),
    Column("error_message", SafeText),
    Column("source", SafeText),
    Column("steps", JSON(none_as_null=True), nullable=False),  # name, progress, duration_ms of each
    Column("details", JSON(none_as_null=True)),
    Column("started_at", Instant, nullable=False),
    Column("completed_at", Instant),
    Column("duration_ms", Integer),
    CheckConstraint(_OPERATIONS, name="operation"),
    CheckConstraint(_LOG_STATES, name="status"),
    CheckConstraint("progress >= 0 AND progress <= 100", name="progress"),
    Index(None, "operation_id"),
    Index(None, "skill_id", "started_at"),
    Index(None, "started_at"),
)

agents: Final = Table(
    "agents",
    METADATA,
    Column("id", SafeText, primary_key=True),
    Column("name", SafeText, nullable=False),
    Column("description", SafeText),
    Column("system_prompt", SafeText),
    Column("model", SafeText),
    Column("settings", JSON(none_as_null=True), nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("updated_at", Instant, nullable=False),
    UniqueConstraint("name"),
)

agent_skills: Final = Table(
    "agent_skills",
    METADATA,
    Column("agent_id", SafeText, ForeignKey("agents.id", ondelete="CASCADE"), primary_key=True),
    Column("skill_id", SafeText, primary_key=True),
    Column("position", Integer, nullable=False),
    Column("version_lock", SafeText),  # None follows the current version
    Column("auto_update", Boolean, nullable=False),
)

organisations: Final = Table(  # beside the one that is always there, `default`
    "organisations", METADATA, Column("name", SafeText, primary_key=True), Column("created_at", Instant, nullable=False)
)

api_keys: Final = Table(
    "api_keys",
    METADATA,
    Column("id", SafeText, primary_key=True),
    Column("name", SafeText, nullable=False),
    Column("organisation", SafeText, nullable=False, server_default="default"),
    Column("prefix", SafeText, nullable=False, server_default=""),  # its first characters, to recognise it by
    Column("hash", SafeText, nullable=False),  # the key itself is never kept
    Column("scopes", JSON(none_as_null=True), nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("expires_at", Instant),
    Column("revoked_at", Instant),
    Column("last_used_at", Instant),
    UniqueConstraint("hash"),
)

api_sessions: Final = Table(  # a page that signed in with a key
    "api_sessions",
    METADATA,
    Column("hash", SafeText, primary_key=True),  # of the cookie's secret
    Column("key_id", SafeText, ForeignKey("api_keys.id", ondelete="CASCADE"), nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("expires_at", Instant, nullable=False),
    Index(None, "key_id"),
    Index(None, "expires_at"),
)

webhooks: Final = Table(  # addresses at which others report events
    "webhooks",
    METADATA,
    Column("name", SafeText, primary_key=True),
    Column("event", SafeText, nullable=False),
    Column("organisation", SafeText, nullable=False),
    Column("owner", SafeText, nullable=False),  # whose the runs are
    Column("made_by", SafeText, nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("id_field", SafeText),
    Column("key_id", SafeText),  # None: made at the server's machine
    Column("last_used_at", Instant),
    Column("secret", SafeText, nullable=False),  # a signature cannot be checked with a hash of it
)

audit_events: Final = Table(
    "audit_events",
    METADATA,
    Column("id", SafeText, primary_key=True),
    Column("at", Instant, nullable=False),
    Column("actor", SafeText, nullable=False),
    Column("action", SafeText, nullable=False),  # install, deprecate, yank, …
    Column("subject", SafeText, nullable=False),
    Column("outcome", SafeText, nullable=False),
    Column("details", JSON(none_as_null=True)),
    Column("organisation", SafeText, nullable=False, server_default="default"),
    Column("request_id", SafeText),
    Column("address", SafeText),
    Index(None, "at"),
    Index(None, "subject", "at"),
    Index(None, "actor", "at"),
)
skill_stars: Final = Table(
    "skill_stars",
    METADATA,
    Column("skill_id", SafeText, ForeignKey("skill_definitions.skill_id", ondelete="CASCADE"), primary_key=True),
    Column("owner", SafeText, primary_key=True),  # whose star it is
    Column("starred_at", Instant, nullable=False),
)

skill_counts: Final = Table(
    "skill_counts",
    METADATA,
    Column("skill_id", SafeText, ForeignKey("skill_definitions.skill_id", ondelete="CASCADE"), primary_key=True),
    Column("downloads", Integer, nullable=False),
    Column("installs", Integer, nullable=False),
)

skill_callers: Final = Table(  # the callers that were counted for a skill
    "skill_callers",
    METADATA,
    Column("skill_id", SafeText, ForeignKey("skill_definitions.skill_id", ondelete="CASCADE"), primary_key=True),
    Column("owner", SafeText, primary_key=True),
    Column("what", SafeText, primary_key=True),  # downloads, installs
    Column("day", Integer, nullable=False),  # the last one, in days since 1970
)

skill_tags: Final = Table(
    "skill_tags",
    METADATA,
    Column("skill_id", SafeText, ForeignKey("skill_definitions.skill_id", ondelete="CASCADE"), primary_key=True),
    Column("tag", SafeText, primary_key=True),
    Column("version", SafeText, nullable=False),  # the install version it stands for
)
