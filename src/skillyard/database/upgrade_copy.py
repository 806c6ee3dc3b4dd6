"""A copy of a database file as it was before its tables were upgraded, made by SQLite; PostgreSQL has its own backups."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

from skillyard.database.sqlite_file import BUSY_S, make_file
from skillyard.errors import DatabaseUnavailable

__all__ = ["copy_before_upgrade", "upgrade_copies"]

_KEPT: Final = 3


def copy_before_upgrade(file: Path, revision: str) -> Path:
    """Copy the records beside the file, as `skillyard.before-r0012.db` for an upgrade to `revision`; the newest three stay.

    The caller is in a transaction that writes and has changed nothing, so that nobody changes anything meanwhile. A copy that
    an upgrade left which failed is replaced: nothing was changed then.

    Raises:
        DatabaseUnavailable: there is no room, or the folder cannot be written; nothing may be upgraded then.
    """
    target = file.with_name(f"{file.stem}.before-{revision}.db")
    beside = file.with_name(f".{target.name}.{os.getpid()}")
    try:
        beside.unlink(missing_ok=True)
        make_file(beside)
        with closing(sqlite3.connect(file, timeout=BUSY_S)) as source, closing(sqlite3.connect(beside)) as copy:
            source.backup(copy)
        beside.replace(target)
    except (sqlite3.Error, OSError) as error:
        beside.unlink(missing_ok=True)
        raise DatabaseUnavailable(
            f"the records were not upgraded, because no copy of them can be kept before: {error}",
            hint=f"make room in {file.parent}, and let this user write there",
        ) from error
    for old in upgrade_copies(file)[:-_KEPT]:
        old.unlink(missing_ok=True)
    return target


def upgrade_copies(file: Path) -> list[Path]:
    """The copies there are beside the file, the oldest first."""
    return sorted(file.parent.glob(f"{file.stem}.before-r*.db"))
