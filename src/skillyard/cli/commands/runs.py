"""`skillyard run` and `test`: a skill's script, or its own tests, in the sandbox; `skillyard runs`: the recorded runs."""

from __future__ import annotations

import argparse
import shlex
from typing import TYPE_CHECKING, Final

from skillyard.cli.confirmation import require_consent
from skillyard.cli.failures import FAILURE, OK, UsageProblem
from skillyard.cli.openers import open_catalog, open_records
from skillyard.cli.option_values import parse_json_object, parse_milliseconds, parse_positive
from skillyard.cli.run_view import draw_run
from skillyard.cli.screen import counted
from skillyard.errors import NotExecutable

if TYPE_CHECKING:
    from skillyard.cli.screen import Screen
    from skillyard.engine import RunRecord
    from skillyard.execution import Trial, TrialReport


_HINTS: Final = {
    "VALIDATION_FAILED": "`skillyard show {id}` tells what input it takes",
    "kind_unavailable": "`skillyard read {id}` shows its instructions, which a model can follow",
}


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of `run`."""
    parser.add_argument("name", help="the skill's name or id")
    parser.add_argument(
        "--input",
        default="{}",
        metavar="JSON",
        help="the parameters: a JSON object, @FILE to read one, or - for standard input",
    )
    parser.add_argument(
        "--context", default="{}", metavar="JSON", help='who asks, for example {"userId": "u1"}; written like --input'
    )
    parser.add_argument("--entry", metavar="PATH", help="the script to run, when it is not the one the skill declares")
    parser.add_argument(
        "--timeout",
        type=parse_milliseconds,
        metavar="TIME",
        help="at most this long: 5, 5s or 500ms; never more than configured",
    )
    parser.add_argument(
        "--install", action="store_true", help="download the packages that the skill declares, when they are not there yet"
    )
    parser.add_argument(
        "--with",
        dest="granted",
        action="append",
        default=[],
        metavar="PACKAGE",
        help="give this run a package or program more: pypdf, npm:docx or program:qpdf; may be given several times",
    )
    parser.add_argument(
        "--priority",
        type=int,
        default=0,
        metavar="N",
        help="of the runs that wait a higher one goes first, from -100 to 100 (default: %(default)s)",
    )
    parser.add_argument(
        "--no-cache-result", action="store_true", help="run it again, also when the skill lets its last result be kept"
    )


def run_command(arguments: argparse.Namespace) -> int:
    """Run it; 1 when the run did not succeed."""
    import asyncio  # 30 ms: only this command waits for a process

    from skillyard.engine import flush_spans
    from skillyard.environments import SkillGrant

    screen: Screen = arguments.screen
    parameters = parse_json_object("--input", arguments.input)
    context = parse_json_object("--context", arguments.context)
    grant = SkillGrant.from_words(arguments.granted)
    catalog = open_catalog(arguments)
    skill = catalog.get(arguments.name)
    digest = require_consent(catalog, skill, screen)
    running = catalog.run(
        skill,
        parameters,
        context=context,
        entry=arguments.entry,
        timeout_ms=arguments.timeout,
        digest=digest,
        fresh=arguments.no_cache_result,
        install=arguments.install,
        priority=arguments.priority,
        grant=grant,
    )
    try:
        outcome = asyncio.run(running)
    except NotExecutable as error:  # here, unlike elsewhere, its folder may be named
        hint = (error.hint or "").replace("--skill-dir FOLDER", f"--skill-dir {shlex.quote(skill.directory)}")
        raise NotExecutable(error.message, hint=hint, **error.details) from None
    flush_spans()
    if screen.as_json:
        screen.data(outcome.to_dict())
    else:
        draw_run(screen, skill.name, outcome)
        if outcome.error is not None and outcome.error.code in _HINTS:
            screen.hint(_HINTS[outcome.error.code].format(id=skill.id))
    return OK if outcome.error is None else FAILURE


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
    catalog = open_catalog(arguments)
    skill = catalog.get(arguments.name)
    digest = require_consent(catalog, skill, screen)
    report = asyncio.run(catalog.test(skill, timeout_ms=arguments.timeout, digest=digest, install=arguments.install))
    if screen.as_json:
        screen.data(report.to_dict())
    else:
        _draw_test(screen, skill.name, report)
    return OK if report.ok else FAILURE


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
    parser.add_argument(
        "--limit", type=parse_positive, default=20, metavar="N", help="at most this many runs (default: %(default)s)"
    )


def runs_command(arguments: argparse.Namespace) -> int:
    """List the newest runs, or show one."""
    screen: Screen = arguments.screen
    if (arguments.action == "show") != (arguments.run_id is not None):
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
    only = RunFilter(skill=arguments.skill, states=arguments.status or (), schedule=arguments.schedule)
    records = journal.list(only, limit=arguments.limit)
    if screen.as_json:
        screen.data({"runs": [record.summary() for record in records]})
    elif records:
        _draw_runs(screen, records)
    else:
        screen.note("no runs" if not (arguments.skill or arguments.status or arguments.schedule) else "no such runs")
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
