"""The few things SQLite and PostgreSQL do differently, and types of columns that mean the same in both.

No other module holds SQL of one of them only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import (
    ColumnElement,
    Connection,
    DateTime,
    Dialect,
    Engine,
    Select,
    Table,
    Text,
    create_engine,
    event,
    func,
    select,
    text,
    type_coerce,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError
from sqlalchemy.types import TypeDecorator

from skillyard.database.driver_errors import translate_refusal
from skillyard.database.sqlite_file import sqlite_engine
from skillyard.errors import DatabaseUnavailable

if TYPE_CHECKING:
    from sqlalchemy import Insert, RowMapping
    from sqlalchemy.engine import URL


_CONNECTIONS: Final = 8
_SCHEMA: Final = "-csearch_path="
_LOCK: Final = 0x534B594452  # any number that is always the same: the name of the lock in PostgreSQL
_LOCK_CONFLICT_CODES: Final = ("55P03", "40P01")  # lock_not_available, deadlock_detected
_REPLACEMENT: Final = "\ufffd"


class Instant(TypeDecorator[datetime]):
    """A moment in UTC, aware of it also where the database is not."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> Any:
        """Store the moment in UTC."""
        return None if value is None else value.astimezone(UTC)

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        """Give it back in UTC."""
        if not isinstance(value, datetime):
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class SafeText(TypeDecorator[str]):
    """Text from anywhere; NUL and lone surrogates, which some databases refuse, become U+FFFD."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Store what every database takes."""
        if value is None:
            return None
        return value.replace("\0", _REPLACEMENT).encode("utf-8", "surrogatepass").decode("utf-8", "replace")


def make_engine(url: URL) -> Engine:
    """A new engine for the URL.

    Raises:
        DatabaseUnavailable: the driver is not installed.
    """
    if url.get_backend_name() == "sqlite":
        return sqlite_engine(url)
    engine = _postgresql(url)
    event.listen(engine, "handle_error", translate_refusal)
    return engine


def _postgresql(url: URL) -> Engine:
    try:
        return create_engine(
            url,
            pool_size=1 if _SCHEMA in str(url.query.get("options", "")) else _CONNECTIONS,  # one of many shares the server
            max_overflow=_CONNECTIONS,
            pool_pre_ping=True,
            connect_args={"connect_timeout": 10},
        )
    except ImportError:
        hint = "pip install 'psycopg[binary]>=3.2' 'procrastinate>=3'"
        raise DatabaseUnavailable("the driver for PostgreSQL is not installed", hint=hint) from None


def database_now(connection: Connection) -> ColumnElement[datetime]:
    """The moment by the clock of the database, which all of its servers share."""
    if connection.dialect.name == "sqlite":
        return type_coerce(
            func.strftime("%Y-%m-%d %H:%M:%f000", "now"), Instant()
        )  # CURRENT_TIMESTAMP knows whole seconds only
    return func.current_timestamp(type_=Instant())


