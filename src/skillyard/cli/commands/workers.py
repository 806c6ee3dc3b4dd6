"""`skillyard workers`: who works for which pool, and what waits."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from skillyard.cli.failures import OK
from skillyard.cli.opening import open_records

if TYPE_CHECKING:
    from skillyard.cli.screen import Screen

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """`workers` takes nothing of its own."""


def run(arguments: argparse.Namespace) -> int:
    """List them."""
    from skillyard.engine import Roster

    screen: Screen = arguments.screen
    roster = Roster(open_records(arguments).database)
    workers, pools = roster.workers(), roster.pools()
    if screen.as_json:
        screen.data({"workers": [worker.to_dict() for worker in workers], "pools": [pool.to_dict() for pool in pools]})
        return OK
    if not workers and not pools:
        screen.note("no workers")
        screen.hint("start one with `skillyard worker --pool NAME`; it needs PostgreSQL")
        return OK
    rows = [(pool.name, str(pool.workers), str(pool.waiting), str(pool.running)) for pool in pools]
    screen.table(rows, header=("POOL", "WORKERS", "WAITING", "RUNNING"))
    if workers:
        screen.line()
        lines = [(one.id, ", ".join(one.pools), one.state, f"{len(one.running)} of {one.concurrency}") for one in workers]
        screen.table(lines, header=("WORKER", "POOLS", "STATE", "RUNS"))
    return OK
