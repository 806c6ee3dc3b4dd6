"""Here every new database goes through all migrations, but for tests of what is done with tables that are there."""

from __future__ import annotations

import pytest

from skillyard.database import connection, schema_upgrade

_USE_TABLES = {"test_database_copying", "test_database_file", "test_database_notifier", "test_database_plans"}


@pytest.fixture(autouse=True)
def _all_migrations(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.path.stem not in _USE_TABLES:
        monkeypatch.setattr(connection, "upgrade", schema_upgrade.upgrade)
