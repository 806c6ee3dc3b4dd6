"""`skillyard check --collisions`: skills that a model would mix up, on which words, and how to tell them apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillyard.cli.failures import FAILURE, OK, UsageProblem
from skillyard.cli.opening import open_catalog
from skillyard.cli.screen import counted

if TYPE_CHECKING:
    import argparse

    from skillyard.cli.screen import Screen

__all__ = ["check_collisions"]


def check_collisions(arguments: argparse.Namespace) -> int:
    """Compare the offered skills with each other; 1 when two of them collide.

    Raises:
        UsageProblem: paths or options are given that a comparison of all skills has no use for.
    """
    from skillyard.search import find_collisions

    if arguments.paths or arguments.fix or arguments.profile:
        raise UsageProblem(
            "--collisions compares all skills of a catalog: it takes no PATH, no --fix and no --profile",
            hint="skillyard check --collisions --root FOLDER",
        )
    catalog = open_catalog(arguments)
    collisions = find_collisions(catalog.all())
    screen: Screen = arguments.screen
    if screen.as_json:
        screen.data({"collisions": [collision.to_dict() for collision in collisions]})
        return FAILURE if collisions else OK
    for collision in collisions:
        screen.line(f"{collision.alike:.0%}  {collision.first.id}  {collision.second.id}", style="warning")
        screen.line(f"both say: {', '.join(collision.shared)}", indent=5)
        screen.line(f"fix: {collision.advice}", indent=5)
    screen.note(f"{counted(len(collisions), 'collision')} among {counted(len(catalog), 'skill')}")
    return FAILURE if collisions else OK
