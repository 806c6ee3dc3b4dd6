"""The tables come by themselves, once, by all migrations, whoever opens a new database."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import preloaded
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import inspect, text

from skillyard.database import ALL_TABLES, HEAD, Database
from skillyard.database.maintenance import configuration
from skillyard.errors import DatabaseUnavailable


def _ours(thing: object, name: str | None, kind: str, *_: object) -> bool:
    """Everything but the indexes over words and over parts of them, which each database makes in its own way."""
    return not (name or "").startswith(("memories_words", "skill_parts"))


def test_the_migrations_make_exactly_the_tables_of_the_code(database: Database) -> None:
    with database.read() as connection:
        context = MigrationContext.configure(connection, opts={"include_object": _ours})
        assert compare_metadata(context, ALL_TABLES) == []
        names = {check["name"] for check in inspect(connection).get_check_constraints("runs")}
    assert names == {"ck_runs_state"}


def test_upgrading_is_safe_to_repeat(database: Database) -> None:
    assert database.status().current
    assert [database.upgrade(), database.upgrade()] == [HEAD, HEAD]


def test_many_who_open_a_new_database_at_once_make_its_tables_once(database_address: str, tmp_path: Path) -> None:
    problems: list[BaseException] = []

    def open_it() -> None:
        try:
            database = Database.open(str(tmp_path), database_address)
            assert database.status().current
            database.close()
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=open_it) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert problems == []


def test_processes_that_open_a_new_database_at_once_make_its_tables_once(tmp_path: Path, database_address: str) -> None:
    opened = f"Database.open({str(tmp_path)!r}, {database_address!r})"
    script = f"from skillyard.database import Database; print({opened}.status().current)"
    started = [preloaded.Popen([sys.executable, "-c", script], stdout=preloaded.PIPE) for _ in range(4)]
    assert [process.communicate(timeout=120)[0] for process in started] == ["True\n"] * 4


def test_the_newest_revision_is_the_one_the_code_knows(database: Database) -> None:
    with database.read() as connection:
        scripts = ScriptDirectory.from_config(configuration(connection))
    assert scripts.get_heads() == [HEAD]


def test_records_of_a_newer_version_are_left_alone(database: Database, database_address: str, tmp_path: Path) -> None:
    with database.write() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = 'r9999', oldest = 'r9998'"))
    with pytest.raises(DatabaseUnavailable, match="newer Skillyard") as refused:
        Database.open(str(tmp_path), database_address)
    assert "upgrade skillyard" in str(refused.value.hint)
    assert database.status().revision == "r9999"
