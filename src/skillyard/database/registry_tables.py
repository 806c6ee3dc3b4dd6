"""The tables of the registry: what is installed, in which versions, from where, what was done about it; and their index.

Agents, keys and the audit log stand beside them, and what people add to skills: stars, collections, counts, tags. As in
`tables.py`, a change needs a migration.

The index finds a part of a word among very many skills: by the trigrams of their id, name and description. In PostgreSQL that
is one GIN index of the extension pg_trgm, which a role may not always make; in SQLite a table of FTS5 that triggers keep.
Either only gives candidates: that the part is in them, in any case of its letters, is checked in each. So the results are the
same with an index and without one, and parts of fewer than three characters need none.
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Final

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Integer,
    Table,
    UniqueConstraint,
    bindparam,
    or_,
    text,
)
from sqlalchemy.exc import DBAPIError

from skillyard.database.dialects import Instant, SafeText
from skillyard.database.tables import METADATA

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Connection, TextClause

_APPROVAL_STATES: Final = "state IN ('waiting', 'approved', 'withdrawn')"
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

oauth_clients: Final = Table(  # programs that people may let sign in
    "oauth_clients",
    METADATA,
    Column("id", SafeText, primary_key=True),  # one of ours, or the address of the client's own document
    Column("name", SafeText, nullable=False),
    Column("redirect_uris", JSON(none_as_null=True), nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("fetched_at", Instant),  # when its document was read; none of a client that registered
    Column("used_at", Instant),  # when somebody last allowed it something, or it renewed a token
    Index(None, "used_at"),
)

oauth_grants: Final = Table(  # what a person allowed a program, with its code and its tokens
    "oauth_grants",
    METADATA,
    Column("id", SafeText, primary_key=True),
    Column("client_id", SafeText, ForeignKey("oauth_clients.id", ondelete="CASCADE"), nullable=False),
    Column("key_id", SafeText, ForeignKey("api_keys.id", ondelete="CASCADE"), nullable=False),
    Column("scopes", JSON(none_as_null=True), nullable=False),
    Column("resource", SafeText, nullable=False),  # the address that the tokens are for
    Column("redirect_uri", SafeText, nullable=False),
    Column("challenge", SafeText, nullable=False),  # S256 of the client's secret for this code
    Column("code_hash", SafeText, nullable=False),
    Column("code_used_at", Instant),
    Column("family_hash", SafeText),  # of what all refresh tokens of the grant have in common
    Column("refresh_hash", SafeText),  # of the newest
    Column("access_hash", SafeText),
    Column("access_scopes", JSON(none_as_null=True)),
    Column("access_expires_at", Instant),
    Column("created_at", Instant, nullable=False),
    Column("expires_at", Instant, nullable=False),  # of the code, then of the refresh token
    Column("last_used_at", Instant),
    UniqueConstraint("code_hash"),
    UniqueConstraint("family_hash"),
    UniqueConstraint("access_hash"),
    Index(None, "client_id"),
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
collected_skills: Final = Table(  # skills that somebody marked, with a star or under a name
    "collected_skills",
    METADATA,
    Column("owner", SafeText, primary_key=True),
    Column("collection", SafeText, primary_key=True),  # its name; empty: the skills with a star
    Column("skill_id", SafeText, primary_key=True),  # of the catalog: user:pdf
    Column("added_at", Instant, nullable=False),
    Index(None, "collection", "skill_id"),
)

saved_searches: Final = Table(  # searches and filters of the catalog that somebody keeps under a name
    "saved_searches",
    METADATA,
    Column("owner", SafeText, primary_key=True),
    Column("name", SafeText, primary_key=True),
    Column("search", JSON(none_as_null=True), nullable=False),
    Column("saved_at", Instant, nullable=False),
)

Table(  # of programs before r0010: what they wrote until then is in `collected_skills`
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

skill_owners: Final = Table(  # who may change a skill whose name somebody claimed by publishing it; none: everybody
    "skill_owners",
    METADATA,
    Column("skill_id", SafeText, ForeignKey("skill_definitions.skill_id", ondelete="CASCADE"), primary_key=True),
    Column("owner", SafeText, primary_key=True),  # the name of a key, or * for everybody
    Column("since", Instant, nullable=False),
)

version_approvals: Final = Table(  # exact contents that wait for a person's approval, have it, or lost it
    "version_approvals",
    METADATA,
    Column("skill_id", SafeText, ForeignKey("skill_definitions.skill_id", ondelete="CASCADE"), primary_key=True),
    Column("digest", SafeText, primary_key=True),
    Column("state", SafeText, nullable=False),
    Column("reasons", JSON(none_as_null=True), nullable=False),  # why it needs one, a sentence each
    Column("asked_by", SafeText, nullable=False),  # who installed or published it
    Column("asked_by_member", Boolean, nullable=False),  # with a key; else the user of the machine
    Column("asked_at", Instant, nullable=False),
    Column("decided_by", SafeText),
    Column("decided_at", Instant),
    Column("reason", SafeText),
    CheckConstraint(_APPROVAL_STATES, name="state"),
    Index(None, "state"),
)

ALL_TABLES: Final = METADATA
"""Those of this module and of `tables`: who looks at every table takes it from here, so that all of them are there."""


_NAME: Final = "skill_parts"
_LONG: Final = 3  # characters of a trigram
_ENOUGH: Final = 12  # trigrams of a long part in a query
_SINCE: Final = (3, 34)  # the SQLite that knows trigrams
_FIELDS: Final = (skill_definitions.c.skill_id, skill_definitions.c.name, skill_definitions.c.description)


def has_substring_index(connection: Connection) -> bool:
    """Whether a part of a word can be searched without reading every skill."""
    if connection.dialect.name == "postgresql":
        query = "SELECT to_regclass('skill_parts') IS NOT NULL"
    else:
        query = "SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE name = 'skill_parts')"
    return bool(connection.execute(text(query)).scalar())


def make_substring_index(connection: Connection) -> bool:
    """Make the index where there is none and the database can; whether it is there."""
    if has_substring_index(connection):
        return True
    if connection.dialect.name == "postgresql":
        return _make_gin(connection)
    if sqlite3.sqlite_version_info < _SINCE:
        return False
    for statement in _FTS5:
        connection.exec_driver_sql(statement)
    return True


def containing_substring(connection: Connection, part: str) -> list[ColumnElement[bool] | TextClause]:
    """The conditions that `part` is in the id, name or description of a skill; to be used in this transaction."""
    exactly = or_(*(field.icontains(part, autoescape=True) for field in _FIELDS))
    if connection.dialect.name == "postgresql":
        # a plan that is kept for every part would read all skills for one that few have
        connection.execute(text("SET LOCAL plan_cache_mode = force_custom_plan"))
        return [exactly]
    trigrams = _trigrams(SafeText().process_bind_param(part, connection.dialect) or "")
    if not trigrams or not has_substring_index(connection):
        return [exactly]
    query = " AND ".join('"{}"'.format(trigram.replace('"', '""')) for trigram in trigrams)
    return [text(_MAY_FIT).bindparams(bindparam("trigrams", query)), exactly]


def _trigrams(part: str) -> list[str]:
    """Some of the trigrams of `part`, its first and its last among them."""
    trigrams = [part[start : start + _LONG] for start in range(len(part) - _LONG + 1)]
    return list(dict.fromkeys([*trigrams[:: -(-len(trigrams) // _ENOUGH) or 1], *trigrams[-1:]]))


def _make_gin(connection: Connection) -> bool:
    """Make it with the extension, wherever that is; without the right to make the extension there is no index."""
    schema = connection.execute(text(_SCHEMA_OF_IT)).scalar()
    if schema is None:
        try:
            with connection.begin_nested():
                connection.execute(text(_MAKE_IT))
        except DBAPIError:
            return False
        schema = connection.execute(text(_SCHEMA_OF_IT)).scalar()
    quoted = connection.dialect.identifier_preparer.quote(str(schema))
    columns = ", ".join(f"{field.name} {quoted}.gin_trgm_ops" for field in _FIELDS)
    connection.execute(text(f"CREATE INDEX {_NAME} ON skill_definitions USING gin ({columns})"))
    return True


_SCHEMA_OF_IT: Final = """
    SELECT nspname FROM pg_extension JOIN pg_namespace ON pg_namespace.oid = extnamespace WHERE extname = 'pg_trgm'
