"""`skillyard list`: every skill, also those no model is offered, and why."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from skillyard.cli.failures import OK
from skillyard.cli.opening import open_catalog

if TYPE_CHECKING:
    from skillyard.catalog import Skill, Status
    from skillyard.cli.screen import Screen
    from skillyard.library import Catalog

__all__ = ["add_arguments", "run"]

_STATUSES: Final[tuple[Status, ...]] = ("ok", "disabled", "denied", "shadowed", "broken")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What `list` takes."""
    parser.add_argument(
        "--status",
        action="append",
        choices=_STATUSES,
        metavar="STATUS",
        help=f"only skills of this status ({', '.join(_STATUSES)}); may be given several times",
    )


def run(arguments: argparse.Namespace) -> int:
    """List the skills."""
    catalog = open_catalog(arguments)
    screen: Screen = arguments.screen
    if screen.as_json and not arguments.status and not screen.is_terminal:
        screen.write(catalog.to_json() + "\n")  # ready-made: a tenth of the time for ten thousand skills
        return OK
    wanted = arguments.status or _STATUSES
    skills = [skill for skill in catalog.all() if skill.status in wanted]
    if screen.as_json:
        screen.data({"skills": [skill.to_dict() for skill in skills], "roots": [root.to_dict() for root in catalog.roots]})
        return OK
    if skills:
        screen.table(
            ((skill.name, skill.source, skill.status, _last_column(skill)) for skill in skills),
            header=("NAME", "SOURCE", "STATUS", "DESCRIPTION"),
            stretch=3,
        )
    screen.note(_summary(catalog, skills) if catalog.all() else _nothing(catalog))
    return OK


def _last_column(skill: Skill) -> str:
    """Why it is not offered, or else what it does."""
    return skill.description if skill.status == "ok" or not skill.reason else skill.reason


def _summary(catalog: Catalog, skills: Sequence[Skill]) -> str:
    counts = Counter(skill.status for skill in skills)
    parts = [f"{counts[status]} {status}" for status in _STATUSES if counts[status]]
    roots = sum(root.status in ("ok", "truncated") for root in catalog.roots)
    return f"{len(skills)} skills in {roots} {'root' if roots == 1 else 'roots'}: {', '.join(parts) or 'none of this status'}"


def _nothing(catalog: Catalog) -> str:
    looked = ", ".join(root.path for root in catalog.roots) or "no folder at all"
    return f"no skills; looked in {looked}. Make one with `skillyard new NAME --description ...`, or name a folder with --root"
