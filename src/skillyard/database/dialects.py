"""What SQLite and PostgreSQL do differently: files, types of columns, a few statements, and their errors as ours.

Other modules that hold SQL of one of them only: `registry_tables` (parts of words), `maintenance` and `repair` (files of
SQLite) and `notifications` (LISTEN and NOTIFY of PostgreSQL).

A file of SQLite is private to its owner, and opened by nothing but SQLite: POSIX drops every lock that a process holds on a
file as soon as the process closes any descriptor of it, whoever opened that one (https://www.sqlite.org/howtocorrupt.html,
section 2.2). So a file that is there is only looked at by its name, and the one descriptor that makes a new file is closed
before any connection of this process can be open.

Errors are given without SQL, values or passwords. There are two kinds. A value that the tables refuse now is refused later too:
that is `ValueRefused`, or `RecordExists` when its key is taken. Everything else is a problem of the database itself, and may be
over at the next attempt.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import stat
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
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
from sqlalchemy.dialects import sqlite
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, SQLAlchemyError
from sqlalchemy.pool import QueuePool
from sqlalchemy.types import TypeDecorator

from skillyard.errors import DatabaseDamaged, DatabaseUnavailable, RecordExists, SkillyardError, ValueRefused
from skillyard.paths import CLOEXEC, NOFOLLOW, owner_id, reserve_file

if TYPE_CHECKING:
    from sqlalchemy import Insert, RowMapping
    from sqlalchemy.dialects import postgresql
    from sqlalchemy.engine import URL


_HINT: Final = "make it reachable and writable, or name another one with SKILLYARD_DATABASE_URL or [database] url"
_DAMAGED: Final = (
    "`skillyard db check` shows what is wrong; stop what uses it, then `skillyard db repair` recovers what can be read"
)
_DAMAGED_SERVER: Final = "check the log of PostgreSQL, and restore a backup: `skillyard restore`, or a point-in-time recovery"
_PRIMARY: Final = 0xFF  # the part of SQLite's extended codes that names the kind
_DAMAGED_CODES: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, "XX001", "XX002")
"""PostgreSQL: data_corrupted, index_corrupted."""
_FULL: Final = "the disk may be full or failing: look at its free space (`df -h`) and at the log of the system"
_FULL_CODES: Final = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, "53100")
"""SQLite reports a full disk as either, by where it notices; PostgreSQL: disk_full."""
_DUPLICATE_CODES: Final = (sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY, sqlite3.SQLITE_CONSTRAINT_UNIQUE, "23505")
_TOO_LONG: Final = "54"  # the class of PostgreSQL's codes for what is over a limit of the program


def translate_error(error: SQLAlchemyError | OSError, *, name: str, secret: str | None) -> SkillyardError:
    """Skillyard's error for one of the database `name`; its password, the `secret`, is never shown."""
    reason = error.orig if isinstance(error, DBAPIError) else error
    reason_text = " ".join(str(reason).split()) or type(error).__name__
    if secret:
        reason_text = reason_text.replace(secret, "***")
    if isinstance(error, IntegrityError) and _code(reason) in _DUPLICATE_CODES:
        return RecordExists("such a record exists already", hint="choose another name or id")
    if isinstance(error, (DataError, IntegrityError)) or str(_code(reason)).startswith(_TOO_LONG):
        return ValueRefused(
            f"the database does not accept a value: {_first_sentence(reason)}", hint="give a shorter text, or a smaller number"
        )
    if is_damage(reason):
        hint = _DAMAGED if isinstance(reason, sqlite3.Error) else _DAMAGED_SERVER
        return DatabaseDamaged(f"the database {name} is damaged: {reason_text[:300]}", hint=hint)
    hint = _FULL if _kind(reason) in _FULL_CODES else _HINT
    return DatabaseUnavailable(f"the database {name} cannot be used: {reason_text[:300]}", hint=hint)


def is_damage(reason: object) -> bool:
    """Whether a driver's error means that stored data is damaged."""
    return _kind(reason) in _DAMAGED_CODES


def _kind(reason: object) -> object:
    code = _code(reason)
    return code & _PRIMARY if isinstance(code, int) else code


def translate_refusal(context: ExceptionContext) -> DataError | None:
    """Translate values that a driver refuses by itself, such as a number that is too large for SQLite."""
    error = context.original_exception
    if isinstance(error, (OverflowError, UnicodeError)):
        return DataError(context.statement, None, error)
    return None


def _code(reason: Any) -> object:
    """The driver's error code: a number for SQLite, five characters for PostgreSQL."""
    return getattr(reason, "sqlstate", None) or getattr(reason, "sqlite_errorcode", None)


def _first_sentence(reason: Any) -> str:
    """The error in one sentence; the lines after the first one quote the row."""
    message = getattr(getattr(reason, "diag", None), "message_primary", None) or str(reason)
    return " ".join(str(message).partition("\n")[0].split())[:200]


