"""`skillyard db`: where the records are, and bringing their tables up to date."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from skillyard.cli.failures import FAILURE, OK
from skillyard.cli.opening import configured_database
from skillyard.cli.screen import counted

if TYPE_CHECKING:
    from skillyard.cli.screen import Screen
    from skillyard.database import Database, DatabaseStatus

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What `db` takes."""
    parser.add_argument(
        "action",
        choices=("status", "upgrade", "backfill"),
        help="status tells where the records are, and ends with 1 when their tables are not up to date; upgrade mends that; "
        "backfill writes down installed skills that are on the disk, with their text and files",
    )


def run(arguments: argparse.Namespace) -> int:
    """Tell, or upgrade and tell."""
    from skillyard.database import Database  # half a second

    data, configured = configured_database(arguments)
    database = Database.open(data, configured, migrate=False)
    if arguments.action == "backfill":
        return _backfill(arguments)
    if arguments.action == "upgrade":
        database.upgrade()
    return _tell(arguments.screen, database)


def _backfill(arguments: argparse.Namespace) -> int:
    from skillyard.cli.installing import open_registry

    screen: Screen = arguments.screen
    filled = open_registry(arguments).backfill()
    if screen.as_json:
        screen.data(filled.to_dict())
    else:
        screen.line(f"{counted(len(filled.versions), 'version')} on the disk, {len(filled.added):,} of them new to the records")
        for problem in filled.problems:
            screen.line(problem, style="warning")
    return FAILURE if filled.problems else OK


def _tell(screen: Screen, database: Database) -> int:
    status = database.status()
    if screen.as_json:
        screen.data(status.to_dict())
    else:
        screen.table((("database", status.url), ("revision", status.revision or "none"), ("status", _words(status))))
    return OK if status.current else FAILURE


def _words(status: DatabaseStatus) -> str:
    if status.current:
        return "up to date"
    return "no tables yet; the first run makes them" if status.revision is None else f"to be upgraded to {status.newest}"
