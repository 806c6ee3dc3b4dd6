"""Searching for a part of a word among very many skills: by the trigrams of its id, name and description.

In PostgreSQL that is one GIN index of the extension pg_trgm, which a role may not always make; in SQLite a table of FTS5
that triggers keep. Either only gives candidates: that the part is in them, in any case of its letters, is
checked in each. So the results are the same with an index and without one, and parts of fewer than three characters need
none.
"""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Final

from sqlalchemy import bindparam, or_, text
from sqlalchemy.exc import DBAPIError

from skillyard.database.dialects import SafeText
from skillyard.database.registry_tables import skill_definitions

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Connection, TextClause


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
