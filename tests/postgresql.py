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
from urllib.parse import quote
from uuid import uuid4

__all__ = ["Cluster", "clocked", "database_of", "server"]

_PLACES = ("/usr/lib/postgresql/*/bin", "/usr/local/pgsql/bin", "/usr/pgsql-*/bin")
_FAST = ("fsync=off", "synchronous_commit=off", "full_page_writes=off", "autovacuum=off")


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
def database_of(url: str, *, like: str = "template1") -> Iterator[str]:
    """The URL of a new database on that server: an empty one, or a copy of another."""
    import psycopg

    name = f"test_{uuid4().hex}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {like} STRATEGY file_copy")
        try:
            yield url.replace("/postgres?", f"/{name}?")
        finally:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
