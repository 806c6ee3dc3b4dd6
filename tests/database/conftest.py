"""Here every new database goes through all migrations."""

from __future__ import annotations

import pytest

from skillyard.database import connection, schema_upgrade


@pytest.fixture(autouse=True)
def _all_migrations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "upgrade", schema_upgrade.upgrade)
