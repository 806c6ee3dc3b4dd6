"""`skillyard pack`: a skill's folder as one file to give away."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from skillyard.cli.failures import OK, existing
from skillyard.cli.screen import counted

if TYPE_CHECKING:
    from skillyard.cli.screen import Screen

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What `pack` takes."""
    parser.add_argument("folder", metavar="FOLDER", help="the folder of one skill")
    parser.add_argument("-o", "--output", metavar="FILE", help="write here (default: NAME.zip in this folder)")
    parser.add_argument(
        "--format", choices=("zip", "tar.gz", "skill"), help="what to write (default: what FILE is called, else zip)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Write the archive and tell its digests."""
    from skillyard.packages import pack

    screen: Screen = arguments.screen
    folder = Path(existing(arguments.folder, hint="name the folder of one skill"))
    suffix = arguments.format or "zip"
    target = arguments.output or f"{folder.resolve().name}.{suffix}"
    package = pack(folder, target, format=arguments.format)
    if screen.as_json:
        data = {"path": str(package.path), "digest": package.digest, "archive_sha256": package.archive_sha256}
        screen.data({**data, "size": package.size, "entries": package.entries, "ignored": package.ignored})
    else:
        screen.line(f"packed {package.path}: {counted(len(package.entries), 'file')}, {package.size:,} bytes", style="ok")
        screen.line(f"digest of the skill: {package.digest}")
        screen.line(f"digest of the file:  {package.archive_sha256}")
        if package.ignored:
            screen.note(f"left out: {', '.join(package.ignored)}")
    return OK
