"""What belongs to one home, and what of it is kept."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from skillyard.database import Database
from skillyard.registry.versions import Versions
from skillyard.reserved_files import is_reserved

__all__ = ["RECORDS", "SKILLS", "STAGING", "Place"]

RECORDS: Final = "records.db"
SKILLS: Final = "skills"
STAGING: Final = ".restore"
_LEFT_OUT: Final = frozenset({"cache", SKILLS, "organisations"})
_DATABASE: Final = (".db", ".db-wal", ".db-shm", ".db-journal", ".lock")


@dataclass(frozen=True, slots=True)
class Place:
    """One home: its name in a backup, its folder, and where its records are (None: in the folder)."""

    name: str
    home: Path
    database_url: str | None = None

    @property
    def versions(self) -> Versions:
        """Its installed skills."""
        return Versions(self.home / SKILLS)

    def database(self) -> Database:
        """Its records, opened; whoever opens them closes them.

        Raises:
            DatabaseUnavailable: they cannot be used.
        """
        return Database.open(str(self.home), self.database_url)

    def files(self) -> Iterator[tuple[str, Path]]:
        """Its other files by their path in it: settings and keys, but nothing that is made again by itself."""
        for folder, names, found in os.walk(self.home):
            inside = Path(folder).relative_to(self.home)
            if inside == Path():
                names[:] = [name for name in names if name not in _LEFT_OUT]
            names[:] = sorted(name for name in names if not name.startswith("."))
            for name in sorted(found):
                path = Path(folder, name)
                if name.startswith(".") or name.endswith(_DATABASE) or is_reserved(path):
                    continue
                if path.is_file() and not path.is_symlink():
                    yield (inside / name).as_posix(), path
