"""A database file is opened by SQLite alone, by one engine of each process, and its locks hold as long as it is used."""

from __future__ import annotations

import ast
import os
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
from sqlalchemy import text

from skillyard import Catalog
from skillyard.database import Database, connection, dialects
from skillyard.errors import PathRefused, SkillyardError
from skillyard.files import read_limited
from skillyard.packages import tree_digest
from skillyard.paths import is_reserved, read_inside
from skillyard.registry import ProjectLock
from skillyard.sandbox import Policy, work_files

SOURCE = Path(dialects.__file__).parents[1]
HOOK = Path(__file__).parents[2] / "benchmarks/soak/open_hook"


def _use_once(home: Path) -> None:
    """What a short command does: open the file, read, close it; the last one to close deletes the log."""
    script = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('SELECT count(*) FROM runs'); c.close()"
    subprocess.run([sys.executable, "-c", script, str(home / "skillyard.db")], check=True, timeout=60)


def _remember(database: Database, words: str) -> None:
    with database.write() as connection:
        connection.execute(text("INSERT INTO organisations (name, created_at) VALUES (:name, '2026')"), {"name": words})


def _remembered(home: Path) -> list[str]:
    """What another process would read."""
    script = (
        "import sqlite3, sys; print(*(r[0] for r in sqlite3.connect(sys.argv[1]).execute('SELECT name FROM organisations')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(home / "skillyard.db")], check=True, timeout=60, capture_output=True, text=True
    )
    return done.stdout.split()


def test_a_process_that_opens_the_file_twice_keeps_its_locks_and_its_log(tmp_path: Path) -> None:
    """As a server does, for what is installed and for runs; a command beside it must not delete the log under it."""
    with closing(Database.open(str(tmp_path))) as registry, closing(Database.open(str(tmp_path))) as records:
        _remember(registry, "one")
        log = (tmp_path / "skillyard.db-wal").stat().st_ino
        for _ in range(3):
            _use_once(tmp_path)
            assert (tmp_path / "skillyard.db-wal").stat().st_ino == log
        Database.open(str(tmp_path)).close()
        _use_once(tmp_path)
        assert (tmp_path / "skillyard.db-wal").stat().st_ino == log
        _remember(records, "two")
        assert _remembered(tmp_path) == ["one", "two"]
    assert _remembered(tmp_path) == ["one", "two"]


def test_no_file_that_is_there_is_opened_for_its_rights(tmp_path: Path) -> None:
    """By name only: an exclusive making of a file that is there fails without a descriptor of it."""
    script = (
        "import os, sys\nfrom pathlib import Path\nfrom skillyard.database.dialects import make_file\n"
        "opened = []\n"
        "sys.addaudithook(lambda event, given: opened.append(given[2] & os.O_EXCL) if event == 'open' else None)\n"
        "make_file(Path(sys.argv[1]))\n"
        "print(len(opened), all(opened))\n"
    )
    file = tmp_path / "home/skillyard.db"
    command = [sys.executable, "-c", script, str(file)]
    assert subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout == "1 True\n"
    for name in ("skillyard.db-wal", "skillyard.db-shm"):
        file.with_name(name).touch(0o644)
    file.chmod(0o664)
    assert subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout == "1 True\n"
    assert [stat.S_IMODE(path.stat().st_mode) for path in file.parent.iterdir()] == [0o600] * 3


def test_everybody_in_a_process_shares_one_engine_and_the_last_one_closes_it(tmp_path: Path) -> None:
    home = tmp_path / "home"
    first = Database.open(str(home))
    (tmp_path / "link").symlink_to(home)
    others = [
        Database.open(str(home)),
        Database.open(str(tmp_path / "link")),
        Database.open("", f"sqlite:///{home}/skillyard.db"),
    ]
    engines = {id(database._lease.engine()) for database in (first, *others)}
    assert len(engines) == 1
    assert connection.is_open_here(home / "skillyard.db")
    for database in others:
        database.close()
        database.close()
    assert connection.is_open_here(home / "skillyard.db")
    _remember(first, "still")
    first.close()
    assert not connection.is_open_here(home / "skillyard.db")
    assert not (home / "skillyard.db-wal").exists()
    _remember(first, "again")  # the next use opens it
    assert connection.is_open_here(home / "skillyard.db")
    first.close()


def test_an_engine_is_let_go_of_with_the_last_who_has_it(tmp_path: Path) -> None:
    Database.open(str(tmp_path)).status()
    assert not connection.is_open_here(tmp_path / "skillyard.db")


