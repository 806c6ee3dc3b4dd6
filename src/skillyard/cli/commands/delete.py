"""`skillyard delete`: delete a skill of the user's own from the disk."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from skillyard.cli.failures import FAILURE, OK, UsageProblem
from skillyard.cli.opening import open_catalog
from skillyard.cli.questions import confirm
from skillyard.cli.recording import leave_trail

if TYPE_CHECKING:
    from skillyard.cli.screen import Screen

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What `delete` takes."""
    parser.add_argument("name", help="the skill's name or id; only user skills can be deleted")
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask")


def run(arguments: argparse.Namespace) -> int:
    """Delete the folder after asking."""
    screen: Screen = arguments.screen
    catalog = open_catalog(arguments)
    skill = catalog.get(arguments.name)
    if not arguments.yes:
        if screen.as_json or not screen.interactive:
            raise UsageProblem(
                "nobody can be asked whether to delete", hint=f"without being asked: skillyard delete {skill.id} --yes"
            )
        if not confirm(f"Delete {skill.directory} and everything in it?"):
            screen.note("nothing was deleted")
            return FAILURE
    catalog.delete(skill.id)
    leave_trail(screen, lambda: catalog.records().database, "catalog.delete", skill.id)
    if screen.as_json:
        screen.data({"deleted": {"id": skill.id, "directory": skill.directory}})
    else:
        screen.line(f"deleted {skill.directory}")
    return OK
