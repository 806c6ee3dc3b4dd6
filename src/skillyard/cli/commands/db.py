"""`skillyard db`: where the records are, and bringing their tables up to date."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from skillyard.cli.failures import FAILURE, OK, UsageProblem
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
        choices=("status", "upgrade", "backfill", "copy"),
        help="status tells where the records are, and ends with 1 when their tables are not up to date; upgrade mends that; "
        "backfill writes down installed skills that are on the disk, with their text and files, and puts their packages into "
        "the store, when one is configured; copy brings all records into another database",
    )
    parser.add_argument("--to", metavar="URL", help="with copy: the other database; what it has already is not copied again")
    parser.add_argument("--check", action="store_true", help="with copy: change nothing; end with 1 when something is lacking")


def run(arguments: argparse.Namespace) -> int:
    """Tell, or upgrade and tell."""
    from skillyard.database import Database  # half a second

    data, configured = configured_database(arguments)
    if arguments.action == "copy":
        return _copy(arguments, data, Database.open(data, configured))
    database = Database.open(data, configured, migrate=False)
    if arguments.action == "backfill":
        return _backfill(arguments)
    if arguments.action == "upgrade":
        database.upgrade()
    return _tell(arguments.screen, database)


def _copy(arguments: argparse.Namespace, data: str, source: Database) -> int:
    from skillyard.database import Database, compare_records, copy_records

    screen: Screen = arguments.screen
    if not arguments.to:
        raise UsageProblem("where to is not said", hint="skillyard db copy --to postgresql://user@host/skillyard")
    target = Database.open(data, arguments.to)
    if target.name == source.name:
        raise UsageProblem(f"{source.name} is the database that is copied", hint="name another one with --to")
    tables = (compare_records if arguments.check else copy_records)(source, target)
    lacking = sum(table.new for table in tables)
    if screen.as_json:
        screen.data({"from": source.name, "to": target.name, "tables": [table.to_dict() for table in tables]})
    else:
        rows = ((table.table, f"{table.rows:,}", f"{table.new:,}") for table in tables)
        screen.table(rows, header=("TABLE", "ROWS", "LACKING" if arguments.check else "COPIED"))
    return FAILURE if arguments.check and lacking else OK


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
