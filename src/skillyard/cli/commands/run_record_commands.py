"""`skillyard runs`: what was run, and `test`: a skill's own tests, examples and evals, as runs that are recorded."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from skillyard.cli.command_options import open_records, open_skill, parse_milliseconds, parse_positive
from skillyard.cli.confirmation import require_consent
from skillyard.cli.screen import FAILURE, OK, counted
from skillyard.errors import UsageProblem

if TYPE_CHECKING:
    from skillyard.catalog import Skill
    from skillyard.cli.screen import Screen
    from skillyard.engine import RunRecord
    from skillyard.engine.journal import Journal
    from skillyard.execution import Trial, TrialReport
    from skillyard.library import Catalog


def add_test_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `test`."""
    parser.add_argument("name", help="the skill's name or id")
    parser.add_argument(
        "--timeout",
        type=parse_milliseconds,
        metavar="TIME",
        help="at most this long for each: 5, 5s or 500ms; never more than configured",
    )
    parser.add_argument(
        "--install", action="store_true", help="download the packages that the skill declares, when they are not there yet"
    )


def test_command(arguments: argparse.Namespace) -> int:
    """Try it; 1 when something failed, or when there is nothing to try."""
    import asyncio  # 30 ms: only this command and `run` wait for a process

    screen: Screen = arguments.screen
    catalog, skill = open_skill(arguments, arguments.name)
    digest = require_consent(catalog, skill, screen)
    report = asyncio.run(_tested(catalog, skill, digest, arguments))
    if screen.as_json:
        screen.data(report.to_dict())
    else:
        _draw_test(screen, skill.name, report)
    return OK if report.ok else FAILURE


async def _tested(catalog: Catalog, skill: Skill, digest: str | None, arguments: argparse.Namespace) -> TrialReport:
    """The report of the trials, which are kept among the runs."""
    from skillyard.execution import TrialReport

    begun = await catalog.tests().begin(skill, digest=digest, timeout_ms=arguments.timeout, install=arguments.install)
    return TrialReport.read((await begun.ended).output)


def _draw_test(screen: Screen, name: str, report: TrialReport) -> None:
    failed = [trial for trial in report.trials if not trial.passed]
    if not report.trials:
        screen.line(f"{name}: nothing to test", style="warning")
        screen.hint("put scripts into tests/, or examples into tests/examples.json")
    else:
        passed = len(report.trials) - len(failed)
        screen.line(f"{name}: {passed} of {counted(len(report.trials), 'trial')} passed", style="error" if failed else "ok")
        screen.table(map(_row, report.trials), indent=2)
    for trial in failed:
        screen.heading(trial.name)
        screen.line(trial.message, indent=2)
        if trial.log:
            screen.text(trial.log, indent=4)
    for note in report.notes:
        screen.note(f"note: {note}")


def _row(trial: Trial) -> tuple[str, ...]:
    duration = f"{trial.duration_ms:,} ms" if trial.duration_ms else ""
    return "ok" if trial.passed else "error", trial.kind, trial.name, duration


_STATES: Final = ("queued", "running", "succeeded", "failed", "cancelled", "interrupted")


def add_runs_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `runs`."""
    parser.add_argument(
        "action",
        nargs="?",
        choices=("list", "show", "take"),
        default="list",
        help="list (the default), show, take: copies its files",
    )
    parser.add_argument("run_id", nargs="?", metavar="RUN_ID", help="for show and take: the run's id, or its last 8 characters")
    parser.add_argument("--output", metavar="DIR", default=".", help="for take: the folder to copy into (default: this one)")
    parser.add_argument("--skill", metavar="NAME", help="only runs of the skill with this name or id")
    parser.add_argument(
        "--status",
        action="append",
        choices=_STATES,
        metavar="STATUS",
        help=f"only runs in this state ({', '.join(_STATES)}); may be repeated",
    )
    parser.add_argument("--schedule", metavar="NAME", help="only runs of this schedule")
    parser.add_argument(
        "--limit", type=parse_positive, default=20, metavar="N", help="at most this many runs (default: %(default)s)"
    )


def runs_command(arguments: argparse.Namespace) -> int:
    """List the newest runs, show one, or take the files that it made."""
    screen: Screen = arguments.screen
    if (arguments.action in ("show", "take")) != (arguments.run_id is not None):
        raise UsageProblem("which run?", hint="`skillyard runs` lists the runs, `skillyard runs show RUN_ID` shows one")
    from skillyard.engine import RunFilter

    journal = open_records(arguments).journal
    if arguments.action == "show":
        from skillyard.cli.run_view import draw_run_record

        record = journal.get(arguments.run_id)
        if screen.as_json:
            screen.data(record.to_dict())
        else:
            draw_run_record(screen, record)
        return OK
    if arguments.action == "take":
        return _take(journal, arguments)
    only = RunFilter(skill=arguments.skill, states=arguments.status or (), schedule=arguments.schedule)
    records = journal.list(only, limit=arguments.limit)
    if screen.as_json:
        screen.data({"runs": [record.summary() for record in records]})
    elif records:
        _draw_runs(screen, records)
    else:
        screen.note("no runs" if not (arguments.skill or arguments.status or arguments.schedule) else "no such runs")
    return OK


def _take(journal: Journal, arguments: argparse.Namespace) -> int:
    """Copy the files that a run made into a folder."""
    from skillyard.cli.commands.run_commands import take_files
    from skillyard.engine import RunFiles

    screen: Screen = arguments.screen
    record = journal.get(arguments.run_id)
    made = RunFiles(lambda: journal.database).of(record.id, "made")
    if not made:
        where = "they are in the folder that it worked in, or no longer kept" if record.files else "it made none"
        screen.note(f"there are no files of this run to take: {where}")
        return FAILURE
    folder = take_files(made, arguments.output)
    if screen.as_json:
        screen.data({"folder": str(folder), "files": [file.name for file in made]})
    else:
        screen.table(((file.name, f"{len(file.data):,} bytes") for file in made), header=("FILE", "SIZE"))
        screen.note(f"{counted(len(made), 'file')} in {folder}")
    return OK


def _draw_runs(screen: Screen, records: tuple[RunRecord, ...]) -> None:
    screen.table(
        (
            (record.id, record.skill_name, record.state, _took(record), f"{record.created_at:%Y-%m-%d %H:%M:%S}", _why(record))
            for record in records
        ),
        header=("RUN", "SKILL", "STATUS", "TOOK", "WHEN (UTC)", "REMARK"),
        stretch=5,
    )


def _took(record: RunRecord) -> str:
    return "" if record.duration_ms is None else f"{record.duration_ms:,} ms"


def _why(record: RunRecord) -> str:
    if record.cache_hit:
        return "cached result"
    return f"{record.error_code}: {record.error_message}" if record.error_code else record.message or ""
