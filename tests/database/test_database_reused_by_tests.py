"""Databases of PostgreSQL that tests take over from each other: nothing of one test is there for the next."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest


def execute(url: str, *statements: str) -> list[Any]:
    with psycopg.connect(url) as connection:
        for statement in statements[:-1]:
            connection.execute(statement)
        done = connection.execute(statements[-1])
        return done.fetchall() if done.description else []


EVENT = "INSERT INTO live_events (subject, number, body, at) VALUES ('run', 1, '{}', now())"
SIZE = "SELECT pg_relation_size('live_events'), (SELECT count(*) FROM live_events)"


def test_what_one_wrote_is_gone_for_the_next(_with_tables: Any) -> None:
    with _with_tables.one() as first:
        execute(first, EVENT)
        still_open = psycopg.connect(first)
    with _with_tables.one() as second:
        assert execute(second, SIZE) == [(0, 0)]  # as new: rows come back in the order in which they are written
        assert second != first
        with pytest.raises(psycopg.OperationalError):
            execute(first, EVENT)
        with pytest.raises(psycopg.OperationalError):
            still_open.execute(EVENT)
    still_open.close()


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE live_events ADD COLUMN more text",
        "DROP INDEX ix_live_events_at",
        "CREATE SCHEMA org_acme",
        "UPDATE alembic_version SET oldest = 'r0000'",
        "ALTER TABLE steps DISABLE TRIGGER ALL",
    ],
)
def test_one_whose_tables_were_changed_is_not_used_again(_with_tables: Any, change: str) -> None:
    def names() -> set[str]:
        return {name for (name,) in execute(url, "SELECT datname FROM pg_database WHERE datname LIKE 'free%'")}

    with _with_tables.one() as url:
        before = names()
        with _with_tables.one() as changed:
            execute(changed, change)
        assert names() <= before