def take_global_lock(connection: Connection) -> None:
    """Take an exclusive lock until this transaction ends; in SQLite writers exclude each other anyway.

    For migrations, and for names that must be checked before they are assigned.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})


def limit_lock_wait(connection: Connection) -> None:
    """Let this transaction fail rather than wait for a table that is in use, because all others would wait behind it.

    It ends before PostgreSQL looks for a deadlock (after a second), so that it is never the others who are ended.
    """
    if connection.dialect.name == "postgresql":
        connection.execute(text("SET LOCAL lock_timeout = '500ms'"))


def is_lock_conflict(error: BaseException) -> bool:
    """Whether a transaction failed with `error` because of a lock conflict: it may be retried unchanged."""
    cause = error.__cause__
    return isinstance(cause, DBAPIError) and getattr(cause.orig, "sqlstate", None) in _LOCK_CONFLICT_CODES


def make_schema(connection: Connection, name: str) -> None:
    """Make an empty schema where a database has schemas; SQLite has files instead."""
    if connection.dialect.name == "postgresql":
        connection.execute(text(f"CREATE SCHEMA IF NOT EXISTS {connection.dialect.identifier_preparer.quote(name)}"))


def schema_url(url: URL, schema: str, file: str) -> URL:
    """Where tables of the same names are apart from those at `url`: that schema and no other, or the SQLite file `file`."""
    if url.get_backend_name() == "sqlite":
        return url.set(database=file)
    given = url.query.get("options", "")
    options = " ".join([*((given,) if isinstance(given, str) else given), f"{_SCHEMA}{schema}"]).strip()
    return url.update_query_dict({"options": options})


def insert_or_update(connection: Connection, table: Table, row: Mapping[str, object]) -> Insert:
    """Insert `row`, replacing the one with the same primary key."""
    insert = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
    keys = [column.name for column in table.primary_key]
    others = {name: value for name, value in row.items() if name not in keys}
    return insert(table).values(row).on_conflict_do_update(index_elements=keys, set_=others)


def insert_if_new(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any] | RowMapping]) -> None:
    """Insert those of `rows` whose primary key does not exist yet."""
    insert = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
    keys = [column.name for column in table.primary_key]
    connection.execute(insert(table).on_conflict_do_nothing(index_elements=keys), [dict(row) for row in rows])


def advance_sequence(connection: Connection, table: Table) -> None:
    """Set the table's sequence to continue after the highest number; SQLite does that by itself."""
    number = table.autoincrement_column
    if number is None or connection.dialect.name != "postgresql":
        return
    sequence = connection.execute(select(func.pg_get_serial_sequence(table.name, number.name))).scalar()
    highest = connection.execute(select(func.max(number))).scalar()
    if sequence and highest:
        connection.execute(select(func.setval(sequence, highest)))


def use_snapshot(connection: Connection) -> None:
    """Give this transaction a consistent snapshot; to be called before it reads. SQLite does that by itself."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"))


def notify(connection: Connection, channel: str, message: str) -> None:
    """Notify listeners on that channel when this transaction commits; SQLite has none."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_notify(:channel, :message)"), {"channel": channel, "message": message})


def create_fulltext(connection: Connection) -> None:
    """Make the index over the words of the memories: FTS5 with triggers in SQLite, GIN over an array in PostgreSQL."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("CREATE INDEX memories_words ON memories USING gin (string_to_array(words, ' '))"))
        return
    for statement in _FTS5:
        connection.exec_driver_sql(statement)


def matching_any_word(connection: Connection, query: Select[Any], words: Sequence[str]) -> Select[Any]:
    """`query` over the memories, only those with one of `words` (each without space or quote), the best fit or newest first."""
    if connection.dialect.name == "postgresql":
        matches = text("string_to_array(memories.words, ' ') && CAST(:any_word AS text[])").bindparams(any_word=list(words))
        return query.where(matches).order_by(text("memories.number DESC"))
    phrases = " OR ".join(f'"{word}"' for word in words)
    matches = text("memories_words MATCH :any_word").bindparams(any_word=phrases)
    joined = query.join(text("memories_words"), text("memories_words.rowid = memories.number"))
    return joined.where(matches).order_by(text("memories_words.rank"))


_FTS5: Final = (
    "CREATE VIRTUAL TABLE memories_words USING"
    " fts5(words, content='memories', content_rowid='number', tokenize='unicode61 remove_diacritics 0')",
    "CREATE TRIGGER memories_words_added AFTER INSERT ON memories BEGIN"
    " INSERT INTO memories_words(rowid, words) VALUES (new.number, new.words); END",
    "CREATE TRIGGER memories_words_removed AFTER DELETE ON memories BEGIN"
    " INSERT INTO memories_words(memories_words, rowid, words) VALUES ('delete', old.number, old.words); END",
    "CREATE TRIGGER memories_words_changed AFTER UPDATE ON memories BEGIN"
    " INSERT INTO memories_words(memories_words, rowid, words) VALUES ('delete', old.number, old.words);"
    " INSERT INTO memories_words(rowid, words) VALUES (new.number, new.words); END",
)
