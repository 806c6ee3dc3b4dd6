"""`skillyard sync`: make what is installed what the project's lock says, or find out whether it is."""

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
    unknown_lock,
)

if TYPE_CHECKING:
    from skillyard.cli.screen import Screen

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What `sync` takes."""
    parser.add_argument("--check", action="store_true", help="change nothing; end with 1 when something is not as locked")
    parser.add_argument("-y", "--yes", action="store_true", help="agree when a skill would be allowed more than before")
    parser.add_argument("--force", action="store_true", help="install over local edits and yanked content")
    add_accept_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Install what differs, or say what does."""
    screen: Screen = arguments.screen
    lock, registry = open_lock(arguments), open_registry(arguments)
    if not lock.exists():
        raise unknown_lock(lock)
    if arguments.check:
        states = lock.states(registry)
        good = all(state.state == "ok" for state in states)
        if screen.as_json:
            screen.data({"ok": good, "skills": [state.to_dict() for state in states]})
        else:
            screen.table((state.state, state.entry.skill_id, state.entry.digest) for state in states)
            if not good:
                screen.note("`skillyard sync` installs what is locked")
        return OK if good else FAILURE
    with InstallProgress(screen) as progress:
        results = lock.sync(
            registry,
            consent=consent_of(screen, yes=arguments.yes),
            force=arguments.force,
            progress=progress,
            **accepted(arguments),
        )
    draw_results(screen, results)
    if not results and not screen.as_json:
        screen.line("everything is installed as locked", style="ok")
    return OK
