"""`skillyard rollback`: let an earlier version of a skill serve again."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from skillyard.cli.failures import OK
from skillyard.cli.installing import accepted, add_accept_options, draw_results, open_registry

if TYPE_CHECKING:
    from skillyard.cli.screen import Screen

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What `rollback` takes."""
    parser.add_argument("name", metavar="NAME", help="the skill's name or id; one that was uninstalled comes back")
    parser.add_argument(
        "version", nargs="?", metavar="VERSION", help="which (default: the newest usable one before the current)"
    )
    parser.add_argument("--force", action="store_true", help="also to a deprecated version, or one that was changed by hand")
    add_accept_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Move the link and tell where it leads."""
    screen: Screen = arguments.screen
    result = open_registry(arguments).rollback(arguments.name, arguments.version, force=arguments.force, **accepted(arguments))
    draw_results(screen, [result])
    return OK
