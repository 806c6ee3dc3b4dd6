"""`skillyard uninstall`: a skill that no longer serves; its versions stay until they are pruned."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from skillyard.cli.failures import FAILURE, OK, UsageProblem
from skillyard.cli.installing import draw_results, open_lock, open_registry
from skillyard.cli.questions import confirm

if TYPE_CHECKING:
    from skillyard.cli.screen import Screen

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What `uninstall` takes."""
    parser.add_argument("name", metavar="NAME", help="the installed skill's name or id")
    parser.add_argument("--prune", action="store_true", help="delete its files too, so that `rollback` cannot bring it back")
    parser.add_argument("--force", action="store_true", help="with --prune: also files that were changed by hand")
    parser.add_argument("--save", action="store_true", help="take it out of the project's skillyard.lock")
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask before files are deleted")


def run(arguments: argparse.Namespace) -> int:
    """Uninstall it; files are only deleted when that is asked for and agreed to."""
    screen: Screen = arguments.screen
    registry = open_registry(arguments)
    skill = registry.skill(arguments.name)
    if arguments.prune and not arguments.yes:
        if screen.as_json or not screen.interactive:
            raise UsageProblem(
                "nobody can be asked whether to delete", hint=f"skillyard uninstall {skill.skill_id} --prune --yes"
            )
        if not confirm(f"Delete every version of {skill.skill_id}?"):
            screen.note("nothing was deleted")
            return FAILURE
    result = registry.uninstall(skill.skill_id, prune=arguments.prune, force=arguments.force)
    if arguments.save:
        lock = open_lock(arguments)
        if lock.exists():
            lock.write({}, dropped=(result.skill_id,))
    draw_results(screen, [result])
    if not arguments.prune:
        screen.note(f"its files are kept; `skillyard rollback {result.skill_id}` brings it back")
    return OK
