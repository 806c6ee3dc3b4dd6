"""`skillyard doctor`: what this machine can and cannot do, and how to fix it."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from skillyard.cli.failures import FAILURE, OK
from skillyard.cli.openers import open_catalog
from skillyard.doctor import MachineCheck, check_machine

if TYPE_CHECKING:
    from skillyard.cli.screen import Screen


def add_doctor_arguments(parser: argparse.ArgumentParser) -> None:
    """`doctor` takes the common options only."""


def doctor_command(arguments: argparse.Namespace) -> int:
    """Examine everything; 1 when something that is needed is broken."""
    checks = check_machine(lambda: open_catalog(arguments))
    broken = any(check.status == "error" for check in checks)
    screen: Screen = arguments.screen
    if screen.as_json:
        screen.data({"ok": not broken, "checks": [check.to_dict() for check in checks]})
    else:
        _draw(screen, checks)
    return FAILURE if broken else OK


def _draw(screen: Screen, checks: list[MachineCheck]) -> None:
    screen.table((check.status, check.name, check.detail) for check in checks)
    remedies = [(check.name, check.fix) for check in checks if check.fix]
    if remedies:
        screen.heading("To fix")
        screen.table(remedies, indent=2)
