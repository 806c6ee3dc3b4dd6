"""`skillyard history`: what was installed, updated, rolled back and uninstalled, when, and how it went."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from skillyard.cli.arguments import positive
from skillyard.cli.failures import OK
from skillyard.cli.installing import open_registry

if TYPE_CHECKING:
    from skillyard.cli.screen import Screen
    from skillyard.registry import InstallLog

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What `history` takes."""
    parser.add_argument("name", nargs="?", metavar="NAME", help="only of this skill")
    parser.add_argument("--limit", type=positive, default=20, metavar="N", help="at most this many (default: %(default)s)")


def run(arguments: argparse.Namespace) -> int:
    """Tell it, the newest first; `--json` has every step with its time."""
    screen: Screen = arguments.screen
    logs = open_registry(arguments).history(arguments.name, limit=arguments.limit)
    if screen.as_json:
        screen.data({"logs": [log.to_dict() for log in logs]})
    elif logs:
        screen.table(
            map(_row, logs), header=("WHEN (UTC)", "OPERATION", "SKILL", "VERSION", "STATUS", "TOOK", "REMARK"), stretch=6
        )
    else:
        screen.note("nothing was installed yet")
    return OK


def _row(log: InstallLog) -> tuple[str, ...]:
    when = f"{log.started_at:%Y-%m-%d %H:%M:%S}" if log.started_at else ""
    took = "" if log.duration_ms is None else f"{log.duration_ms:,} ms"
    remark = f"{log.error_code}: {log.error_message}" if log.error_code else log.message or log.source or ""
    return when, log.operation, log.skill_id or "", log.version or "", log.status, took, remark
