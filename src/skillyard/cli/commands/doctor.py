"""`skillyard doctor`: what this machine can and cannot do, and how to mend it."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from skillyard.cli.examination import Finding, examine
from skillyard.cli.failures import FAILURE, OK

if TYPE_CHECKING:
    from skillyard.cli.screen import Screen

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """`doctor` takes the common options only."""


def run(arguments: argparse.Namespace) -> int:
    """Examine everything; 1 when something that is needed is broken."""
    findings = examine(arguments)
    broken = any(finding.status == "error" for finding in findings)
    screen: Screen = arguments.screen
    if screen.as_json:
        screen.data({"ok": not broken, "checks": [finding.to_dict() for finding in findings]})
    else:
        _draw(screen, findings)
    return FAILURE if broken else OK


def _draw(screen: Screen, findings: list[Finding]) -> None:
    screen.table((finding.status, finding.name, finding.detail) for finding in findings)
    remedies = [(finding.name, finding.fix) for finding in findings if finding.fix]
    if remedies:
        screen.heading("To mend")
        screen.table(remedies, indent=2)
