"""`skillyard key`: the keys of this machine that sign skills."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from skillyard.cli.failures import OK
from skillyard.cli.keys import DEFAULT_KEY, key_path, key_paths
from skillyard.errors import InvalidInput

if TYPE_CHECKING:
    from skillyard.cli.screen import Screen

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What `key` takes."""
    parser.add_argument("action", nargs="?", choices=("list", "new"), default="list", help="list (the default) or new")
    parser.add_argument("name", nargs="?", default=DEFAULT_KEY, metavar="NAME", help="for new: its name (default: default)")


def run(arguments: argparse.Namespace) -> int:
    """List the keys, or make one."""
    from skillyard.packages import SigningKey

    screen: Screen = arguments.screen
    if arguments.action == "new":
        key, path = SigningKey.new(), key_path(arguments.name)
        key.write(path)
        if screen.as_json:
            screen.data({"name": path.stem, "path": str(path), "public": key.public})
        else:
            screen.line(f"made {path}", style="ok")
            screen.line(f"others know you as {key.public}")
            screen.note("keep a copy of the file in a safe place: without it nobody can publish the next version in your name")
        return OK
    keys = [(path.stem, *_public(path)) for path in key_paths()]
    if screen.as_json:
        screen.data({"keys": [{"name": name, "public": public, "problem": problem} for name, public, problem in keys]})
    elif keys:
        screen.table([(name, public or problem or "") for name, public, problem in keys], header=("KEY", "PUBLIC"))
    else:
        screen.note("no keys; `skillyard key new` makes one")
    return OK


def _public(path: object) -> tuple[str | None, str | None]:
    """The public half of a key, or why it cannot be had."""
    from pathlib import Path

    from skillyard.packages import SigningKey

    try:
        return SigningKey.read(Path(str(path))).public, None
    except InvalidInput as error:
        return None, error.message
