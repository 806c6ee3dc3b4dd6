"""`skillyard check --package`: folders checked as packages, one report each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skillyard.cli.failures import FAILURE, OK, UsageProblem, existing

if TYPE_CHECKING:
    import argparse

    from skillyard.cli.screen import Screen

__all__ = ["check_packages"]


def check_packages(arguments: argparse.Namespace) -> int:
    """Check every folder named; 1 when one is not valid.

    Raises:
        UsageProblem: no folder is named, one is not there, or options are given that packages have no use for.
    """
    from skillyard.interop import check_package, closing_line, report_lines  # only this form of the command reads manifests

    if not arguments.paths or arguments.fix or arguments.profile:
        raise UsageProblem("--package takes folders, no --fix and no --profile", hint="skillyard check --package FOLDER")
    screen: Screen = arguments.screen
    hint = "name the folder of a package: it holds a SKILL.md"
    checks = [check_package(existing(path, hint=hint)) for path in arguments.paths]
    if screen.as_json:
        screen.data({"packages": [check.to_dict() for check in checks]})
    else:
        for check in checks:
            for line in report_lines(check):
                screen.line(line, style=line.partition(":")[0] if ": " in line else "")
        screen.line(closing_line(checks), style="ok" if all(check.ok for check in checks) else "error")
    return OK if all(check.ok for check in checks) else FAILURE
