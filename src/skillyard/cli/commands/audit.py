"""`skillyard audit`: who changed what, and who was refused; `prune` deletes what is old."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from skillyard.cli.arguments import positive
from skillyard.cli.durations import moment
from skillyard.cli.failures import OK, UsageProblem
from skillyard.cli.opening import open_database
from skillyard.cli.screen import counted

if TYPE_CHECKING:
    from skillyard.access import Event, Trail
    from skillyard.cli.screen import Screen

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What `audit` takes."""
    parser.add_argument("do", nargs="?", choices=("list", "prune"), default="list", metavar="list|prune",
                        help="list (the default), or prune: delete records for good")  # fmt: skip
    parser.add_argument("--older-than", type=moment, metavar="TIME", help="with prune: from before 2026-01-31, or 90d ago")
    parser.add_argument("--keep", type=positive, metavar="N", help="with prune: all but the newest N")
    parser.add_argument("--actor", metavar="NAME", help="only what this key or user did")
    parser.add_argument("--action", metavar="ACTION", help="only this: install, rollback, uninstall, keys.create, …")
    parser.add_argument("--subject", metavar="SUBJECT", help="only what this skill, key or run is about")
    parser.add_argument("--outcome", choices=("success", "failed", "refused"), help="only what ended so")
    parser.add_argument("--since", type=moment, metavar="TIME", help="not before: 2026-01-31, or 7d for a week ago")
    parser.add_argument("--limit", type=positive, default=50, metavar="N", help="at most so many (default: %(default)s)")
    parser.add_argument("--organisation", metavar="NAME", help="the trail of this one (default: the server's own)")


def run(arguments: argparse.Namespace) -> int:
    """Show the trail, the newest first, or prune it."""
    from skillyard.access import Trail

    _understood(arguments)
    database = open_database(arguments, arguments.organisation)
    trail = Trail(lambda: database)
    if arguments.do == "prune":
        return _prune(arguments, trail)
    events = trail.events(
        actor=arguments.actor,
        action=arguments.action,
        subject=arguments.subject,
        outcome=arguments.outcome,
        since=arguments.since,
        limit=arguments.limit,
    )
    _show(arguments.screen, events)
    return OK


def _understood(arguments: argparse.Namespace) -> None:
    """Refuse what could be meant otherwise: nothing is deleted by accident."""
    bounds = arguments.older_than is not None or arguments.keep is not None
    if arguments.do == "list" and bounds:
        raise UsageProblem("--older-than and --keep are for prune", hint="skillyard audit prune --older-than 90d")
    if arguments.do == "prune" and not bounds:
        raise UsageProblem("how much is to be deleted?", hint="skillyard audit prune --older-than 90d, or --keep 100000")
    narrowed = any((arguments.actor, arguments.action, arguments.subject, arguments.outcome, arguments.since))
    if arguments.do == "prune" and narrowed:
        raise UsageProblem("the trail is pruned by age and number only", hint="leave out what narrows the list")


def _prune(arguments: argparse.Namespace, trail: Trail) -> int:
    pruned = trail.prune(older_than=arguments.older_than, keep=arguments.keep)
    if arguments.screen.as_json:
        arguments.screen.data({"pruned": pruned})
    else:
        arguments.screen.line(f"{counted(pruned, 'record')} deleted")
    return OK


def _show(screen: Screen, events: tuple[Event, ...]) -> None:
    if screen.as_json:
        screen.data({"events": [event.to_dict() for event in events]})
    elif events:
        rows = [
            (str(event.to_dict()["at"]), event.actor, event.action, event.subject, event.outcome, event.address or "")
            for event in events
        ]
        screen.table(rows, header=("AT", "ACTOR", "ACTION", "SUBJECT", "OUTCOME", "FROM"), stretch=3)
    else:
        screen.note("nothing was recorded that fits")
