"""`skillyard organisations`: who shares the server."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from skillyard.cli.failures import OK, UsageProblem
from skillyard.cli.opening import configured_database, open_database

if TYPE_CHECKING:
    from skillyard.cli.screen import Screen

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What `organisations` takes."""
    parser.add_argument("action", nargs="?", choices=("list", "create"), default="list", help="list is the default")
    parser.add_argument("name", nargs="?", metavar="NAME", help="for create: lower-case letters, digits and dashes")


def run(arguments: argparse.Namespace) -> int:
    """List or make."""
    if (arguments.action == "create") != (arguments.name is not None):
        hint = "`skillyard organisations list` or `skillyard organisations create NAME`"
        raise UsageProblem("which organisation?", hint=hint)
    from skillyard.access import Organisations

    screen: Screen = arguments.screen
    database = open_database(arguments)
    rooms = Organisations(lambda: database)
    if arguments.action == "create":
        made = rooms.create(arguments.name)
        if screen.as_json:
            screen.data(made.to_dict())
        else:
            screen.line(f"made {made.name}", style="ok")
            screen.note(f"`skillyard keys create NAME --scope skills:read --organisation {made.name}` lets somebody in")
        return OK
    data, _ = configured_database(arguments)
    found = [organisation.to_dict() | {"home": organisation.home(data)} for organisation in rooms.all()]
    if screen.as_json:
        screen.data({"organisations": found})
    else:
        screen.table([(str(each["name"]), str(each["home"])) for each in found], header=("ORGANISATION", "HOME"))
    return OK
