"""What a driver or the file system reports about a database, as one of our errors: without SQL, values or passwords.

There are two kinds. A value that the tables refuse now is refused later too: that is `ValueRefused`, or
`RecordExists` when its key is taken. Everything else is a problem of the database itself, and may be over at the
next attempt.
"""

from __future__ import annotations

import sqlite3
from typing import Any, Final

from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, SQLAlchemyError

from skillyard.errors import DatabaseDamaged, DatabaseUnavailable, RecordExists, SkillyardError, ValueRefused

_HINT: Final = "make it reachable and writable, or name another one with SKILLYARD_DATABASE_URL or [database] url"
_DAMAGED: Final = (
    "`skillyard db check` shows what is wrong; stop what uses it, then `skillyard db repair` recovers what can be read"
)
_DAMAGED_SERVER: Final = "check the log of PostgreSQL, and restore a backup: `skillyard restore`, or a point-in-time recovery"
_PRIMARY: Final = 0xFF  # the part of SQLite's extended codes that names the kind
_DAMAGED_CODES: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, "XX001", "XX002")
"""PostgreSQL: data_corrupted, index_corrupted."""
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
    return DatabaseUnavailable(f"the database {name} cannot be used: {reason_text[:300]}", hint=_HINT)


def is_damage(reason: object) -> bool:
    """Whether a driver's error means that stored data is damaged."""
    code = _code(reason)
    return (code & _PRIMARY if isinstance(code, int) else code) in _DAMAGED_CODES


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