def test_a_database_collected_while_another_is_opened_locks_nobody_out(tmp_path: Path) -> None:
    """The collector may run anywhere, also where the engines are counted: in a process of its own, as it once hung."""
    script = (
        "import gc, sys\nfrom pathlib import Path\nfrom skillyard.database import Database, connection\n"
        "one, two = sys.argv[1:]\n"
        "gc.disable()\n"
        "forgotten = [Database.open(one), Database.open(two)]\n"
        "forgotten.append(forgotten)\n"
        "make = connection.make_engine\n"
        "connection.make_engine = lambda url: (gc.collect(), make(url))[1]\n"
        "kept = Database.open(two + '/other')\n"
        "del forgotten\n"
        "again = Database.open(two + '/third')\n"
        "homes = (one, two, two + '/other', two + '/third')\n"
        "print([connection.is_open_here(Path(home, 'skillyard.db')) for home in homes])\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "one"), str(tmp_path / "two")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout == "[False, False, True, True]\n"


def test_two_homes_and_a_file_put_in_place_of_another_have_engines_of_their_own(tmp_path: Path) -> None:
    one, two = Database.open(str(tmp_path / "one")), Database.open(str(tmp_path / "two"))
    assert one._lease.engine() is not two._lease.engine()
    two.close()
    (tmp_path / "two/skillyard.db").rename(tmp_path / "one/skillyard.db")
    replaced = Database.open(str(tmp_path / "one"))
    assert replaced._lease.engine() is not one._lease.engine()
    one.close()
    replaced.close()


def test_a_forked_process_uses_connections_of_its_own(tmp_path: Path) -> None:
    database = Database.open(str(tmp_path))
    _remember(database, "parent")
    log = (tmp_path / "skillyard.db-wal").stat().st_ino
    child = os.fork()
    if not child:
        try:
            _remember(database, "child")
            database.close()
        except BaseException:
            os._exit(1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert (tmp_path / "skillyard.db-wal").stat().st_ino == log
    _remember(database, "parent-again")
    assert _remembered(tmp_path) == ["child", "parent", "parent-again"]
    database.close()


def test_many_threads_that_open_and_close_one_file_write_all_they_were_told(tmp_path: Path) -> None:
    kept = Database.open(str(tmp_path))
    problems: list[BaseException] = []

    def use(number: int) -> None:
        try:
            for turn in range(5):
                with closing(Database.open(str(tmp_path))) as database:
                    _remember(database, f"{number}-{turn}")
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=use, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    assert problems == []
    assert len(_remembered(tmp_path)) == 30
    kept.close()


@pytest.fixture
def records_among_skills(tmp_path: Path) -> Iterator[Path]:
    """A folder in which somebody keeps the records of this process."""
    folder = tmp_path / "work"
    database = Database.open("", f"sqlite:///{folder}/skillyard.db")
    _remember(database, "one")
    (folder / "notes.txt").write_text("notes")
    yield folder
    database.close()


def test_who_reads_folders_of_others_leaves_records_in_use_alone(records_among_skills: Path, tmp_path: Path) -> None:
    folder = records_among_skills
    log = (folder / "skillyard.db-wal").stat().st_ino
    names = sorted(path.name for path in folder.iterdir())
    assert [name for name in names if is_reserved(folder / name)] == ["skillyard.db", "skillyard.db-shm", "skillyard.db-wal"]
    assert tree_digest(folder) == tree_digest(folder)
    with pytest.raises(PathRefused, match="database"):
        read_inside(folder, "skillyard.db", limit=100)
    (tmp_path / "seeded").mkdir()
    work_files.copy_files_in(str(folder), str(tmp_path / "seeded"), None, Policy())
    assert [path.name for path in (tmp_path / "seeded").iterdir()] == ["notes.txt"]
    _use_once(folder)
    assert (folder / "skillyard.db-wal").stat().st_ino == log


_NAMES = ("skillyard.toml", "ship.json", "skillyard.lock", ".claude/settings.json", ".claude/skills/a/SKILL.md", "notes.txt")


@pytest.mark.abuse("F31")
def test_a_project_whose_files_lead_to_the_records_does_not_drop_their_locks(tmp_path: Path) -> None:
    """A repository may hold links, and where somebody keeps their records can be guessed."""
    database = Database.open(str(tmp_path / "home"))
    _remember(database, "one")
    log = (tmp_path / "home/skillyard.db-wal").stat().st_ino
    asked = 0
    for name in _NAMES:
        project = tmp_path / f"project-{asked}"
        file = project / name
        file.parent.mkdir(parents=True)
        file.symlink_to(tmp_path / "home/skillyard.db")
        with suppress(SkillyardError):
            assert [skill.name for skill in Catalog.discover(cwd=project, home=tmp_path)] == []
        with suppress(SkillyardError):
            ProjectLock(project).entries()
        with pytest.raises(OSError, match="in use"):
            read_limited(file, 100)
        tree_digest(project)
        _use_once(tmp_path / "home")
        assert (tmp_path / "home/skillyard.db-wal").stat().st_ino == log, name
        asked += 1
    assert asked == len(_NAMES)
    database.close()


def test_a_second_name_of_the_records_is_not_opened(records_among_skills: Path, tmp_path: Path) -> None:
    log = (records_among_skills / "skillyard.db-wal").stat().st_ino
    other = tmp_path / "other"
    other.mkdir()
    (other / "harmless.txt").hardlink_to(records_among_skills / "skillyard.db")
    (tmp_path / "seeded").mkdir()
    work_files.copy_files_in(str(other), str(tmp_path / "seeded"), None, Policy())
    tree_digest(other)
    with pytest.raises(PathRefused, match="database"):
        read_inside(other, "harmless.txt", limit=100)
    _use_once(records_among_skills)
    assert (records_among_skills / "skillyard.db-wal").stat().st_ino == log


def test_a_run_puts_no_file_in_the_place_of_records_in_use(records_among_skills: Path, tmp_path: Path) -> None:
    made = tmp_path / "made"
    made.mkdir()
    (made / "skillyard.db").write_text("not a database")
    source = os.open(made / "skillyard.db", os.O_RDONLY)
    before = (records_among_skills / "skillyard.db").stat().st_ino
    assert not work_files._copy_back(source, str(records_among_skills), "skillyard.db")
    assert (records_among_skills / "skillyard.db").stat().st_ino == before
    assert sorted(path.name for path in records_among_skills.iterdir() if path.name.startswith(".")) == []


def _calls(tree: ast.AST) -> Iterator[tuple[str, ast.Call]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node


def test_only_the_room_of_records_connects_to_sqlite_and_two_places_in_it_open_files() -> None:
    """Who makes a new file, and who repairs one that, as it has made sure, nobody has open."""
    connecting, opening, looked = set(), [], 0
    for module in SOURCE.rglob("*.py"):
        looked += 1
        room = module.relative_to(SOURCE).parts[0]
        for name, call in _calls(ast.parse(module.read_text("utf-8"))):
            if name in ("sqlite3.connect", "create_engine"):
                connecting.add(room)
            if room == "database" and name.rpartition(".")[2] in (
                "open",
                "fdopen",
                "copyfile",
                "copy",
                "copy2",
                "read_bytes",
                "write_bytes",
            ):
                opening.append((module.name, ast.unparse(call)))
    assert looked > 300
    assert connecting == {"database"}
    allowed = ("Database.open(", "cls.open(", "listener.open(")
    plain = sorted((name, call) for name, call in opening if not call.startswith(allowed))
    assert [name for name, _ in plain] == ["dialects.py", "repair.py", "repair.py"]
    assert "os.O_EXCL" in plain[0][1]


def test_the_hook_of_the_tests_sees_who_opens_a_database_file(tmp_path: Path) -> None:
    """It is what the tests of a shared home rely on."""
    log = tmp_path / "opens.log"
    with closing(sqlite3.connect(tmp_path / "skillyard.db")) as connection:
        connection.execute("CREATE TABLE t (a)")
    script = (
        "import os, shutil, sqlite3, sys\nfile = sys.argv[1]\n"
        "sqlite3.connect(file).execute('SELECT * FROM t').fetchall()\n"
        "open(file).close()\nos.close(os.open(file, os.O_RDONLY))\nshutil.copy(file, file + '.copy')\n"
        "folder = os.open(os.path.dirname(file), os.O_RDONLY)\nos.close(os.open('skillyard.db', os.O_RDONLY, dir_fd=folder))\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(HOOK), "SKILLYARD_OPENS_LOG": str(log)}
    subprocess.run([sys.executable, "-c", script, str(tmp_path / "skillyard.db")], check=True, timeout=60, env=environment)
    assert len(log.read_text().splitlines()) == 4
