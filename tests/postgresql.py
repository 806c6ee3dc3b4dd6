"""A PostgreSQL server for the tests: made in a temporary folder, reached through a socket there, stopped at the end."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote
from uuid import uuid4

if TYPE_CHECKING:
    import psycopg

__all__ = ["Cluster", "Copies", "clocked", "database_of", "server"]

_PLACES = ("/usr/lib/postgresql/*/bin", "/usr/local/pgsql/bin", "/usr/pgsql-*/bin")
_FAST = (
    "fsync=off", "synchronous_commit=off", "full_page_writes=off", "autovacuum=off", "wal_level=minimal", "max_wal_senders=0",
    "jit=off", "checkpoint_timeout=1h", "bgwriter_lru_maxpages=0", "wal_writer_delay=10s",
)  # fmt: skip
_CATALOGS = "class attribute attrdef constraint index trigger proc type namespace extension rewrite sequence event_trigger"
_SHAPE = " UNION ALL ".join(f"SELECT count(*), max(xmin::text::bigint) FROM pg_catalog.pg_{name}" for name in _CATALOGS.split())
_WRITTEN = """
    SELECT oid::regclass::text FROM pg_class
    WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace AND pg_relation_size(oid) > 0
"""
_RESTART = """
    SELECT setval(format('%I.%I', schemaname, sequencename)::regclass, start_value, false) FROM pg_sequences
    WHERE last_value IS NOT NULL
"""


def _program(name: str) -> str:
    beside = sorted(path for place in _PLACES for path in Path("/").glob(place.lstrip("/") + f"/{name}"))
    found = str(beside[-1]) if beside else shutil.which(name)
    assert found, f"{name} is not installed; `make system` installs PostgreSQL"
    return found


def _user() -> str | None:
    """The server refuses to be root: then it is the ordinary user that its package made."""
    if os.geteuid() != 0:
        return None
    return pwd.getpwnam("postgres").pw_name


class Cluster:
    """One cluster in `folder`, which belongs to the user it runs as; `listen` is a port of loopback, else it is only reached
    through a socket in the folder. `settings` are given to every start. One that is `clocked` goes by a clock that can be set.
    """

    def __init__(
        self, folder: Path, *settings: str, listen: int | None = None, data: str = "data", clocked: bool = False
    ) -> None:
        self.folder, self.data = folder, folder / data
        self._clock = folder / "clock" if clocked else None
        self._user = _user()
        place = (f"unix_socket_directories={folder}", f"listen_addresses={'127.0.0.1' if listen else ''}")
        self._settings = (*settings, *place, *((f"port={listen}",) if listen else ()))
        host = f"127.0.0.1:{listen}" if listen else ""
        self.url = f"postgresql://skillyard@{host}/postgres" + ("" if listen else f"?host={quote(str(folder))}")
        if self._user:
            os.chown(folder, pwd.getpwnam(self._user).pw_uid, -1)

    def make(self) -> None:
        """Make it, empty."""
        locale = ("-E", "UTF8", "--locale=C")
        self.call("initdb", "-D", str(self.data), "-U", "skillyard", "-A", "trust", *locale, "-N")

    def start(self) -> None:
        """Start it, and wait until it takes connections."""
        settings = " ".join(f"-c {setting}" for setting in self._settings)
        if self._clock is not None and not self._clock.exists():
            self.set_clock(0)
        self.call(
            "pg_ctl", "start", "-w", "-D", str(self.data), "-l", str(self.folder / "log"), "-o", settings, **self._faked()
        )

    def stop(self, mode: str = "immediate") -> None:
        """Stop it."""
        self.call("pg_ctl", "stop", "-w", "-m", mode, "-D", str(self.data))

    def set_clock(self, seconds: int) -> None:
        """Let it be so many seconds later than it is, or earlier; only for one that is clocked."""
        assert self._clock is not None
        written = self._clock.with_suffix(".new")
        written.write_text(f"{seconds:+d}\n")
        written.chmod(0o644)
        written.replace(self._clock)

    def _faked(self) -> dict[str, str]:
        """What lets a program go by that clock, and by the machine's where it only counts seconds."""
        if self._clock is None:
            return {}
        found = sorted(Path("/").glob("usr/lib/*/faketime/libfaketime.so.1"))
        assert found, "libfaketime is not installed; `make system` installs it"
        return {
            "LD_PRELOAD": str(found[-1]), "FAKETIME_TIMESTAMP_FILE": str(self._clock), "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1", "FAKETIME_DISABLE_SHM": "1", "FAKE_STAT": "0", "NO_FAKE_STAT": "1",
        }  # fmt: skip

    def processes(self) -> list[int]:
        """The numbers of its processes, the first one first; none when it does not run."""
        try:
            first = int((self.data / "postmaster.pid").read_text().split()[0])
            return [first, *map(int, Path(f"/proc/{first}/task/{first}/children").read_text().split())]
        except (OSError, ValueError, IndexError):
            return []

    def call(self, program: str, *arguments: str, **environment: str) -> None:
        """Run a program of PostgreSQL as the user of the cluster."""
        command, plain = [_program(program), *arguments], {"PATH": os.defpath, **environment}
        subprocess.run(command, user=self._user, check=True, capture_output=True, timeout=120, cwd=self.folder, env=plain)


