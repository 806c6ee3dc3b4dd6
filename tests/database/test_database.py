"""The records are safe where they are, whatever the database."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from sqlalchemy import delete, insert, select, text
from sqlalchemy.exc import OperationalError

from skillyard.database import Database, approvals, install_logs, runs, steps
from skillyard.database.connection import database_url, redacted_url
from skillyard.database.dialects import translate_error
from skillyard.errors import DatabaseUnavailable, RecordExists, ValueRefused

NOW = datetime(2026, 1, 2, 3, 4, 5, 678_000, UTC)
RUN = {
    "id": "run_1", "skill_id": "user:x", "skill_name": "x", "kind": "direct", "state": "queued", "parameters": {},
    "context": {}, "cache_hit": False, "owner": "", "created_at": NOW,
}  # fmt: skip
LOG = {
    "id": "log_1", "operation_id": "op_1", "operation": "install", "status": "pending", "progress": 0, "steps": [],
    "started_at": NOW,
}  # fmt: skip


def test_a_row_comes_back_as_it_was_written(database: Database) -> None:
    oslo = timezone(timedelta(hours=1))
    odd = {"output": {"a": [1, 2.5, None, "\0 \ud800 中文"]}, "stderr": "a\0b\ud800c", "created_at": NOW.astimezone(oslo)}
    with database.write() as connection:
        connection.execute(insert(runs).values(RUN | odd))
    with database.read() as connection:
        row = connection.execute(select(runs)).one()
    assert row.output == odd["output"]
    assert row.stderr == "a\ufffdb\ufffd\ufffd\ufffdc"
    assert (row.created_at, row.created_at.tzinfo, row.cache_hit, row.message) == (NOW, UTC, False, None)


def test_constraints_hold_in_every_database(database: Database) -> None:
    step = {"run_id": "run_1", "position": 0, "step_id": "a", "step_name": "a", "duration": 1.0}
    for refused in (insert(runs).values(RUN | {"state": "lost"}), insert(steps).values(step)):
        with pytest.raises(ValueRefused), database.write() as connection:
            connection.execute(refused)
    with database.write() as connection:
        connection.execute(insert(runs).values(RUN))
        connection.execute(insert(steps).values(step))
        connection.execute(delete(runs))
        assert connection.execute(select(steps)).all() == []


def test_a_number_that_no_column_has_room_for_is_refused_as_a_value(database: Database) -> None:
    """Written, or asked for: nobody need try again."""
    for number in (2**63, 10**40, -(10**40)):
        with pytest.raises(ValueRefused, match="does not accept") as refused, database.write() as connection:
            connection.execute(insert(install_logs).values(LOG | {"progress": number}))
        assert (refused.value.code, refused.value.status) == ("value_refused", 422)
        assert refused.value.hint
    with pytest.raises(ValueRefused), database.read() as connection:
        connection.execute(select(install_logs).limit(10**30)).all()


def test_a_text_that_no_index_has_room_for_is_refused_as_a_value_where_there_is_such_a_limit(database: Database) -> None:
    row = {"workspace": "/w", "skill_id": os.urandom(20_000).hex(), "digest": "sha256:0", "approved_at": NOW}
    if database.conninfo is None:
        with database.write() as connection:
            connection.execute(insert(approvals).values(row))
        return
    with pytest.raises(ValueRefused) as refused, database.write() as connection:
        connection.execute(insert(approvals).values(row))
    assert row["skill_id"][:100] not in refused.value.message


def test_a_place_that_is_taken_is_told_as_that(database: Database) -> None:
    row = {"workspace": "/w", "skill_id": "user:secret", "digest": "sha256:0", "approved_at": NOW}
    for table, values in ((runs, RUN), (approvals, row)):
        with database.write() as connection:
            connection.execute(insert(table).values(values))
        with pytest.raises(RecordExists) as refused, database.write() as connection:
            connection.execute(insert(table).values(values))
        assert "user:secret" not in refused.value.message


def test_a_transaction_is_kept_whole_or_not_at_all(database: Database) -> None:
    with pytest.raises(ZeroDivisionError), database.write() as connection:
        connection.execute(insert(runs).values(RUN))
        raise ZeroDivisionError
    with database.read() as connection:
        assert connection.execute(select(runs)).all() == []


def test_writers_wait_for_each_other(database: Database) -> None:
    row = {"workspace": "/w", "digest": "sha256:0", "approved_at": NOW}

    def write(number: int) -> None:
        with database.write() as connection:
            count = len(connection.execute(select(approvals)).all())
            connection.execute(insert(approvals).values(row | {"skill_id": f"user:{number}-{count}"}))

    threads = [threading.Thread(target=write, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    with database.read() as connection:
        assert len(connection.execute(select(approvals)).all()) == 12


def test_the_file_is_its_owners_alone_and_readers_do_not_wait_for_the_writer(tmp_path: Path) -> None:
    database = Database.open(str(tmp_path / "home"))
    file = tmp_path / "home/skillyard.db"
    with database.write() as connection:
        connection.execute(insert(runs).values(RUN))
        with database.read() as reader:
            assert reader.execute(select(runs)).all() == []
            assert reader.execute(text("PRAGMA journal_mode")).scalar() == "wal"
        modes = {stat.S_IMODE(path.stat().st_mode) for path in file.parent.iterdir()}
    assert modes == {0o600}
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    database.close()
    file.chmod(0o644)
    Database.open(str(tmp_path / "home")).close()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "url", ["mysql://h/d", "sqlite://", "sqlite:///:memory:", "nonsense", "postgresql+asyncpg://h/d", "a://b:x/c"]
)
def test_what_cannot_hold_records_is_refused_with_an_example(url: str) -> None:
    with pytest.raises(DatabaseUnavailable) as refused:
        database_url("/home", url)
    assert "sqlite:////" in str(refused.value.hint)


def test_a_password_is_never_shown(tmp_path: Path) -> None:
    url = "postgresql://ada:pa55word@127.0.0.1:1/none"
    assert "pa55word" not in redacted_url(database_url("/home", url))
    with pytest.raises(DatabaseUnavailable) as refused:
        Database.open(str(tmp_path), url)
    assert "pa55word" not in f"{refused.value.message} {refused.value.hint}"
    assert "ada:***@127.0.0.1" in refused.value.message


def test_a_place_that_cannot_be_written_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DatabaseUnavailable, match="cannot be used") as refused:
        Database.open(str(tmp_path / "file"))
    assert "SKILLYARD_DATABASE_URL" in str(refused.value.hint)


@pytest.mark.parametrize("code", [sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR_WRITE])
def test_a_full_disk_is_named_as_what_may_be_wrong(code: int) -> None:
    reason = sqlite3.OperationalError("disk I/O error")
    reason.sqlite_errorcode = code
    error = translate_error(OperationalError("INSERT", {}, reason), name="skillyard.db", secret=None)
    assert isinstance(error, DatabaseUnavailable)
    assert "df -h" in str(error.hint)


def test_a_link_in_place_of_the_file_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home/skillyard.db").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(DatabaseUnavailable):
        Database.open(str(tmp_path / "home"))
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("command", [["list"], ["show", "pdf-miner"], ["prompt"], ["search", "pdf"]])
def test_who_only_looks_at_skills_loads_no_database(command: list[str]) -> None:
    examples = Path(__file__).resolve().parents[2] / "examples/skills"
    script = (
        f"import sys; from skillyard.cli import main; code = main({[*command, '--root', str(examples)]!r})\n"
        "sys.exit(code or 'sqlalchemy' in sys.modules or 'alembic' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=60).returncode == 0


@pytest.mark.parametrize("files", [3, pytest.param(20, marks=pytest.mark.long)])
def test_many_processes_that_open_a_new_file_at_once_wait_for_each_other(tmp_path: Path, files: int) -> None:
    script = (
        "import os, sys\nfrom skillyard.database import Database\n"
        "for number in range(int(sys.argv[2])):\n"
        "    children = []\n"
        "    for _ in range(8):\n"
        "        child = os.fork()\n"
        "        if not child:\n"
        "            try:\n"
        "                Database.open(f'{sys.argv[1]}/{number}')\n"
        "            except BaseException as error:\n"
        "                sys.stderr.write(f'{error}\\n')\n"
        "                os._exit(1)\n"
        "            os._exit(0)\n"
        "        children.append(child)\n"
        "    if any(os.waitpid(child, 0)[1] for child in children):\n"
        "        sys.exit(1)\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path), str(files)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
