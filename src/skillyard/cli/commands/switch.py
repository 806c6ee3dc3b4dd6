"""`skillyard enable` and `skillyard disable`: whether models are offered a skill."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from skillyard.cli.failures import OK
from skillyard.cli.opening import open_catalog
from skillyard.cli.recording import leave_trail

if TYPE_CHECKING:
    from skillyard.cli.screen import Screen

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What `enable` and `disable` take."""
    parser.add_argument("name", help="the skill's name or id")


def run(arguments: argparse.Namespace) -> int:
    """Change the setting; saying it twice is no error."""
    catalog = open_catalog(arguments)
    skill = catalog.get(arguments.name)
    if arguments.command == "enable":
        catalog.enable(skill.id)
    else:
        catalog.disable(skill.id)
    changed = catalog.get(skill.id)
    screen: Screen = arguments.screen
    leave_trail(screen, lambda: catalog.records().database, f"catalog.{arguments.command}", skill.id)
    if screen.as_json:
        screen.data({"skill": changed.to_dict()})
    else:
        reason = f": {changed.reason}" if changed.reason else ""
        screen.line(f"{changed.id} is now {changed.status}{reason}")
    return OK
