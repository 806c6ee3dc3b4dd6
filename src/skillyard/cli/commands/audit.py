"""`skillyard audit`: who changed what, and who was refused."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from skillyard.cli.arguments import positive
from skillyard.cli.durations import moment
from skillyard.cli.failures import OK
from skillyard.cli.opening import open_database

if TYPE_CHECKING:
    from skillyard.access import Event
    from skillyard.cli.screen import Screen

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What `audit` takes."""
    parser.add_argument("--actor", metavar="NAME", help="only what this key or user did")
    parser.add_argument("--action", metavar="ACTION", help="only this: install, rollback, uninstall, keys.create, …")
    parser.add_argument("--subject", metavar="SUBJECT", help="only what this skill, key or run is about")
    parser.add_argument("--outcome", choices=("success", "failed", "refused"), help="only what ended so")
    parser.add_argument("--since", type=moment, metavar="TIME", help="not before: 2026-01-31, or 7d for a week ago")
    parser.add_argument("--limit", type=positive, default=50, metavar="N", help="at most so many (default: %(default)s)")
    parser.add_argument("--organisation", metavar="NAME", help="the trail of this one (default: the server's own)")


def run(arguments: argparse.Namespace) -> int:
    """Show the trail, the newest first."""
    from skillyard.access import Trail

    database = open_database(arguments, arguments.organisation)
    events = Trail(lambda: database).events(
        actor=arguments.actor,
        action=arguments.action,
        subject=arguments.subject,
        outcome=arguments.outcome,
        since=arguments.since,
        limit=arguments.limit,
    )
    _show(arguments.screen, events)
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
