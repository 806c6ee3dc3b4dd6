"""`skillyard test`: a skill's own tests and examples, run in the sandbox, and what its evals say without a model."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from skillyard.cli.consent import require_consent
from skillyard.cli.durations import milliseconds
from skillyard.cli.failures import FAILURE, OK
from skillyard.cli.opening import open_catalog
from skillyard.cli.screen import counted

if TYPE_CHECKING:
    from skillyard.cli.screen import Screen
    from skillyard.execution import Trial, TrialReport

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What `test` takes."""
    parser.add_argument("name", help="the skill's name or id")
    parser.add_argument(
        "--timeout",
        type=milliseconds,
        metavar="TIME",
        help="at most this long for each: 5, 5s or 500ms; never more than configured",
    )
    parser.add_argument(
        "--install", action="store_true", help="download the packages a Python script asks for in a `# /// script` block"
    )


def run(arguments: argparse.Namespace) -> int:
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
        _draw(screen, skill.name, report)
    return OK if report.ok else FAILURE


def _draw(screen: Screen, name: str, report: TrialReport) -> None:
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
