"""Records go from any database into any other, all of them, proven, and again after a break."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import func, insert, select, update

from skillyard.database import (
    Database,
    copy_records,
    memories,
    memory_tags,
    runs,
    skill_definitions,
    skill_versions,
    steps,
    workers,
)
from skillyard.errors import InvalidInput

NOW = datetime(2026, 1, 2, 3, 4, 5, 678_901, UTC)


@pytest.fixture(params=["sqlite-postgresql", "postgresql-sqlite", "sqlite-sqlite"])
def pair(request: pytest.FixtureRequest, address_of: Callable[..., str], tmp_path: Path) -> Iterator[tuple[Database, Database]]:
    """A database with records and an empty one."""
    first, _, second = request.param.partition("-")
    with ExitStack() as stack:
        one = Database.open(str(tmp_path), address_of(first, bare=False))
        two = Database.open(str(tmp_path / "two"), None if second == "sqlite" else address_of(second, bare=False))
        for database in (one, two):
            stack.callback(database.close)
        _fill(one)
        yield one, two


def _fill(database: Database) -> None:
    run = {
        "skill_id": "user:x", "skill_name": "x", "kind": "direct", "state": "succeeded", "parameters": {"ä": [1, 2.5, None]},
        "context": {}, "cache_hit": False, "owner": "", "output": {"text": "\u2028 'quoted'"},
    }  # fmt: skip
    with database.write() as connection:
        rows = [{**run, "id": f"run_{number}", "created_at": NOW + timedelta(microseconds=number)} for number in range(1203)]
        connection.execute(insert(runs), rows)
        connection.execute(
            insert(steps).values(run_id="run_7", position=0, step_id="s", step_name="x", duration=0.1 + 0.2, input={"a": True})
        )
        memory = {
            "content": "the cat", "words": "the cat", "owner_type": "user", "owner_id": "u", "type": "fact", "importance": 0.3,
            "source": "skill", "metadata": {}, "created_at": NOW,
        }  # fmt: skip
        connection.execute(insert(memories).values(**memory, id="mem_1", number=41))
        connection.execute(insert(memory_tags).values(memory_id="mem_1", tag="pets"))
        definition = {"name": "x", "description": "", "trigger_keywords": [], "tags": ["a"], "is_active": True}
        connection.execute(insert(skill_definitions).values(**definition, skill_id="x", created_at=NOW, updated_at=NOW))
        version = {"status": "active", "source_type": "folder", "origin": {}, "package_path": "/x", "digest": "sha256:0"}
        connection.execute(
            insert(skill_versions).values(**version, skill_id="x", version="1", size_bytes=5 << 32, created_at=NOW)
        )
        connection.execute(
            insert(workers).values(id="w", owner="o", host="h", concurrency=1, draining=False, started_at=NOW, seen_at=NOW)
        )


def _count(database: Database, table: object) -> int:
    with database.read() as connection:
        return connection.execute(select(func.count()).select_from(table)).scalar_one()  # type: ignore[arg-type]


def test_every_record_is_there_afterwards_and_nothing_of_living_processes(pair: tuple[Database, Database]) -> None:
    source, target = pair
    assert sum(table.new for table in copy_records(source, target, check=True)) == 1208
    reported = {table.table: table for table in copy_records(source, target)}
    assert (reported["runs"].rows, reported["runs"].new, reported["runs"].extra) == (1203, 1203, 0)
    assert _count(target, runs) == 1203
    assert _count(target, workers) == 0
    assert all(table.new == 0 for table in copy_records(source, target, check=True))
    assert all(table.new == 0 for table in copy_records(source, target))
    with source.read() as one, target.read() as two:
        query = select(runs).where(runs.c.id == "run_1202")
        assert one.execute(query).mappings().one() == two.execute(query).mappings().one()


def test_a_copy_that_was_cut_off_is_taken_up_again(pair: tuple[Database, Database]) -> None:
    source, target = pair

    def stop(table: str, rows: int) -> None:
        if table == "runs" and rows >= 1000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        copy_records(source, target, progress=stop)
    there = _count(target, runs)
    assert 0 < there < 1203
    assert {table.table: table.new for table in copy_records(source, target)}["runs"] == 1203 - there


def test_another_row_under_the_same_key_stops_the_copy_and_stays(pair: tuple[Database, Database]) -> None:
    source, target = pair
    copy_records(source, target)
    with target.write() as connection:
        connection.execute(update(runs).where(runs.c.id == "run_7").values(message="mine"))
    with pytest.raises(InvalidInput, match="run_7"):
        copy_records(source, target, check=True)
    with pytest.raises(InvalidInput, match="run_7"):
        copy_records(source, target)
    with target.read() as connection:
        assert connection.execute(select(runs.c.message).where(runs.c.id == "run_7")).scalar() == "mine"


def test_numbers_that_the_database_gives_go_on_behind_the_copied_ones(pair: tuple[Database, Database]) -> None:
    source, target = pair
    copy_records(source, target)
    memory = {
        "content": "a dog", "words": "a dog", "owner_type": "user", "owner_id": "u", "type": "fact", "importance": 0.3,
        "source": "skill", "metadata": {}, "created_at": NOW,
    }  # fmt: skip
    with target.write() as connection:
        connection.execute(insert(memories).values(**memory, id="mem_2"))
        assert connection.execute(select(memories.c.number).where(memories.c.id == "mem_2")).scalar() == 42