"""
_MAKE_IT: Final = "CREATE EXTENSION pg_trgm WITH SCHEMA public"  # one for the database, whichever schema the tables are in
_MAY_FIT: Final = """
    skill_definitions.skill_id IN (
        SELECT skill_id FROM skill_parts_rows WHERE number IN (SELECT rowid FROM skill_parts WHERE skill_parts MATCH :trigrams)
    )
"""
_ADD: Final = (
    "INSERT INTO skill_parts(rowid, words)"
    " SELECT number, new.skill_id || char(10) || new.name || char(10) || new.description"
    " FROM skill_parts_rows WHERE skill_id = new.skill_id;"
)
_TAKE: Final = (
    "INSERT INTO skill_parts(skill_parts, rowid, words)"
    " SELECT 'delete', number, old.skill_id || char(10) || old.name || char(10) || old.description"
    " FROM skill_parts_rows WHERE skill_id = old.skill_id;"
)
_FTS5: Final = (  # the texts stay in their table alone; a number of our own, because VACUUM changes those of SQLite
    "CREATE TABLE skill_parts_rows (number INTEGER PRIMARY KEY, skill_id TEXT NOT NULL UNIQUE)",
    "CREATE VIRTUAL TABLE skill_parts USING fts5(words, content='', columnsize=0, detail='none', tokenize='trigram')",
    "INSERT INTO skill_parts_rows(skill_id) SELECT skill_id FROM skill_definitions",
    "INSERT INTO skill_parts(rowid, words) SELECT number, skill_id || char(10) || name || char(10) || description"
    " FROM skill_definitions JOIN skill_parts_rows USING (skill_id)",
    "CREATE TRIGGER skill_parts_added AFTER INSERT ON skill_definitions BEGIN"  # noqa: S608 - constants
    " INSERT INTO skill_parts_rows(skill_id) VALUES (new.skill_id); " + _ADD + " END",
    "CREATE TRIGGER skill_parts_removed AFTER DELETE ON skill_definitions BEGIN "  # noqa: S608 - constants
    + _TAKE
    + " DELETE FROM skill_parts_rows WHERE skill_id = old.skill_id; END",
    "CREATE TRIGGER skill_parts_changed AFTER UPDATE OF skill_id, name, description ON skill_definitions"  # noqa: S608 - constants
    " WHEN old.skill_id IS NOT new.skill_id OR old.name IS NOT new.name OR old.description IS NOT new.description BEGIN "
    + _TAKE
    + " UPDATE skill_parts_rows SET skill_id = new.skill_id WHERE skill_id = old.skill_id; "
    + _ADD
    + " END",
)
