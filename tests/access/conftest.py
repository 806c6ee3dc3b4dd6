"""The rooms of access over an empty database, once of each kind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from skillyard.access import Keys, Organisations, Sessions, Trail
from skillyard.database import Database


@pytest.fixture
def database(database_address: str, tmp_path: Path) -> Iterator[Database]:
    """An empty database with its tables made."""
    opened = Database.open(str(tmp_path), database_address)
    yield opened
    opened.close()


@pytest.fixture
def keys(database: Database) -> Keys:
    """No key yet."""
    return Keys(lambda: database)


@pytest.fixture
def sessions(database: Database) -> Sessions:
    """No session yet."""
    return Sessions(lambda: database)


@pytest.fixture
def organisations(database: Database) -> Organisations:
    """Only the default one."""
    return Organisations(lambda: database)


@pytest.fixture
def trail(database: Database) -> Trail:
    """Empty."""
    return Trail(lambda: database)
