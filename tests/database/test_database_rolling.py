"""A server of the release before works on while others upgrade the tables, and when it is started again on newer ones."""

from __future__ import annotations

import json
import re
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import preloaded
import pytest
from alembic import command
from next_release import NEXT_REVISION, become_next_release
from sqlalchemy import Connection, MetaData, Table, delete, insert, inspect, select, text, update
from sqlalchemy.types import JSON, Boolean, DateTime, Float, Integer, LargeBinary, TypeEngine

from skillyard.database import ALL_TABLES, HEAD, Database, copy_records, runs
from skillyard.database.maintenance import OLDEST, configuration, make_tables
from skillyard.errors import DatabaseUnavailable

NOW = datetime(2026, 1, 2, tzinfo=UTC)
OPEN = """
import sys
from pathlib import Path

import pytest

folder, tests, data, url = sys.argv[1:]
sys.path.insert(0, tests)

from next_release import become_next_release
from skillyard.database import Database

become_next_release(Path(folder), pytest.MonkeyPatch())
print(Database.open(data, url).status().revision)
"""
_MADE_BY_THE_DATABASE = ("memories_words", "skill_parts", "alembic")


class OlderRelease(threading.Thread):
    """A server that knows the tables as they were: writes a row into each, reads, changes and deletes it, again and again."""

    def __init__(self, database: Database) -> None:
        super().__init__()
        self.rounds, self.problem = 0, None
        self.stop = threading.Event()
        self._database = database
        known = MetaData()
        with database.read() as connection:
            found = inspect(connection)
            names = [name for name in found.get_table_names() if not name.startswith(_MADE_BY_THE_DATABASE)]
            known.reflect(connection, only=names)
            checks = [(name, check["sqltext"]) for name in names for check in found.get_check_constraints(name)]
        self._tables = known.sorted_tables
        words = ((table, re.search(r"(\w+)\b.*?'(\w+)'", check)) for table, check in checks)
        self._allowed = {(table, match[1]): match[2] for table, match in words if match}

    def run(self) -> None:
        try:
            while not self.stop.is_set():
                self._round(self.rounds + 1)
                self.rounds += 1
        except BaseException as problem:
            self.problem = problem

    def _round(self, number: int) -> None:
        rows = {table.name: self._row(table, number) for table in self._tables}
        with self._database.write() as connection:
            for table in self._tables:
                connection.execute(insert(table).values(rows[table.name]))
        with self._database.read() as connection:
            for table in self._tables:
                (row,) = connection.execute(select(table).where(*self._mine(table, number))).all()
                assert len(row) == len(table.columns)
        with self._database.write() as connection:
            for table in self._tables:
                connection.execute(update(table).where(*self._mine(table, number)).values(rows[table.name]))
        if number % 3:
            return
        with self._database.write() as connection:
            for table in reversed(self._tables):
                connection.execute(delete(table).where(*self._mine(table, number)))

    def _row(self, table: Table, number: int) -> dict[str, Any]:
        return {column.name: self._value(table, column.name, column.type, number) for column in table.columns}

    def _value(self, table: Table, name: str, kind: TypeEngine[Any], number: int) -> Any:
        if (table.name, name) in self._allowed:
            return self._allowed[table.name, name]
        count = number if table.columns[name].primary_key else number % 100  # there are columns of percents
        values = ((JSON, []), (LargeBinary, b"bytes"), (Boolean, False), (DateTime, NOW), (Integer, count), (Float, 1.0))
        return next((value for known, value in values if isinstance(kind, known)), str(number))

    def _mine(self, table: Table, number: int) -> list[Any]:
        return [column == self._value(table, column.name, column.type, number) for column in table.primary_key]


@pytest.fixture(params=[OLDEST, pytest.param(HEAD, marks=pytest.mark.long)])
def older(request: pytest.FixtureRequest, tmp_path: Path, database_address: str) -> Iterator[OlderRelease]:
    """A server of a release before, at work on tables as it made them."""
    database = Database.open(str(tmp_path), database_address, migrate=False)
    with database.write() as connection:
        command.upgrade(configuration(connection), request.param)
    server = OlderRelease(database)
    server.start()
    yield server
    server.stop.set()
    server.join(60)
    database.close()


def _until(server: OlderRelease, rounds: int) -> None:
    end = server.rounds + rounds
    while server.rounds < end and server.problem is None:
        server.join(0.01)
    assert server.problem is None


