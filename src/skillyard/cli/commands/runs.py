"""`skillyard runs`: the runs there were, and one of them in full."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from skillyard.cli.arguments import positive
from skillyard.cli.failures import OK, UsageProblem
from skillyard.cli.opening import open_records

if TYPE_CHECKING:
    from skillyard.cli.screen import Screen
    from skillyard.engine import RunRecord

__all__ = ["add_arguments", "run"]

_STATES: Final = ("queued", "running", "succeeded", "failed", "cancelled", "interrupted")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What `runs` takes."""
    parser.add_argument("action", nargs="?", choices=("list", "show"), default="list", help="list (the default) or show")
    parser.add_argument("run_id", nargs="?", metavar="RUN_ID", help="for show: the run's id, or its last 8 characters or more")
    parser.add_argument("--skill", metavar="NAME", help="only runs of the skill with this name or id")
    parser.add_argument(
        "--status",
        action="append",
        choices=_STATES,
        metavar="STATUS",
        help=f"only runs in this state ({', '.join(_STATES)}); may be given several times",
    )
    parser.add_argument("--schedule", metavar="NAME", help="only runs that this schedule asked for")
    parser.add_argument("--limit", type=positive, default=20, metavar="N", help="at most this many runs (default: %(default)s)")


def run(arguments: argparse.Namespace) -> int:
    """List the newest runs, or show one."""
    screen: Screen = arguments.screen
    if (arguments.action == "show") != (arguments.run_id is not None):
        raise UsageProblem("which run?", hint="`skillyard runs` lists the runs, `skillyard runs show RUN_ID` shows one")
    journal = open_records(arguments).journal
    if arguments.action == "show":
        from skillyard.cli.waterfall import draw_record

        record = journal.get(arguments.run_id)
        if screen.as_json:
            screen.data(record.to_dict())
        else:
            draw_record(screen, record)
        return OK
    found = journal.list(
        skill=arguments.skill, states=arguments.status or (), schedule=arguments.schedule, limit=arguments.limit
    )
    if screen.as_json:
        screen.data({"runs": [record.summary() for record in found]})
    elif found:
        _draw(screen, found)
    else:
        screen.note("no runs" if not (arguments.skill or arguments.status or arguments.schedule) else "no such runs")
    return OK


def _draw(screen: Screen, found: tuple[RunRecord, ...]) -> None:
    screen.table(
        (
            (record.id, record.skill_name, record.state, _took(record), f"{record.created_at:%Y-%m-%d %H:%M:%S}", _why(record))
            for record in found
        ),
        header=("RUN", "SKILL", "STATUS", "TOOK", "WHEN (UTC)", "REMARK"),
        stretch=5,
    )


def _took(record: RunRecord) -> str:
    return "" if record.duration_ms is None else f"{record.duration_ms:,} ms"


def _why(record: RunRecord) -> str:
    if record.cache_hit:
        return "kept result"
    return f"{record.error_code}: {record.error_message}" if record.error_code else record.message or ""
