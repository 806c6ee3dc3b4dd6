"""`skillyard show`: everything about one skill."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from skillyard.cli.failures import OK
from skillyard.cli.opening import open_catalog
from skillyard.cli.portrait import draw_portrait
from skillyard.portrait import take_portrait

if TYPE_CHECKING:
    from skillyard.cli.screen import Screen

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What `show` takes."""
    parser.add_argument("name", help="the skill's name or id")


def run(arguments: argparse.Namespace) -> int:
    """Show the skill, whatever its status."""
    catalog = open_catalog(arguments)
    portrait = take_portrait(catalog, catalog.get(arguments.name))
    screen: Screen = arguments.screen
    if screen.as_json:
        screen.data(portrait.to_dict())
    else:
        draw_portrait(screen, portrait)
    return OK
