"""`skillyard search`: the skills that fit a request, best first."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from skillyard.cli.arguments import positive
from skillyard.cli.failures import OK
from skillyard.cli.opening import open_catalog
from skillyard.cli.screen import counted
from skillyard.text import shorten

if TYPE_CHECKING:
    from skillyard.cli.screen import Screen
    from skillyard.search import Match

_WORDS: Final = 32  # characters

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What `search` takes."""
    parser.add_argument("query", help="a request in plain words, as a user would write it")
    parser.add_argument(
        "--limit", type=positive, default=10, metavar="N", help="at most this many matches (default: %(default)s)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Search the usable skills."""
    catalog = open_catalog(arguments)
    matches = catalog.search(arguments.query, limit=arguments.limit)
    screen: Screen = arguments.screen
    if screen.as_json:
        screen.data({"matches": [match.to_dict() for match in matches]})
        return OK
    if not matches:
        screen.note(f"none of {counted(len(catalog), 'skill')} fits; try other words")
        return OK
    screen.table(
        ((f"{match.confidence:.2f}", match.skill.name, _words(match), match.skill.description) for match in matches),
        header=("FIT", "NAME", "BECAUSE OF", "DESCRIPTION"),
        stretch=3,
    )
    return OK


def _words(match: Match) -> str:
    """The words of the skill that fit, each once, whatever field they are in."""
    return shorten(", ".join(dict.fromkeys(found.partition(":")[2] for found in match.matched)), _WORDS)
