"""`skillyard install`: bring skills to this machine, or everything the project's lock names."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from skillyard.cli.failures import OK, UsageProblem
from skillyard.cli.installing import (
    InstallProgress,
    accepted,
    add_accept_options,
    consent_of,
    draw_results,
    open_lock,
    open_registry,
    unknown_lock,
)

if TYPE_CHECKING:
    from skillyard.cli.screen import Screen

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What `install` takes."""
    parser.add_argument(
        "source",
        nargs="?",
        metavar="SOURCE",
        help="a folder, an archive, owner/repo[/path][@ref], a git or https address; without one, what skillyard.lock names",
    )
    parser.add_argument(
        "--skill", action="append", default=[], metavar="NAME", help="only this skill of the source; may be given several times"
    )
    parser.add_argument(
        "-y", "--yes", action="store_true", help="agree when an installed skill would be allowed more than before"
    )
    parser.add_argument(
        "--force", action="store_true", help="install over local edits, yanked content, and the same content again"
    )
    add_accept_options(parser)
    parser.add_argument("--save", action="store_true", help="write source and digest to the project's skillyard.lock")


def run(arguments: argparse.Namespace) -> int:
    """Install and tell what came of it."""
    screen: Screen = arguments.screen
    consent = consent_of(screen, yes=arguments.yes)
    registry = open_registry(arguments)
    if arguments.source is None:
        lock = open_lock(arguments)
        if not lock.exists() or arguments.skill or arguments.save:
            raise unknown_lock(lock) if not lock.exists() else UsageProblem("install what?", hint="skillyard install SOURCE")
        with InstallProgress(screen) as progress:
            results = lock.sync(registry, consent=consent, force=arguments.force, progress=progress, **accepted(arguments))
        draw_results(screen, results)
        if not results and not screen.as_json:
            screen.line("everything is installed as locked", style="ok")
        return OK
    saved = open_lock(arguments) if arguments.save else None
    with InstallProgress(screen) as progress:
        report = registry.install(
            arguments.source,
            skills=arguments.skill,
            consent=consent,
            force=arguments.force,
            signers=saved.signers() if saved is not None else None,
            progress=progress,
            **accepted(arguments),
        )
    if saved is not None:
        saved.record(report.results, accept_signer=True)  # whoever answered has accepted what the lock did not name
    draw_results(screen, report.results)
    return OK
