"""`skillyard deprecate` and `skillyard yank`: say of a version that it should not, or must not, be used any more."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from skillyard.cli.failures import OK
from skillyard.cli.installing import open_registry

if TYPE_CHECKING:
    from skillyard.cli.screen import Screen

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What both commands take."""
    parser.add_argument("name", metavar="NAME", help="the skill's name or id")
    parser.add_argument("version", nargs="?", metavar="VERSION", help="which (default: the current one)")
    parser.add_argument("--reason", default="", metavar="TEXT", help="why; shown to whoever wants to use it")
    parser.add_argument("--undo", action="store_true", help="take it back")


def run(arguments: argparse.Namespace) -> int:
    """Mark the version and say so."""
    screen: Screen = arguments.screen
    registry = open_registry(arguments)
    mark = registry.yank if arguments.command == "yank" else registry.deprecate
    version = mark(arguments.name, arguments.version, reason=arguments.reason, undo=arguments.undo)
    if screen.as_json:
        screen.data({"version": version.to_dict()})
        return OK
    word = "yanked" if arguments.command == "yank" else "deprecated"
    screen.line(f"{version.skill_id} {version.version} is {'no longer ' if arguments.undo else ''}{word}", style="ok")
    if version.current and not arguments.undo:
        screen.note(f"it is the current version and goes on serving; `skillyard rollback {version.skill_id}` goes back")
    return OK
