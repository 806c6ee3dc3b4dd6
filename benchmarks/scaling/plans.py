"""How a database finds what it is asked for: every SELECT of a call, and whether it reads a whole table."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import event, text

from skillyard.database import Database

__all__ = ["Plan", "plans_of"]

_SMALL = frozenset(
    {"api_keys", "workers", "organisations", "alembic_version", "sqlite_master"}
)  # a handful of rows, however large a site is
_WHOLE_SQLITE = re.compile(r"^SCAN (?!(?:\d+ )?CONSTANT ROW)(?P<table>\w+)\b(?! USING| VIRTUAL TABLE INDEX \d+:\S)")
_WHOLE_POSTGRESQL = re.compile(r"Seq Scan on (?P<table>\w+)")


@dataclass(frozen=True, slots=True)
class Plan:
    """One statement, how it is carried out, and which tables are read from end to end for it."""

    statement: str
    steps: tuple[str, ...]
    whole: tuple[str, ...]


def plans_of(database: Database, call: Callable[[Database], object]) -> tuple[Plan, ...]:
    """The plans of all that `call` asks the database."""
    asked: list[tuple[str, Any]] = []

    def hear(_connection: Any, _cursor: Any, statement: str, parameters: Any, _context: Any, _many: Any) -> None:
        if statement.lstrip().upper().startswith(("SELECT", "WITH")):
            asked.append((statement, parameters))

    with database.read() as connection:
        engine = connection.engine
    event.listen(engine, "before_cursor_execute", hear)
    try:
        call(database)
    finally:
        event.remove(engine, "before_cursor_execute", hear)
    return tuple(_plan(database, statement, parameters) for statement, parameters in asked)


def _plan(database: Database, statement: str, parameters: Any) -> Plan:
    with database.read() as connection:
        if connection.dialect.name == "sqlite":
            rows = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters).all()
            steps, whole = tuple(str(row[3]) for row in rows), _WHOLE_SQLITE
        else:
            connection.execute(text("SET LOCAL enable_seqscan = off"))  # then one is left where no index would do
            rows = connection.exec_driver_sql(f"EXPLAIN {statement}", parameters).all()
            steps, whole = tuple(str(row[0]) for row in rows), _WHOLE_POSTGRESQL
    found = (match["table"] for step in steps if (match := whole.search(step.strip())))
    return Plan(statement, steps, tuple(table for table in found if table not in _SMALL))
