"""`skillyard sign`: vouch for the content of a skill."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from skillyard.cli.failures import OK, existing
from skillyard.cli.keys import DEFAULT_KEY, key_path
from skillyard.errors import NoSkillInside

if TYPE_CHECKING:
    from skillyard.cli.screen import Screen

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What `sign` takes."""
    parser.add_argument("folder", metavar="FOLDER", help="the folder of one skill")
    parser.add_argument("--key", default=DEFAULT_KEY, metavar="NAME", help="the key: a name, or a file (default: %(default)s)")


def run(arguments: argparse.Namespace) -> int:
    """Write `skillyard.sig` into the folder."""
    from skillyard.packages import SIGNATURE_FILE, SigningKey, sign_tree

    folder = Path(existing(arguments.folder, hint="name the folder of one skill"))
    if not (folder / "SKILL.md").is_file():
        raise NoSkillInside(f"{folder} has no file SKILL.md", hint="name the folder of one skill")
    signature = sign_tree(folder, SigningKey.read(key_path(arguments.key)))
    screen: Screen = arguments.screen
    if screen.as_json:
        screen.data({"path": str(folder / SIGNATURE_FILE), **signature.to_dict()})
    else:
        screen.line(f"signed {folder}: {signature.digest}", style="ok")
        screen.line(f"by {signature.key}", indent=2)
        screen.note("sign again after every edit; `skillyard pack` takes the signature along")
    return OK
