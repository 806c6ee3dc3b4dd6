"""A rolling upgrade: the tables are brought up to date while a server of the release before goes on to use them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from alembic import command
from next_release import NEXT_REVISION, become_next_release
from sqlalchemy import Connection, MetaData, func, insert, inspect, select, text, update

from skillyard.access import SkillCollections
from skillyard.database import Database
from skillyard.database.maintenance import OLDEST, configuration

NOW = datetime(2026, 1, 2, tzinfo=UTC)
RUN = {
    "id": "run_1", "skill_id": "user:x", "skill_name": "x", "kind": "direct", "state": "queued", "parameters": {},
    "context": {}, "cache_hit": False, "owner": "", "created_at": NOW,
}  # fmt: skip


@pytest.fixture
def before(tmp_path: Path, database_address: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    """The records as a server of the oldest release that may go on has made them, and has them open; this is the next one."""
    database = Database.open(str(tmp_path), database_address, migrate=False)
    with database.write() as connection:
        command.upgrade(configuration(connection), OLDEST)
    become_next_release(tmp_path, monkeypatch)
    yield database
    database.close()


def _columns(connection: Connection) -> dict[tuple[str, str], tuple[str, bool, bool]]:
    """The type of each column, whether it may be empty, and whether the database fills it in by itself."""
    found = inspect(connection)
    return {
        (table, column["name"]): (str(column["type"]), bool(column["nullable"]), column["default"] is not None)
        for table in found.get_table_names()
        for column in found.get_columns(table)
        if not table.startswith(("memories_words", "alembic"))
    }


def test_a_newer_release_leaves_every_column_of_the_one_before_and_asks_nothing_more_of_it(before: Database) -> None:
    with before.read() as connection:
        old = _columns(connection)
    before.upgrade()
    with before.read() as connection:
        new = _columns(connection)
    assert {column: new.get(column) for column in old} == old
    tables = {table for table, _ in old}
    asked = [column for column, (_, empty, filled) in new.items() if column not in old and not (empty or filled)]
    assert [column for column in asked if column[0] in tables] == []


def test_statements_of_the_release_before_go_on_to_work(before: Database, tmp_path: Path, database_address: str) -> None:
    """Both are open at once: the older one wrote before, and reads and writes again when the other has upgraded the tables."""
    known = MetaData()
    with before.read() as connection:
        known.reflect(connection, only=["runs", "steps", "conversations"])
    runs, steps = known.tables["runs"], known.tables["steps"]
    with before.write() as connection:
        connection.execute(insert(runs).values(RUN))
    newer = Database.open(str(tmp_path), database_address)
    assert newer.status().revision == NEXT_REVISION
    with before.write() as connection:
        connection.execute(insert(runs).values(RUN | {"id": "run_2"}))
        connection.execute(insert(steps).values(run_id="run_1", position=0, step_id="1", step_name="one", duration=1.0))
        connection.execute(update(runs).values(state="succeeded", finished_at=NOW))
    with before.read() as connection:
        assert {row.state for row in connection.execute(select(runs))} == {"succeeded"}
    from skillyard.engine.journal import Journal

    assert [step.step_name for step in Journal(newer).get("run_1").steps] == ["one"]
    with newer.read() as connection:
        assert connection.execute(select(func.count()).select_from(runs)).scalar() == 2
    newer.close()


def test_stars_of_before_are_there_after_an_upgrade(tmp_path: Path, database_address: str) -> None:
    database = Database.open(str(tmp_path), database_address, migrate=False)
    with database.write() as connection:
        command.upgrade(configuration(connection), "r0001")
        connection.execute(
            text(
                "INSERT INTO skill_definitions (skill_id, name, description, trigger_keywords, tags, is_active, created_at, "
                "updated_at) VALUES ('tidy', 'tidy', '', '[]', '[]', :yes, :now, :now)"
            ),
            {"now": NOW.isoformat(), "yes": True},
        )
        starred = "INSERT INTO skill_stars (skill_id, owner, starred_at) VALUES ('tidy', 'default/ada', :now)"
        connection.execute(text(starred), {"now": NOW.isoformat()})
    database.upgrade()
    assert SkillCollections(lambda: database).skills("default/ada") == ("installed:tidy",)
    database.close()
