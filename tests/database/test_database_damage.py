"""A damaged database is said to be damaged, and what can be read of it comes back into a new file, the old one kept."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some
from next_release import NEXT_REVISION, become_next_release
from sqlalchemy import func, insert, select, text

from skillyard.database import (
    ALL_TABLES,
    Database,
    api_keys,
    approvals,
    matching_any_word,
    memories,
    repair_file,
    runs,
    skill_definitions,
    steps,
)
from skillyard.database.sqlite_pages import PageFile
from skillyard.errors import DatabaseDamaged, DatabaseUnavailable

NOW = datetime(2026, 1, 2, 3, 4, 5, 678_000, UTC)
PAGE = 4096
RUNS, STEPS = 900, 1800


def _run(number: int) -> dict[str, Any]:
    return {
        "id": f"run_{number:05}", "skill_id": "user:x", "skill_name": "x", "kind": "direct", "state": "succeeded",
        "parameters": {"number": number, "text": "中文" * (number % 90)}, "context": {}, "cache_hit": False, "owner": "",
        "created_at": NOW, "output": {"long": "y" * (20_000 if number % 100 == 0 else 10)},
    }  # fmt: skip


def _fill(home: Path) -> Path:
    """Records of several kinds, on some hundreds of pages, closed."""
    database = Database.open(str(home))
    with database.write() as connection:
        connection.execute(insert(runs), [_run(number) for number in range(RUNS)])
        step = {"step_id": "a", "step_name": "a", "duration": 1.5, "output": {"text": "z" * 60}}
        rows = [step | {"run_id": f"run_{number // 2:05}", "position": number % 2} for number in range(STEPS)]
        connection.execute(insert(steps), rows)
        kept = {"workspace": "/w", "digest": "sha256:0", "approved_at": NOW}
        connection.execute(insert(approvals), [kept | {"skill_id": f"user:{number}"} for number in range(300)])
        memory = {
            "owner_type": "user", "owner_id": "ada", "type": "preference", "importance": 0.5, "source": "run", "metadata": {},
            "created_at": NOW,
        }  # fmt: skip
        texts = [(f"mem_{number}", f"tea number{number}") for number in range(50)]
        connection.execute(
            insert(memories), [memory | {"id": name, "content": reported, "words": reported} for name, reported in texts]
        )
    database.close()
    return home / "skillyard.db"


@pytest.fixture(scope="module")
def _filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _fill(tmp_path_factory.mktemp("filled"))


@pytest.fixture
def file(_filled: Path, tmp_path: Path) -> Path:
    """A database with records, closed; a copy of its own for each test."""
    (tmp_path / "home").mkdir()
    return Path(shutil.copy(_filled, tmp_path / "home/skillyard.db"))


def _overwrite(file: Path, pages: list[int], data: bytes | None = None) -> None:
    with file.open("r+b") as stream:
        for page in pages:
            stream.seek((page - 1) * PAGE)
            stream.write(random.Random(page).randbytes(PAGE) if data is None else data)


def _pages_of(file: Path, name: str) -> list[int]:
    """The pages of a table or index, its root first."""
    with closing(sqlite3.connect(file)) as connection:
        query = "SELECT pageno FROM dbstat WHERE name = ? ORDER BY path"
        return [row[0] for row in connection.execute(query, (name,))]


def _leaves_of(file: Path, name: str) -> list[int]:
    with closing(sqlite3.connect(file)) as connection:
        query = "SELECT pageno FROM dbstat WHERE name = ? AND pagetype = 'leaf' ORDER BY path"
        return [row[0] for row in connection.execute(query, (name,))]


def _middle(file: Path) -> None:
    _overwrite(file, [page for page in _leaves_of(file, "runs") if page != 1][3:6])


def _truncated(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2 // PAGE * PAGE + 100)


def _index(file: Path) -> None:
    _overwrite(file, _pages_of(file, "sqlite_autoindex_runs_1")[1:3])


def _header(file: Path) -> None:
    _overwrite(file, [1], b"x" * 100)


def _root(file: Path) -> None:
    _overwrite(file, _pages_of(file, "runs")[:1])


def _list_of_tables(file: Path) -> None:
    _overwrite(file, [1])


DAMAGES = [_middle, _truncated, _index, _header, _root, _list_of_tables]


def _count(file: Path, table: Any) -> int:
    with closing(Database.open(str(file.parent))) as database, database.read() as connection:
        return connection.execute(select(func.count()).select_from(table)).scalar_one()


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_said_to_be_damage_with_what_to_do(file: Path, damage: Callable[[Path], None]) -> None:
    damage(file)
    database = Database.at(str(file.parent))
    check = database.check()
    assert not check.whole
    with pytest.raises(DatabaseDamaged) as refused, database.write() as connection:
        connection.execute(select(runs).order_by(runs.c.created_at)).all()
        connection.execute(insert(runs).values(_run(RUNS)))
        connection.execute(
            text("SELECT sum(length(skill_id)) FROM runs INDEXED BY sqlite_autoindex_runs_1 WHERE id > ''")
        ).all()
        raise AssertionError("it was read without a word")
    assert (refused.value.code, refused.value.status) == ("database_damaged", 500)
    assert "skillyard db repair" in str(refused.value.hint)
    database.close()


def test_a_whole_database_has_no_problems(database: Database) -> None:
    with database.write() as connection:
        connection.execute(insert(runs).values(_run(1)))
    check = database.check()
    assert (check.whole, check.problems) == (True, ())
    assert check.to_dict()["whole"] is True


def test_an_index_over_words_and_references_are_checked_too(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("DELETE FROM memories_words_data WHERE id > 100")
        connection.execute("INSERT INTO steps (run_id, position, step_id, step_name, duration) VALUES ('none', 0, 'a', 'a', 1)")
        connection.commit()
    with closing(Database.at(str(file.parent))) as database:
        problems = " ".join(database.check().problems)
    assert "refers to a row of runs that is not there" in problems
    assert "memories_words" in problems


def test_pages_in_the_middle_cost_their_own_rows_and_no_others(file: Path) -> None:
    _middle(file)
    before = file.read_bytes()
    report = repair_file(file)
    tables = {table.table: table for table in report.tables}
    assert Path(report.kept).read_bytes() == before
    assert 0 < (tables["runs"].lost or 0) < 60
    assert tables["runs"].rows + (tables["runs"].lost or 0) == RUNS
    assert (tables["approvals"].rows, tables["approvals"].lost) == (300, 0)
    assert tables["steps"].rows == 2 * tables["runs"].rows  # those of lost runs have gone with them
    assert not report.complete
    assert _count(file, runs) == tables["runs"].rows
    with closing(Database.open(str(file.parent))) as database:
        assert database.check().whole
        assert database.status().current
        with database.read() as connection:
            there = {row.id: row for row in connection.execute(select(runs))}
            for name, row in there.items():
                wanted = _run(int(name[4:]))
                assert {key: getattr(row, key) for key in wanted} == wanted
            words = matching_any_word(connection, select(memories.c.content), ["number7"])
            assert connection.execute(words).scalars().all() == ["tea number7"]


def test_a_row_whose_number_has_become_text_costs_itself_and_not_the_repair(file: Path) -> None:
    """One byte: the column that numbers the rows, which is not stored, says that it is an empty text."""
    data = bytearray(file.read_bytes())
    content = data.index(b"mem_7tea number7")
    kind = data.rindex(bytes([0, 13 + 2 * len("mem_7"), 0, 13 + 2 * len("tea number7")]), content - 40, content)
    data[kind] = 13
    file.write_bytes(data)
    tables = {table.table: table for table in repair_file(file).tables}
    assert (tables["memories"].rows, tables["memories"].lost) == (49, 1)
    assert (tables["runs"].rows, tables["runs"].lost) == (RUNS, 0)


@pytest.mark.parametrize("damage", [_index, _header])
def test_what_is_not_a_row_costs_no_row(file: Path, damage: Callable[[Path], None]) -> None:
    damage(file)
    report = repair_file(file)
    assert {table.table: table.rows for table in report.tables if table.rows} == {
        "runs": RUNS, "steps": STEPS, "approvals": 300, "memories": 50,
    }  # fmt: skip
    assert _count(file, steps) == STEPS
    with closing(Database.open(str(file.parent))) as database:
        assert database.check().whole


def test_a_lost_root_costs_only_what_was_on_it(file: Path) -> None:
    _root(file)
    report = repair_file(file)
    (lost,) = (table for table in report.tables if table.table == "runs")
    assert (lost.rows, lost.lost) == (RUNS, 0)
    assert _count(file, runs) == RUNS


def test_a_lost_list_of_tables_is_found_on_its_other_pages(file: Path) -> None:
    _list_of_tables(file)
    report = repair_file(file)
    rows = {table.table: table.rows for table in report.tables}
    assert rows["steps"] + rows["runs"] > 0
    with closing(Database.open(str(file.parent))) as database:
        assert database.check().whole


def test_half_a_file_gives_what_is_on_it(file: Path) -> None:
    _truncated(file)
    report = repair_file(file)
    rows = {table.table: table.rows for table in report.tables}
    assert 0 < rows["runs"] < RUNS
    assert _count(file, runs) == rows["runs"]


def test_what_only_the_log_has_comes_back_too(file: Path, tmp_path: Path) -> None:
    """A process that was killed leaves its last rows there."""
    script = (
        "import os, sys\nfrom skillyard.database import Database, runs\nfrom sqlalchemy import text\n"
        "database = Database.open(sys.argv[1])\n"
        "with database.write() as connection:\n"
        "    connection.execute(text(\"UPDATE runs SET owner = 'late' WHERE id = 'run_00001'\"))\n"
        "os.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", script, str(file.parent)], check=False, timeout=60)
    log = file.with_name("skillyard.db-wal")
    assert log.stat().st_size > 0
    _overwrite(file, [1], b"x" * 100)
    report = repair_file(file)
    with closing(Database.open(str(file.parent))) as database, database.read() as connection:
        assert connection.execute(select(runs.c.owner).where(runs.c.id == "run_00001")).scalar() == "late"
    assert Path(f"{report.kept}-wal").stat().st_size > 0


def test_rows_that_grant_something_are_not_taken_from_pages_that_nothing_leads_to(file: Path) -> None:
    """A page without a way to it may hold what was taken back."""
    _overwrite(file, _pages_of(file, "approvals")[:1])
    report = repair_file(file)
    tables = {table.table: table for table in report.tables}
    assert tables["approvals"].rows == 0
    assert tables["approvals"].lost == 300
    assert report.unplaced == 300
    assert tables["api_keys"].rows == 0 == _count(file, api_keys)


def test_nobody_else_may_use_the_file_meanwhile(file: Path) -> None:
    before = sorted(path.name for path in file.parent.iterdir())
    with closing(Database.open(str(file.parent))) as database:
        database.status()
        with pytest.raises(DatabaseUnavailable, match="in use"):
            repair_file(file)
        script = (
            "import sys\nfrom pathlib import Path\nfrom skillyard.database import repair_file\nrepair_file(Path(sys.argv[1]))"
        )
        done = subprocess.run([sys.executable, "-c", script, str(file)], capture_output=True, text=True, timeout=60)
        assert "is in use" in done.stderr
        assert database.status().current
    assert sorted(path.name for path in file.parent.iterdir()) == before


def test_others_wait_while_it_is_repaired(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody writes into the file that is put away: it cannot be opened before the new one is in its place."""
    from skillyard.database import repair

    said = []
    opening = "import sqlite3, sys; sqlite3.connect(sys.argv[1], timeout=0).execute('SELECT count(*) FROM runs')"

    def place(old: Path, new: Path) -> Path:
        done = subprocess.run([sys.executable, "-c", opening, str(old)], capture_output=True, text=True, timeout=60)
        said.append(done.stderr)
        return put(old, new)

    put = repair._put_in_place
    monkeypatch.setattr(repair, "_put_in_place", place)
    repair_file(file)
    assert "locked" in said[0]
    assert subprocess.run([sys.executable, "-c", opening, str(file)], capture_output=True, timeout=60).returncode == 0


