"""`skillyard insights`: what becomes of skills, by day: used, how it ended, how long it took, what it cost."""

from __future__ import annotations

import argparse
from datetime import date
from typing import TYPE_CHECKING, Final

from skillyard.cli.options import open_catalog, parse_positive
from skillyard.cli.screen import OK

if TYPE_CHECKING:
    from collections.abc import Iterator

    from skillyard.cli.screen import Screen
    from skillyard.insights import InsightReport, UsageFigures


_BY: Final = ("skill", "version", "agent", "caller", "interface", "model")
_HEADER: Final = ("OFFERED", "LOADED", "FOLLOWED", "RUNS", "FAILED", "REFUSED", "P50", "P95", "TOKENS", "COST")


def add_insights_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `insights`."""
    parser.add_argument("--by", choices=_BY, default="skill", help="what each row is about (default: %(default)s)")
    parser.add_argument(
        "--since", type=_parse_day, metavar="DAY", help="the first day, as 2026-11-01 (default: 13 before the last)"
    )
    parser.add_argument("--until", type=_parse_day, metavar="DAY", help="the last day (default: today, in UTC)")
    parser.add_argument("--skill", metavar="NAME", help="only what concerns this skill")
    parser.add_argument("--unused", action="store_true", help="only what was offered and neither loaded nor run")
    parser.add_argument(
        "--limit", type=parse_positive, default=20, metavar="N", help="at most this many rows (default: %(default)s)"
    )


def insights_command(arguments: argparse.Namespace) -> int:
    """Show the report."""
    screen: Screen = arguments.screen
    catalog = open_catalog(arguments)
    skill = None if arguments.skill is None else catalog.get(arguments.skill).id
    report = catalog.insights().report(
        arguments.by, since=arguments.since, until=arguments.until, skill=skill, unused=arguments.unused,
        limit=arguments.limit, seconds=None,
    )  # fmt: skip
    if screen.as_json:
        screen.data(report.to_dict())
    elif not report.rows and arguments.unused:
        screen.note(f"whatever was offered from {report.since} to {report.until} was used")
    elif not report.rows:
        screen.note(f"nothing was used from {report.since} to {report.until}")
    else:
        screen.table(
            ((row.key or "?", *_cells(row.figures, report)) for row in report.rows),
            header=(arguments.by.upper(), *_HEADER),
        )
        total = report.total.figures
        screen.note(
            f"{report.since} to {report.until}: turns: {total.turns:,}, runs: {total.runs:,}, failed: {total.runs_failed:,}"
        )
    return OK


def _cells(figures: UsageFigures, report: InsightReport) -> Iterator[str]:
    for count in (figures.offered, figures.loaded, figures.followed, figures.runs, figures.runs_failed, figures.refused):
        yield f"{count:,}" if count else ""
    for time in (figures.p50_ms, figures.p95_ms):
        yield "" if time is None else f"{time:,} ms"
    tokens = figures.input_tokens + figures.output_tokens
    yield f"{tokens:,}" if tokens else ""
    yield "" if figures.cost is None else f"{figures.cost:,.2f} {report.currency}"


def _parse_day(given: str) -> date:
    try:
        return date.fromisoformat(given)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{given!r} is no day: write it as 2026-11-01") from None
