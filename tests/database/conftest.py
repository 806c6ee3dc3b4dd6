"""Here every new database goes through all migrations, but for tests of what is done with tables that are there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from skillyard.database import connection, maintenance

_USE_TABLES = {
    "test_database", "test_database_copying", "test_database_file", "test_database_notifier", "test_database_plans",
}  # fmt: skip


@pytest.fixture(autouse=True)
def _all_migrations(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.path.stem not in _USE_TABLES:
        monkeypatch.setattr(connection, "upgrade", maintenance.upgrade)


@pytest.fixture(params=["sqlite", "postgresql"])
def database_address(request: pytest.FixtureRequest, address_of: Callable[..., str]) -> str:
    """The URL of a database without records, once of each kind; without tables as well where they are made."""
    return address_of(request.param, bare=request.path.stem not in _USE_TABLES)


class Said(NamedTuple):
    """What a command answered."""

    code: int
    out: str
    err: str


Cli = Callable[..., Said]


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    """Give a function that calls `skillyard` in this process, for the database with that URL and a home in `tmp_path`."""
    from skillyard.cli import main

    def call(url: str, *words: str) -> Said:
        given = {"SKILLYARD_DATABASE_URL": url, "SKILLYARD_HOME": f"{tmp_path}/data", "HOME": str(tmp_path), "COLUMNS": "300"}
        with monkeypatch.context() as patch:
            for name, value in given.items():
                patch.setenv(name, value)
            patch.chdir(tmp_path)
            capsys.readouterr()
            code = main(list(words))
            return Said(code, *capsys.readouterr())

    return call
