"""`skillyard restore`: bring a backup back, or only prove it."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from skillyard.cli.backups import home_of
from skillyard.cli.failures import OK, UsageProblem
from skillyard.cli.installing import open_lock
from skillyard.cli.opening import configured_database
from skillyard.cli.screen import counted

if TYPE_CHECKING:
    from skillyard.cli.screen import Screen
    from skillyard.registry.backup import Place

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What `restore` takes."""
    parser.add_argument("file", metavar="FILE", help="what `skillyard backup` wrote; stop the server first")
    parser.add_argument("--force", action="store_true", help="replace everything that is there")
    parser.add_argument("--check", action="store_true", help="only read the backup to its end and prove every file in it")


def run(arguments: argparse.Namespace) -> int:
    """Prove it, bring it back, and tell what there is now."""
    from skillyard.registry.backup import check_backup, restore_backup

    screen: Screen = arguments.screen
    file = Path(arguments.file)
    if arguments.check:
        manifest = check_backup(file)
        made = {key: manifest.facts.get(key) for key in ("made_at", "made_by")}
        if screen.as_json:
            screen.data({"file": str(file), "files": len(manifest.entries), **made})
        else:
            screen.line(f"{file} is whole: {counted(len(manifest.entries), 'file')}, made {made['made_at']}")
        return OK
    done = restore_backup(
        file, lambda name: _place(arguments, name), project=open_lock(arguments).folder, force=arguments.force
    )
    if screen.as_json:
        screen.data(done.to_dict())
    else:
        screen.line(f"restored {counted(done.versions, 'version')} and {counted(done.records, 'record')}")
    return OK


def _place(arguments: argparse.Namespace, name: str) -> Place:
    home = home_of(name, *configured_database(arguments))
    if home is None:
        raise UsageProblem(f"this Skillyard has no place for {name!r}", hint="upgrade skillyard")
    return home