SQLITE_SIDE_FILES: Final = ("-wal", "-shm", "-journal")
"""What SQLite puts beside a database file, by the end of the name."""
BUSY_TIMEOUT_S: Final = 30
"""Seconds that a connection waits for the locks of others."""

_POOL_SIZE: Final = 8
_POOL_OVERFLOW: Final = 24  # one pool serves everything in the process that uses the file
_making = threading.Lock()


def file_of(url: URL) -> Path:
    """The absolute path of the database file that the URL names; nothing is looked at."""
    return Path(str(url.database)).expanduser().absolute()


def make_file(path: Path) -> None:
    """Make the file where there is none, and let nobody but its owner read it; one that is there is never opened.

    Raises:
        OSError: it cannot be made, or a link is in its place.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _making:  # who opens a connection to it comes by here first, and waits until the descriptor is closed
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | NOFOLLOW | CLOEXEC, 0o600))
        except FileExistsError:
            _keep_private(path)
            for name in SQLITE_SIDE_FILES:
                _keep_private(path.with_name(path.name + name))


def _keep_private(path: Path) -> None:
    """Take the rights of others away from our own file, by its name.

    Raises:
        OSError: it is a link.
    """
    try:
        state = path.lstat()
    except FileNotFoundError:
        return
    if stat.S_ISLNK(state.st_mode):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    if state.st_uid == owner_id() and stat.S_IMODE(state.st_mode) != 0o600:
        path.chmod(0o600)


def sqlite_engine(url: URL) -> Engine:
    """A new engine for the file of the URL, which `make_file` has made."""
    path = file_of(url)
    reserve_file(path, SQLITE_SIDE_FILES)
    engine = create_engine(
        url.set(database=str(path)),
        connect_args={"timeout": BUSY_TIMEOUT_S, "check_same_thread": False},
        poolclass=QueuePool,
        pool_size=_POOL_SIZE,
        max_overflow=_POOL_OVERFLOW,
    )
    event.listen(engine, "connect", _prepare)
    event.listen(engine, "begin", _begin)
    event.listen(engine, "handle_error", translate_refusal)
    return engine


def _prepare(connection: Any, _record: object) -> None:
    """Readers never wait for the writer, rows that others need cannot vanish, and we begin transactions ourselves."""
    connection.isolation_level = None
    cursor = connection.cursor()
    _use_write_ahead_log(cursor)
    for setting in ("synchronous=NORMAL", "foreign_keys=ON"):
        cursor.execute(f"PRAGMA {setting}")
    cursor.close()


def _use_write_ahead_log(cursor: Any) -> None:
    """Choose the write-ahead log; where others open a new file at the same instant, SQLite refuses this one without waiting."""
    give_up = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            cursor.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > give_up:
                raise
            time.sleep(0.02)
        else:
            return


def _begin(connection: Connection) -> None:
    """A writer takes its lock at once: one that read first could not wait for another writer."""
    writing = connection.get_execution_options().get("writing", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")


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


def hold_writers(connection: Connection, tables: Sequence[str]) -> None:
    """Let nobody write to `tables` until this transaction ends; it waits for writers as `limit_lock_wait` says.

    Who changes one table after another must have all of them before: a writer who waits for the first, and holds what is
    needed later, would be ended by PostgreSQL for a deadlock. Readers go on. In SQLite writers exclude each other anyway.
    """
    if connection.dialect.name == "postgresql" and tables:
        quote = connection.dialect.identifier_preparer.quote
        connection.execute(text(f"LOCK TABLE {', '.join(map(quote, tables))} IN SHARE ROW EXCLUSIVE MODE"))


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


def _insert(connection: Connection, table: Table) -> sqlite.Insert | postgresql.Insert:
    if connection.dialect.name != "postgresql":
        return sqlite.insert(table)
    from sqlalchemy.dialects import postgresql  # only where it is used: it imports all its drivers

    return postgresql.insert(table)


def insert_or_update(connection: Connection, table: Table, row: Mapping[str, object]) -> Insert:
    """Insert `row`, replacing the one with the same primary key."""
    insert = _insert(connection, table)
    keys = [column.name for column in table.primary_key]
    others = {name: value for name, value in row.items() if name not in keys}
    return insert.values(row).on_conflict_do_update(index_elements=keys, set_=others)


def insert_or_add(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]], *, sums: Collection[str]) -> None:
    """Insert `rows`; where one with the same primary key exists, add the columns `sums` to it."""
    if not rows:
        return
    insert = _insert(connection, table)
    keys = [column.name for column in table.primary_key]
    added = {name: table.c[name] + insert.excluded[name] for name in sums}
    connection.execute(insert.on_conflict_do_update(index_elements=keys, set_=added), list(rows))


def insert_if_new(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any] | RowMapping]) -> None:
    """Insert those of `rows` whose primary key does not exist yet."""
    insert = _insert(connection, table)
    keys = [column.name for column in table.primary_key]
    connection.execute(insert.on_conflict_do_nothing(index_elements=keys), [dict(row) for row in rows])


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