@pytest.mark.parametrize("content", [b"", b"x" * 9000, b"SQLite format 3\0" + bytes(5000)])
def test_where_nothing_can_be_read_nothing_is_changed(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "skillyard.db"
    file.write_bytes(content)
    with pytest.raises(DatabaseDamaged):
        repair_file(file)
    assert [path.name for path in tmp_path.iterdir()] == ["skillyard.db"]
    assert file.read_bytes() == content


def test_records_of_an_older_release_are_repaired_and_upgraded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    old = Database.open(str(home))
    with old.write() as connection:
        row = {"skill_id": "user:x", "skill_name": "x", "kind": "direct", "state": "queued", "created_at": datetime.now(UTC)}
        row |= {"parameters": {}, "context": {}, "cache_hit": False, "owner": ""}
        connection.execute(insert(runs), [{"id": f"run_{number}", **row} for number in range(400)])
    old.close()
    file = home / "skillyard.db"
    _overwrite(file, _leaves_of(file, "runs")[:1])
    become_next_release(tmp_path / "next", monkeypatch)
    report = repair_file(file)
    rows = next(table.rows for table in report.tables if table.table == "runs")
    assert 300 < rows < 400
    with closing(Database.open(str(home), migrate=False)) as database:
        assert database.status().revision == NEXT_REVISION
        assert database.check().whole
    assert _count(file, runs) == rows


@pytest.mark.parametrize(("revision", "by"), [("r9999", "newer"), ("r0005", "between two releases")])
def test_records_of_a_newer_or_no_release_are_left_alone(file: Path, revision: str, by: str) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("UPDATE alembic_version SET version_num = ?", (revision,))
        connection.commit()
    before = file.read_bytes()
    with pytest.raises(DatabaseUnavailable, match=by):
        repair_file(file)
    assert file.read_bytes() == before


def test_every_table_is_repaired(file: Path) -> None:
    report = repair_file(file)
    assert {table.table for table in report.tables} == {table.name for table in ALL_TABLES.sorted_tables}
    assert report.complete
    assert skill_definitions.name in {table.table for table in report.tables}


VALUES = some.one_of(
    some.none(), some.integers(-(2**63), 2**63 - 1), some.floats(allow_nan=False), some.binary(max_size=9000),
    some.text(some.characters(codec="utf-8", exclude_characters="\0"), max_size=3000),
)  # fmt: skip


@given(some.lists(some.tuples(VALUES, VALUES, VALUES), max_size=40), some.sampled_from([512, 1024, 4096, 65536]))
def test_pages_are_read_as_sqlite_reads_them(tmp_path: Path, rows: list[tuple[Any, ...]], size: int) -> None:
    for path in tmp_path.iterdir():
        path.unlink()
    with closing(sqlite3.connect(tmp_path / "t.db")) as connection:
        connection.execute(f"PRAGMA page_size = {size}")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE t (a, b, c)")
        connection.executemany("INSERT INTO t VALUES (?, ?, ?)", rows)
        connection.execute("DELETE FROM t WHERE rowid % 3 = 0")
        connection.commit()
        connection.execute("INSERT INTO t VALUES (1, 2, 3)")  # never committed
        connection.execute("PRAGMA cache_spill = ON")
        pages = PageFile((tmp_path / "t.db").read_bytes(), (tmp_path / "t.db-wal").read_bytes())
        connection.rollback()
        wanted = connection.execute("SELECT rowid, * FROM t ORDER BY rowid").fetchall()
    tree = pages.tree(pages.tables()["t"][0])
    assert [(row.number, *row.values) for row in tree.rows] == wanted
    assert (tree.broken_pages, tree.broken_rows) == (0, 0)


@given(data=some.binary(max_size=3000), log=some.binary(max_size=300), begins_well=some.booleans())
def test_anything_can_be_read_without_an_end_of_its_own(data: bytes, log: bytes, *, begins_well: bool) -> None:
    start = b"SQLite format 3\0" + (512).to_bytes(2, "big") + bytes(82) if begins_well else b""
    pages = PageFile(start + data, log)
    for root, _ in pages.tables().values():
        pages.tree(root)
        pages.count_index(root)
    assert sum(1 for _ in pages.stray_leaves()) <= pages.pages