def test_an_older_server_works_on_while_three_upgrade_the_tables_at_once(
    older: OlderRelease, tmp_path: Path, database_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _until(older, 3)
    become_next_release(tmp_path / "next", monkeypatch)
    words = [str(tmp_path / "next"), str(Path(__file__).parents[1]), str(tmp_path), database_address]
    newer = [preloaded.Popen([sys.executable, "-c", OPEN, *words], stdout=preloaded.PIPE) for _ in range(3)]
    assert [(process.communicate(timeout=120)[0] or "").strip() for process in newer] == [NEXT_REVISION] * 3
    _until(older, 3)
    older.stop.set()
    older.join(60)
    assert older.problem is None
    database = Database.open(str(tmp_path), database_address)
    with database.read() as connection:
        kept = {row.id for row in connection.execute(select(runs))}
        assert kept == {str(number) for number in range(1, older.rounds + 1) if number % 3}
        for table in ALL_TABLES.sorted_tables:
            connection.execute(select(table)).all()
    database.close()


def test_an_upgrade_holds_every_table_before_it_changes_the_first(
    tmp_path: Path, database_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a writer who waits for the first, and holds one that comes later, may be ended for a deadlock."""
    database = Database.open(str(tmp_path), database_address, migrate=False)
    with database.write() as connection:
        command.upgrade(configuration(connection), OLDEST)
        tables = set(inspect(connection).get_table_names())
    held: set[str] = set()

    def look(connection: Connection, revision: str) -> None:
        locks = "SELECT relation::regclass::text FROM pg_locks WHERE pid = pg_backend_pid() AND mode = 'ShareRowExclusiveLock'"
        held.update(connection.execute(text(locks)).scalars() if connection.dialect.name == "postgresql" else tables)
        make_tables(connection, revision)

    monkeypatch.setattr("skillyard.database.maintenance.make_tables", look)
    database.upgrade()
    assert len(tables) > 20
    assert held == tables
    database.close()


def test_an_upgrade_lets_those_go_on_who_use_a_table(
    tmp_path: Path, database_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who waits for a table to change its shape would let everybody else wait behind it."""
    database = Database.open(str(tmp_path), database_address, migrate=False)
    with database.write() as connection:
        command.upgrade(configuration(connection), OLDEST)
    become_next_release(tmp_path / "next", monkeypatch)
    upgraded = threading.Event()

    def upgrade() -> None:
        database.upgrade()
        upgraded.set()

    def look() -> None:
        with database.read() as connection:
            connection.execute(text("SELECT count(*) FROM skill_definitions")).scalar()

    with database.read() as long:
        long.execute(text("SELECT count(*) FROM skill_definitions")).scalar()
        upgrading = threading.Thread(target=upgrade)
        upgrading.start()
        upgrading.join(
            1 if database.conninfo else 60
        )  # it has come to where it would wait; readers of SQLite are in nobody's way
        for _ in range(3):
            reading = threading.Thread(target=look)
            reading.start()
            reading.join(60)
            assert not reading.is_alive()
        assert upgraded.is_set() == (database.conninfo is None)
    upgrading.join(60)
    assert upgraded.is_set()
    assert database.status().current
    database.close()


def _tell_newer(database: Database, oldest: str | None) -> None:
    """As a release to come leaves the tables."""
    with database.write() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = 'r9999', oldest = :oldest"), {"oldest": oldest})


def test_an_older_program_goes_on_with_tables_to_which_a_newer_one_only_added(
    database: Database, tmp_path: Path, database_address: str
) -> None:
    with database.write() as connection:
        connection.execute(text("ALTER TABLE runs ADD COLUMN of_tomorrow TEXT"))
    _tell_newer(database, HEAD)
    again = Database.open(str(tmp_path), database_address)
    with again.write() as connection:
        row = {"id": "1", "skill_id": "a", "skill_name": "a", "kind": "direct", "state": "queued", "created_at": NOW}
        connection.execute(insert(runs).values(**row, parameters={}, context={}, cache_hit=False, owner=""))
    assert again.upgrade() == "r9999"
    status = again.status()
    assert (status.revision, status.newer, status.current) == ("r9999", True, True)
    again.close()


def test_an_older_program_says_so_and_copies_nothing_of_which_it_does_not_know_all(
    database: Database, tmp_path: Path, database_address: str, cli: Callable[..., Any]
) -> None:
    _tell_newer(database, HEAD)
    said = cli(database_address, "db", "status")
    assert (said.code, "newer Skillyard" in said.out, "can still use it" in said.out) == (0, True, True), said
    assert json.loads(cli(database_address, "db", "status", "--json").out)["newer"] is True
    assert "newer Skillyard" in cli(database_address, "doctor").out
    target = Database.open(str(tmp_path / "there"), f"sqlite:///{tmp_path}/there.db")
    with pytest.raises(DatabaseUnavailable, match="newer Skillyard"):
        copy_records(database, target)
    target.close()
    said = cli(database_address, "backup", str(tmp_path / "backup.tar.gz"))
    assert (said.code, "newer Skillyard" in said.err, "upgrade skillyard" in said.err) == (1, True, True), said
    assert not (tmp_path / "backup.tar.gz").exists()


@pytest.mark.parametrize("oldest", ["r9998", None])
def test_tables_that_are_of_no_use_to_an_older_program_are_refused_with_a_way_out(
    database: Database, tmp_path: Path, database_address: str, oldest: str | None
) -> None:
    _tell_newer(database, oldest)
    with pytest.raises(DatabaseUnavailable, match="newer Skillyard") as refused:
        Database.open(str(tmp_path), database_address)
    assert "upgrade skillyard" in str(refused.value.hint)
    assert not database.status().current


def test_tables_of_a_program_between_two_releases_are_refused_with_a_way_out(
    database: Database, tmp_path: Path, database_address: str, cli: Callable[..., Any]
) -> None:
    with database.write() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = 'r0005'"))
    for words in (("db", "upgrade"), ("runs", "list")):
        said = cli(database_address, *words)
        assert said.code == 1
        assert "between two releases (revision r0005)" in said.err
        assert "name another database" in said.err
    said = cli(database_address, "db", "status")
    assert (said.code, "between two releases" in said.out) == (1, True), said
    assert "between two releases" in cli(database_address, "doctor").out
    assert not list(tmp_path.rglob("*before-r*"))
