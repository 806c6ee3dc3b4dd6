"""The records of a server move with those of all its organisations, proven, and again after a break."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import func, insert, select, update

from skillyard.access import Keys, Organisations, move_records
from skillyard.database import Database, audit_events, isolated_url, runs
from skillyard.errors import InvalidInput

NOW = datetime(2026, 1, 2, 3, 4, 5, 678_901, UTC)
Moving = tuple[str, str | None, str]


@pytest.fixture(
    params=["sqlite-postgresql", "postgresql-sqlite", pytest.param("postgresql-postgresql", marks=pytest.mark.long)]
)
def moving(request: pytest.FixtureRequest, address_of: Callable[[str], str], tmp_path: Path) -> Moving:
    """A home with two organisations that have runs, where its records are, and an empty database."""
    first, _, second = request.param.partition("-")
    data = str(tmp_path / "data")
    configured = None if first == "sqlite" else address_of("postgresql")
    to = address_of("postgresql") if second == "postgresql" else f"sqlite:///{tmp_path}/there.db"
    main = Database.open(data, configured)
    organisations = Organisations(lambda: main)
    Keys(lambda: main).create("admin", ["admin"])
    _fill(main, 3)
    for name, rows in (("acme", 1203), ("red-team", 2)):
        organisations.create(name)
        own = opened(data, configured, name)
        _fill(own, rows)
        own.close()
    main.close()
    return data, configured, to


def opened(data: str, configured: str | None, name: str) -> Database:
    home = f"{data}/organisations/{name}"
    return Database.open(home, isolated_url(home, f"org_{name.replace('-', '_')}", configured))


def _fill(database: Database, rows: int) -> None:
    run = {
        "skill_id": "user:x", "skill_name": "x", "kind": "direct", "state": "succeeded", "parameters": {"ä": [1, None]},
        "context": {}, "cache_hit": False, "owner": "", "created_at": NOW,
    }  # fmt: skip
    with database.write() as connection:
        connection.execute(insert(runs), [run | {"id": f"run_{number}"} for number in range(rows)])


def _count(database: Database) -> int:
    with database.read() as connection:
        return connection.execute(select(func.count()).select_from(runs)).scalar_one()


def test_the_records_of_every_organisation_move_and_each_finds_its_own_again(moving: Moving) -> None:
    data, _, to = moving
    before = {one.organisation: one.new_rows for one in move_records(*moving, check=True)}
    moved = {one.organisation: one for one in move_records(*moving)}
    assert list(moved) == ["default", "acme", "red-team"]
    assert {name: one.new_rows for name, one in moved.items()} == before
    assert before["acme"] == 1203
    main = Database.open(data, to)
    assert [one.name for one in Organisations(lambda: main).all()] == ["default", "acme", "red-team"]
    assert [key.name for key in Keys(lambda: main).all()] == ["admin"]
    assert _count(main) == 3
    main.close()
    for name, rows in (("acme", 1203), ("red-team", 2)):
        there = opened(data, to, name)
        assert _count(there) == rows
        there.close()
    assert all(one.new_rows == 0 for one in move_records(*moving, check=True))


def test_a_move_that_was_cut_off_goes_on_where_it_ended(moving: Moving) -> None:
    data, _, to = moving

    def stop(organisation: str, table: str, rows: int) -> None:
        if (organisation, table) == ("acme", "runs") and rows >= 1000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        move_records(*moving, progress=stop)
    there = opened(data, to, "acme")
    begun = _count(there)
    there.close()
    assert 0 < begun < 1203
    again = {one.organisation: one for one in move_records(*moving)}
    assert again["default"].new_rows == 0
    assert {table.table: table.new for table in again["acme"].tables}["runs"] == 1203 - begun


def test_another_row_of_an_organisation_stops_the_move_and_stays(moving: Moving) -> None:
    data, _, to = moving
    move_records(*moving)
    there = opened(data, to, "acme")
    with there.write() as connection:
        connection.execute(update(runs).where(runs.c.id == "run_7").values(message="mine"))
    for check in (True, False):
        with pytest.raises(InvalidInput, match="run_7"):
            move_records(*moving, check=check)
    with there.read() as connection:
        assert connection.execute(select(runs.c.message).where(runs.c.id == "run_7")).scalar() == "mine"
    there.close()


def test_looking_makes_no_tables(moving: Moving) -> None:
    data, _, to = moving
    assert sum(one.new_rows for one in move_records(*moving, check=True)) > 1203
    there = Database.open(data, to, migrate=False)
    assert there.status().revision is None
    there.close()


def test_the_files_of_organisations_stay_where_they_are_when_the_servers_goes_into_another_file(tmp_path: Path) -> None:
    data, to = str(tmp_path / "data"), f"sqlite:///{tmp_path}/there.db"
    main = Database.open(data)
    Organisations(lambda: main).create("acme")
    main.close()
    moved = {one.organisation: one for one in move_records(data, None, to)}
    assert [one for one, reported in moved.items() if not reported.tables] == ["acme"]
    there = Database.open(data, to)
    with there.read() as connection:
        assert connection.execute(select(func.count()).select_from(audit_events)).scalar_one() == 1
    there.close()
    with pytest.raises(InvalidInput, match="is the database that is copied"):
        move_records(data, None, f"sqlite:///{data}/skillyard.db")
