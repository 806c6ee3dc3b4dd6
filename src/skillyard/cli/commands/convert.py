"""`skillyard convert`: skills in the format of another system."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from skillyard.cli.failures import OK, existing

if TYPE_CHECKING:
    from skillyard.cli.screen import Screen

__all__ = ["add_arguments", "run"]

_FORMATS: Final = ("agent-skills", "anthropic", "codex", "semibot", "apexbridge", "claude-plugin", "claude-marketplace")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What `convert` takes."""
    parser.add_argument("source", metavar="SOURCE", help="the folder of a skill, of several, of a plugin, or an archive")
    parser.add_argument("--to", required=True, choices=_FORMATS, metavar="FORMAT", help=f"one of: {', '.join(_FORMATS)}")
    parser.add_argument("--out", default="converted", metavar="DIR", help="write below this folder (default: %(default)s)")
    parser.add_argument(
        "--skill", action="append", default=[], metavar="NAME", help="only this skill of the source; may be given several times"
    )
    parser.add_argument("--force", action="store_true", help="replace a folder that is there already")


def run(arguments: argparse.Namespace) -> int:
    """Convert and tell what was written, and what the format has no place for."""
    from skillyard.interop import convert

    screen: Screen = arguments.screen
    source = existing(arguments.source, hint="name the folder of a skill, a plugin, or an archive")
    done = convert(source, arguments.out, arguments.to, skills=arguments.skill, force=arguments.force)
    if screen.as_json:
        screen.data({"converted": [one.to_dict() for one in done]})
        return OK
    for one in done:
        screen.line(f"{one.path}: {', '.join(one.skills)}, {one.before} to {one.after}", style="ok")
        for note in one.notes:
            screen.line(f"- {note}", indent=2)
    return OK
