"""`skillyard search`: the skills that fit a request, best first."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from skillyard.cli.failures import FAILURE, OK
from skillyard.cli.opening import open_catalog

if TYPE_CHECKING:
    from skillyard.cli.screen import Screen

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What `search` takes."""
    parser.add_argument("query", help="a request in plain words, as a user would write it")
    parser.add_argument("--limit", type=int, default=10, metavar="N", help="at most this many matches (default: %(default)s)")


def run(arguments: argparse.Namespace) -> int:
    """Search the usable skills."""
    catalog = open_catalog(arguments)
    matches = catalog.search(arguments.query, limit=arguments.limit)
    screen: Screen = arguments.screen
    if screen.as_json:
        screen.data({"matches": [match.to_dict() for match in matches]})
        return OK
    if not matches:
        screen.note(f"none of {len(catalog)} skills fits; try other words")
        return FAILURE
    screen.table(
        ((f"{match.confidence:.2f}", match.skill.name, ", ".join(match.matched), match.skill.description) for match in matches),
        header=("FIT", "NAME", "BECAUSE OF", "DESCRIPTION"),
        stretch=3,
    )
    return OK
