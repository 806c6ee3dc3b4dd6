"""Every database the records may be in: SQLite, and a PostgreSQL server of this machine's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from skillyard.database import Database


@pytest.fixture
def database(database_address: str, tmp_path: Path) -> Iterator[Database]:
    """An empty database with its tables made."""
    opened = Database.open(str(tmp_path), database_address)
    yield opened
    opened.close()
