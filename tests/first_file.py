"""New database files of SQLite as copies of one that has its tables, in a fifth of the time that the statements take."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

__all__ = ["copies"]


def copies(first: Path, wanted: Callable[[], bool]) -> Callable[..., Any]:
    """What takes the place of `Database.open`, and lays a copy of `first` where it would make a new file, while that is wanted.

    The first file itself is made by it too, by all migrations.
    """
    from skillyard.database import connection, dialects
    from skillyard.times import DEFAULT_TIMING

    opened = connection.Database.open

    def open_database(data: str, configured: str | None = None, *, migrate: bool = True, timing: Any = DEFAULT_TIMING) -> Any:
        url = connection.database_url(data, configured)
        if migrate and wanted() and url.get_backend_name() == "sqlite":
            if not first.exists():
                making = first.with_name(os.urandom(6).hex())
                opened("", f"sqlite:///{making}").close()
                making.replace(first)  # whole
            with suppress(OSError):  # which opening it reports
                _lay(first, dialects.file_of(url))
        return opened(data, configured, migrate=migrate, timing=timing)

    return open_database


def _lay(file: Path, place: Path) -> None:
    """Put a copy of a file where there is nothing yet: all of it, or what somebody else puts there meanwhile."""
    if os.path.lexists(place):
        return
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    copy = place.with_name(f".{place.name}-{os.urandom(6).hex()}")
    with os.fdopen(os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as written:
        written.write(file.read_bytes())
    with suppress(FileExistsError):
        os.link(copy, place)
    copy.unlink()
