"""The rooms of access over an empty database, once of each kind."""

from __future__ import annotations

import pytest

from skillyard.access import AuditLog, Keys, Organisations, SignInSessions
from skillyard.database import Database


@pytest.fixture
def keys(database: Database) -> Keys:
    """No key yet."""
    return Keys(lambda: database)


@pytest.fixture
def sessions(database: Database) -> SignInSessions:
    """No session yet."""
    return SignInSessions(lambda: database)


@pytest.fixture
def organisations(database: Database) -> Organisations:
    """Only the default one."""
    return Organisations(lambda: database)


@pytest.fixture
def trail(database: Database) -> AuditLog:
    """Empty."""
    return AuditLog(lambda: database)
