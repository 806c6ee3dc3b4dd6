"""Found on `PYTHONPATH` by every Python of a test: notes each open of a database file, which SQLite's own are not seen as.

The file named by `SKILLYARD_OPENS_LOG` gets the name, the command and the place in the code. Making a new file exclusively is
allowed, because nobody can have locks on it.
"""

from __future__ import annotations

import os
import sys
import traceback

_NAMES = {f"skillyard.db{ending}" for ending in ("", "-wal", "-shm", "-journal")}


def _install(log: str) -> None:
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def note(event: str, arguments: tuple[object, ...]) -> None:
        if event != "open" or not isinstance(arguments[0], (str, bytes)):
            return
        flags = arguments[2] if isinstance(arguments[2], int) else 0
        if os.fsdecode(arguments[0]).rpartition("/")[2] in _NAMES and not flags & os.O_EXCL:
            place = " < ".join(f"{frame.filename}:{frame.lineno}" for frame in reversed(traceback.extract_stack()[-7:-1]))
            os.write(descriptor, f"{os.fsdecode(arguments[0])} by {sys.argv[:4]} at {place}\n".encode())

    sys.addaudithook(note)


if os.environ.get("SKILLYARD_OPENS_LOG"):
    _install(os.environ["SKILLYARD_OPENS_LOG"])