@contextmanager
def server() -> Iterator[str]:
    """The URL of a running server, without a database."""
    with _running() as cluster:
        yield cluster.url


@contextmanager
def clocked() -> Iterator[Cluster]:
    """A running cluster whose clock can be set."""
    with _running(clocked=True) as cluster:
        yield cluster


@contextmanager
def _running(*, clocked: bool = False) -> Iterator[Cluster]:
    folder = Path(tempfile.mkdtemp(prefix="skillyard-pg-", dir="/tmp"))
    try:
        cluster = Cluster(folder, *_FAST, clocked=clocked)
        cluster.make()
        cluster.start()
        try:
            yield cluster
        finally:
            cluster.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def database_of(url: str) -> Iterator[str]:
    """The URL of a new, empty database on that server."""
    import psycopg

    name = f"test_{uuid4().hex}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} STRATEGY file_copy")
        try:
            yield url.replace("/postgres?", f"/{name}?")
        finally:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


class Copies:
    """Copies of the database `like` on that server, one for each test.

    What a test has written in one is deleted before the next takes it, under another name. One whose tables are no longer those
    of `like`, or that cannot be cleaned, is dropped.
    """

    def __init__(self, url: str, like: str) -> None:
        import psycopg

        self._url, self._like = url, like
        self._server = psycopg.connect(url, autocommit=True)
        self._free: list[str] = []
        with psycopg.connect(self._at(like), autocommit=True) as connection:
            self._filled = {table: _rows(connection, table) for (table,) in connection.execute(_WRITTEN)}
            self._shape = connection.execute(_SHAPE).fetchall()

    @contextmanager
    def one(self) -> Iterator[str]:
        """The URL of a copy."""
        name = f"test_{uuid4().hex}"
        if self._free:
            self._server.execute(f"ALTER DATABASE {self._free.pop()} RENAME TO {name}")
        else:
            self._server.execute(f"CREATE DATABASE {name} TEMPLATE {self._like} STRATEGY file_copy")
        try:
            yield self._at(name)
        finally:
            self._take_back(name)

    def close(self) -> None:
        """Drop them."""
        for name in self._free:
            self._server.execute(f"DROP DATABASE {name} WITH (FORCE)")
        self._server.close()

    def _at(self, name: str) -> str:
        return self._url.replace("/postgres?", f"/{name}?")

    def _take_back(self, name: str) -> None:
        """Whoever still knows the name finds nothing there any more."""
        import psycopg

        free = f"free_{uuid4().hex}"
        try:
            ended = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = %s"
            self._server.execute(ended, (name,))
            self._server.execute(f"ALTER DATABASE {name} RENAME TO {free}")
        except psycopg.Error:  # it is not there, or somebody does not leave it
            self._server.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
            return
        try:
            with psycopg.connect(self._at(free), autocommit=True) as connection:
                clean = self._clean(connection)
        except psycopg.Error:
            clean = False
        if clean:
            self._free.append(free)
        else:
            self._server.execute(f"DROP DATABASE {free} WITH (FORCE)")

    def _clean(self, connection: psycopg.Connection[Any]) -> bool:
        """Delete what was written since it was made; False when it cannot be as it was."""
        if connection.execute(_SHAPE).fetchall() != self._shape:
            return False
        written = [table for (table,) in connection.execute(_WRITTEN)]
        if any(_rows(connection, table) != rows for table, rows in self._filled.items()):
            return False
        if emptied := [table for table in written if table not in self._filled]:
            deleted = "; ".join(f"DELETE FROM {table}" for table in emptied)
            connection.execute(f"SET session_replication_role = replica; {deleted}")  # no triggers
            connection.execute(f"VACUUM (PARALLEL 0) {', '.join(emptied)}")
            connection.execute(_RESTART)
        return {table for (table,) in connection.execute(_WRITTEN)} == self._filled.keys()


def _rows(connection: psycopg.Connection[Any], table: str) -> list[Any]:
    return connection.execute(f"SELECT * FROM {table}").fetchall()
