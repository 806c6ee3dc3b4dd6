"""`skillyard backup`: everything that is kept here, in one file, also while a server runs."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from skillyard.cli.backups import homes
from skillyard.cli.failures import OK
from skillyard.cli.installing import open_lock
from skillyard.cli.opening import configured_database
from skillyard.cli.screen import counted

if TYPE_CHECKING:
    from skillyard.cli.screen import Screen

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What `backup` takes."""
    parser.add_argument("file", metavar="FILE", help="where to write it; it holds keys and records, only you may read it")
    parser.add_argument("--force", action="store_true", help="replace a file that is there")


def run(arguments: argparse.Namespace) -> int:
    """Write it, and tell what is in it."""
    from skillyard.registry.backup import write_backup

    screen: Screen = arguments.screen
    lock = open_lock(arguments)
    report = write_backup(
        homes(*configured_database(arguments)),
        Path(arguments.file),
        beside=[lock.path] if lock.path.is_file() else [],
        force=arguments.force,
    )
    if screen.as_json:
        screen.data(report.to_dict())
        return OK
    held = (counted(report.skills, "skill"), counted(report.versions, "version"), counted(report.records, "record"))
    screen.line(f"{report.file}: {', '.join(held)}; {report.bytes / 1e6:,.1f} MB")
    for name in report.gone:
        screen.line(f"{name} was deleted before it could be read", style="warning")
    return OK
