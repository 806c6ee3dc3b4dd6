"""`skillyard list`: every skill, also those no model is offered, and why."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from skillyard.cli.failures import FAILURE, OK, require_existing
from skillyard.cli.openers import open_catalog, unsearched_skills
from skillyard.cli.screen import counted

if TYPE_CHECKING:
    from skillyard.catalog import Skill, Status
    from skillyard.cli.screen import Screen
    from skillyard.library import Catalog


_STATUSES: Final[tuple[Status, ...]] = ("ok", "disabled", "denied", "shadowed", "broken")


def add_list_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `list`."""
    parser.add_argument("paths", nargs="*", metavar="PATH", help="exactly these folders of skills (default: the roots)")
    parser.add_argument(
        "--status",
        action="append",
        choices=_STATUSES,
        metavar="STATUS",
        help=f"only skills of this status ({', '.join(_STATUSES)}); may be given several times",
    )
    parser.add_argument("--wide", action="store_true", help="whole descriptions, also where they are long")


def list_command(arguments: argparse.Namespace) -> int:
    """List the skills."""
    if arguments.paths:
        hint = "give a folder of skills"
        arguments.root = [*(arguments.root or ()), *(require_existing(path, hint=hint) for path in arguments.paths)]
    catalog = open_catalog(arguments)
    screen: Screen = arguments.screen
    if screen.as_json and not arguments.status and not screen.is_terminal:
        screen.write(catalog.to_json() + "\n")  # ready-made: a tenth of the time for ten thousand skills
        return _code(arguments, catalog)
    statuses = arguments.status or _STATUSES
    skills = [skill for skill in catalog.all() if skill.status in statuses]
    if screen.as_json:
        screen.data({"skills": [skill.to_dict() for skill in skills], "roots": [root.to_dict() for root in catalog.roots]})
        return _code(arguments, catalog)
    if skills:
        uses = Counter(skill.name for skill in catalog.all())
        screen.table(
            ((_name(skill, uses), skill.source, skill.status, _last_column(skill, arguments)) for skill in skills),
            header=("NAME", "SOURCE", "STATUS", "DESCRIPTION"),
            stretch=None if arguments.wide else 3,
        )
    if catalog.all():
        screen.note(_summary(catalog, skills))
    else:
        screen.note(f"no skills in {', '.join(root.path for root in catalog.roots) or 'any folder'}")
    if (aside := None if arguments.root else unsearched_skills(catalog, arguments.project)) is not None:
        screen.hint(f"{aside} holds skills and is no root: `skillyard list {aside}`; [skills] paths in skillyard.toml adds it")
    elif not catalog.all():
        screen.hint("make one with `skillyard new NAME --description TEXT`, or name a folder: `skillyard list FOLDER`")
    return _code(arguments, catalog)


def _code(arguments: argparse.Namespace, catalog: Catalog) -> int:
    """1 when a folder that was named could not be searched: a slip of the pen must not look like an empty success."""
    return FAILURE if arguments.root and any(not root.scanned for root in catalog.roots) else OK


def _name(skill: Skill, uses: Counter[str]) -> str:
    """What other commands find it by: the name, or the id where several have the name."""
    return skill.name if uses[skill.name] == 1 or skill.status == "ok" else skill.id


def _last_column(skill: Skill, arguments: argparse.Namespace) -> str:
    """What it does, or else why it is not offered."""
    screen: Screen = arguments.screen
    if skill.status == "ok" or not skill.reason:
        return screen.description(skill.description, wide=arguments.wide)
    return f"{skill.reason} ({skill.directory})" if skill.status == "broken" else skill.reason


def _summary(catalog: Catalog, skills: Sequence[Skill]) -> str:
    counts = Counter(skill.status for skill in skills)
    parts = [f"{counts[status]} {status}" for status in _STATUSES if counts[status]]
    roots = sum(root.scanned for root in catalog.roots)
    return f"{counted(len(skills), 'skill')} in {counted(roots, 'root')}: {', '.join(parts) or 'none of this status'}"
