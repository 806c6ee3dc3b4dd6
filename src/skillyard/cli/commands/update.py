"""`skillyard update`: installed skills, fetched again from where they came from."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from skillyard.cli.failures import FAILURE, OK
from skillyard.cli.installing import (
    InstallProgress,
    accepted,
    add_accept_options,
    consent_of,
    draw_results,
    open_lock,
    open_registry,
)
from skillyard.errors import SkillyardError

if TYPE_CHECKING:
    from skillyard.cli.screen import Screen
    from skillyard.registry import Result

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What `update` takes."""
    parser.add_argument("name", nargs="?", metavar="NAME", help="the skill to update (default: every installed skill)")
    parser.add_argument("-y", "--yes", action="store_true", help="agree when a skill would be allowed more than before")
    parser.add_argument("--force", action="store_true", help="update over local edits and yanked content")
    add_accept_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Update; 1 when one of the skills could not be, after the others were. Locked skills are locked anew."""
    screen: Screen = arguments.screen
    registry = open_registry(arguments)
    skills = [registry.skill(arguments.name)] if arguments.name else registry.skills()
    lock = open_lock(arguments)
    signers = lock.signers()
    results: list[Result] = []
    failed: list[tuple[str, SkillyardError]] = []
    with InstallProgress(screen) as progress:
        for skill in skills:
            try:
                report = registry.update(
                    skill.skill_id,
                    consent=consent_of(screen, yes=arguments.yes),
                    force=arguments.force,
                    signers=signers,
                    progress=progress,
                    **accepted(arguments),
                )
                results += report.results
            except SkillyardError as error:
                if arguments.name:
                    raise
                failed.append((skill.skill_id, error))
    if lock.exists():
        locked = {entry.skill_id for entry in lock.entries()}
        again = tuple(result for result in results if result.skill_id in locked)
        lock.record(again, accept_signer=True)  # who was asked has accepted what the lock did not name
    if screen.as_json:
        problems = [{"skill_id": name, **error.to_dict()} for name, error in failed]
        screen.data({"results": [result.to_dict() for result in results], "failed": problems})
    else:
        draw_results(screen, results)
        for name, problem in failed:
            screen.line(f"failed {name}: {problem.message}", style="error")
            if problem.hint:
                screen.hint(problem.hint)
        if not skills:
            screen.note("nothing is installed")
    return FAILURE if failed else OK
