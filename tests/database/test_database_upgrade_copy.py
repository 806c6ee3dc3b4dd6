"""Before its tables are upgraded, a database file is copied beside itself; an upgrade that fails changes nothing."""

from __future__ import annotations

import shutil
import sqlite3
import stat
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from next_release import NEXT_REVISION, become_next_release
from sqlalchemy import Connection, insert, select, text

from skillyard.database import HEAD, Database, connection, maintenance, runs
from skillyard.errors import DatabaseUnavailable

COPY = f"skillyard.before-{NEXT_REVISION}.db"
RUN = {
    "id": "run_1", "skill_id": "user:x", "skill_name": "x", "kind": "direct", "state": "queued", "parameters": {},
    "context": {}, "cache_hit": False, "owner": "", "created_at": datetime(2026, 1, 2, tzinfo=UTC),
}  # fmt: skip


@pytest.fixture
def old(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with the records of the release before, one of them only in the write-ahead log of a process that still runs."""
    database = Database.open(str(tmp_path))
    with database.write() as transaction:
        transaction.execute(insert(runs).values(RUN))
    become_next_release(tmp_path_factory.mktemp("next"), monkeypatch)
    return tmp_path


def _revision_and_runs(file: Path) -> tuple[str, list[str]]:
    with closing(sqlite3.connect(file)) as opened:
        ids = [row[0] for row in opened.execute("SELECT id FROM runs")]
        return opened.execute("SELECT version_num FROM alembic_version").fetchone()[0], ids


def test_the_records_are_copied_before_they_are_upgraded(old: Path, caplog: pytest.LogCaptureFixture) -> None:
    database = Database.open(str(old))
    assert database.status().revision == NEXT_REVISION
    assert database.upgrade_copy == old / COPY
    assert str(old / COPY) in caplog.text
    database.close()
    assert stat.S_IMODE((old / COPY).stat().st_mode) == 0o600
    assert _revision_and_runs(old / COPY) == (HEAD, ["run_1"])
    assert _revision_and_runs(old / "skillyard.db") == (NEXT_REVISION, ["run_1"])


def test_a_copy_is_brought_back_by_putting_it_in_place(old: Path) -> None:
    """As docs/operating.md says it."""
    Database.open(str(old)).close()
    shutil.copy(old / COPY, old / "skillyard.db")
    database = Database.open(str(old))
    with database.read() as transaction:
        assert transaction.execute(select(runs.c.id)).scalars().all() == ["run_1"]
    assert database.check().whole
    database.close()


def test_a_new_database_and_one_of_today_are_not_copied(tmp_path: Path) -> None:
    for _ in range(2):
        database = Database.open(str(tmp_path))
        assert database.upgrade() in (None, HEAD)
        assert database.upgrade_copy is None
        database.close()
    assert [path.name for path in tmp_path.iterdir()] == ["skillyard.db"]


@pytest.mark.parametrize("fails", [RuntimeError("a migration fails"), sqlite3.OperationalError("disk I/O error")])
def test_a_migration_that_fails_midway_changes_nothing_and_leaves_the_copy(
    old: Path, monkeypatch: pytest.MonkeyPatch, fails: Exception
) -> None:
    def half(at: Connection) -> Any:
        maintenance.upgrade(at)
        at.execute(text("DELETE FROM runs"))
        raise fails

    monkeypatch.setattr(connection, "upgrade", half)
    for _ in range(2):
        with pytest.raises(type(fails)):
            Database.open(str(old))
    assert _revision_and_runs(old / "skillyard.db") == (HEAD, ["run_1"])
    assert _revision_and_runs(old / COPY) == (HEAD, ["run_1"])
    monkeypatch.setattr(connection, "upgrade", maintenance.upgrade)
    Database.open(str(old)).close()
    assert _revision_and_runs(old / "skillyard.db") == (NEXT_REVISION, ["run_1"])


def test_without_room_for_the_copy_nothing_is_upgraded(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(maintenance, "make_file", full)
    with pytest.raises(DatabaseUnavailable, match="no copy of them can be kept"):
        Database.open(str(old))
    assert _revision_and_runs(old / "skillyard.db") == (HEAD, ["run_1"])
    assert not (old / COPY).exists()


def test_the_newest_three_copies_stay(old: Path) -> None:
    for revision in ("r0008", "r0009", "r0010", "r0011"):
        (old / f"skillyard.before-{revision}.db").touch()
    Database.open(str(old)).close()
    kept = sorted(path.name for path in old.glob("skillyard.before-*.db"))
    assert kept == ["skillyard.before-r0010.db", "skillyard.before-r0011.db", COPY]
