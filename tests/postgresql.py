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

__all__ = ["database_of", "server"]

_PLACES = ("/usr/lib/postgresql/*/bin", "/usr/local/pgsql/bin", "/usr/pgsql-*/bin")
_FAST = ("fsync=off", "synchronous_commit=off", "full_page_writes=off", "autovacuum=off", "listen_addresses=")


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


@contextmanager
def server() -> Iterator[str]:
    """The URL of a running server, without a database."""
    user = _user()
    folder = Path(tempfile.mkdtemp(prefix="skillyard-pg-", dir="/tmp"))
    if user:
        os.chown(folder, pwd.getpwnam(user).pw_uid, -1)
    data = folder / "data"

    def call(*command: str) -> None:
        subprocess.run(command, user=user, check=True, capture_output=True, timeout=120, cwd=folder, env={"PATH": os.defpath})

    try:
        call(_program("initdb"), "-D", str(data), "-U", "skillyard", "-A", "trust", "-E", "UTF8", "--locale=C", "-N")
        settings = " ".join(f"-c {setting}" for setting in (*_FAST, f"unix_socket_directories={folder}"))
        control = _program("pg_ctl")
        call(control, "start", "-w", "-D", str(data), "-l", str(folder / "log"), "-o", settings)
        try:
            yield f"postgresql://skillyard@/postgres?host={quote(str(folder))}"
        finally:
            call(control, "stop", "-w", "-m", "immediate", "-D", str(data))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def database_of(url: str) -> Iterator[str]:
    """The URL of a new, empty database on that server."""
    import psycopg

    name = f"test_{uuid4().hex}"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
        try:
            yield url.replace("/postgres?", f"/{name}?")
        finally:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
