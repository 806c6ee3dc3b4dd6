"""A database file of SQLite: private to its owner, and opened by nothing but SQLite.

POSIX drops every lock that a process holds on a file as soon as the process closes any descriptor of it, whoever opened
that one (https://www.sqlite.org/howtocorrupt.html, section 2.2). So a file that is there is only looked at by its name,
and the one descriptor that makes a new file is closed before any connection of this process can be open.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import stat
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.pool import QueuePool

from skillyard.database.driver_errors import translate_refusal
from skillyard.open_flags import CLOEXEC, NOFOLLOW, owner_id
from skillyard.reserved_files import reserve_file

if TYPE_CHECKING:
    from sqlalchemy.engine import URL


SQLITE_SIDE_FILES: Final = ("-wal", "-shm", "-journal")
"""What SQLite puts beside a database file, by the end of the name."""
BUSY_TIMEOUT_S: Final = 30
"""Seconds that a connection waits for the locks of others."""

_POOL_SIZE: Final = 8
_POOL_OVERFLOW: Final = 24  # one pool serves everything in the process that uses the file
_making = threading.Lock()


def file_of(url: URL) -> Path:
    """The absolute path of the database file that the URL names; nothing is looked at."""
    return Path(str(url.database)).expanduser().absolute()


def make_file(path: Path) -> None:
    """Make the file where there is none, and let nobody but its owner read it; one that is there is never opened.

    Raises:
        OSError: it cannot be made, or a link is in its place.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _making:  # who opens a connection to it comes by here first, and waits until the descriptor is closed
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | NOFOLLOW | CLOEXEC, 0o600))
        except FileExistsError:
            _keep_private(path)
            for name in SQLITE_SIDE_FILES:
                _keep_private(path.with_name(path.name + name))


def _keep_private(path: Path) -> None:
    """Take the rights of others away from our own file, by its name.

    Raises:
        OSError: it is a link.
    """
    try:
        state = path.lstat()
    except FileNotFoundError:
        return
    if stat.S_ISLNK(state.st_mode):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    if state.st_uid == owner_id() and stat.S_IMODE(state.st_mode) != 0o600:
        path.chmod(0o600)


def sqlite_engine(url: URL) -> Engine:
    """A new engine for the file of the URL, which `make_file` has made."""
    path = file_of(url)
    reserve_file(path, SQLITE_SIDE_FILES)
    engine = create_engine(
        url.set(database=str(path)),
        connect_args={"timeout": BUSY_TIMEOUT_S, "check_same_thread": False},
        poolclass=QueuePool,
        pool_size=_POOL_SIZE,
        max_overflow=_POOL_OVERFLOW,
    )
    event.listen(engine, "connect", _prepare)
    event.listen(engine, "begin", _begin)
    event.listen(engine, "handle_error", translate_refusal)
    return engine


def _prepare(connection: Any, _record: object) -> None:
    """Readers never wait for the writer, rows that others need cannot vanish, and we begin transactions ourselves."""
    connection.isolation_level = None
    cursor = connection.cursor()
    _use_write_ahead_log(cursor)
    for setting in ("synchronous=NORMAL", "foreign_keys=ON"):
        cursor.execute(f"PRAGMA {setting}")
    cursor.close()


def _use_write_ahead_log(cursor: Any) -> None:
    """Choose the write-ahead log; where others open a new file at the same instant, SQLite refuses this one without waiting."""
    give_up = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            cursor.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > give_up:
                raise
            time.sleep(0.02)
        else:
            return


def _begin(connection: Connection) -> None:
    """A writer takes its lock at once: one that read first could not wait for another writer."""
    writing = connection.get_execution_options().get("writing", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")
