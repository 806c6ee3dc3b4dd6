"""`skillyard db check` and `skillyard db repair`: whether the records hold together, and bringing back what can be read."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from skillyard.cli.failures import FAILURE, OK
from skillyard.cli.opening import configured_database
from skillyard.cli.screen import counted
from skillyard.errors import InvalidInput, RecordNotFound

if TYPE_CHECKING:
    import argparse

    from skillyard.cli.screen import Screen
    from skillyard.database import Database, DatabaseCheck, RepairReport

__all__ = ["run_on_damage"]


def run_on_damage(arguments: argparse.Namespace) -> int:
    """Check a database, and with the action `repair` put a new file in the place of a damaged one.

    Raises:
        RecordNotFound: there is no database there.
        InvalidInput: PostgreSQL is to be repaired.
        DatabaseUnavailable: it cannot be asked, or somebody else uses the file that is to be repaired.
    """
    screen: Screen = arguments.screen
    database = _opened(arguments)
    with closing(database):
        check = database.check()
    if arguments.action == "check" or check.whole:
        return _show_check(screen, check)
    if database.file is None:
        raise InvalidInput(
            f"{check.url} is not a file that can be repaired from here: {check.problems[0]}",
            hint="look into the log of PostgreSQL, and restore a backup: `skillyard restore`, or a point-in-time recovery",
        )
    from skillyard.database import repair_file

    return _show_repair(screen, repair_file(database.file))


def _opened(arguments: argparse.Namespace) -> Database:
    """The database that is meant; none is made for the question."""
    from skillyard.access import DEFAULT, Organisation
    from skillyard.database import Database, separate_url
    from skillyard.document import is_name  # lower-case letters, digits and single dashes

    data, configured = configured_database(arguments)
    name = arguments.organisation or DEFAULT
    if name != DEFAULT:
        if not is_name(name):
            raise RecordNotFound(f"there is no organisation {name[:60]!r}", hint="`skillyard organisations` lists them")
        organisation = Organisation(name)
        data = organisation.home(data)
        configured = separate_url(data, organisation.schema or "", configured)
    database = Database.at(data, configured)
    if database.file is not None and not Path(database.file).exists():
        raise RecordNotFound(f"there is no database at {database.file}", hint="the first run makes one")
    return database


def _show_check(screen: Screen, check: DatabaseCheck) -> int:
    if screen.as_json:
        screen.data(check.to_dict())
    elif check.whole:
        screen.line(f"{check.url}: nothing is wrong")
    else:
        screen.line(f"{check.url}: {counted(len(check.problems), 'problem')}", style="error")
        for problem in check.problems:
            screen.line(f"  {problem}")
        screen.hint("stop what uses it, then `skillyard db repair` brings back what can be read")
    return OK if check.whole else FAILURE


def _show_repair(screen: Screen, report: RepairReport) -> int:
    if screen.as_json:
        screen.data(report.to_dict())
        return OK
    rows = [
        (table.table, f"{table.rows:,}", "unknown" if table.lost is None else f"{table.lost:,}")
        for table in report.tables
        if table.rows or table.lost != 0
    ]
    screen.table(rows, header=("TABLE", "RECOVERED", "LOST"))
    if report.unplaced:
        screen.line(f"{counted(report.unplaced, 'row')} could belong to several tables, and stayed in the old file")
    screen.line(f"{report.file} is new and whole; the old one is {report.kept}")
    return OK
