"""`skillyard read`: the text of one file of a skill."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Final

from skillyard.cli.confirmation import require_consent
from skillyard.cli.failures import OK
from skillyard.cli.openers import open_catalog
from skillyard.errors import BinaryFile

if TYPE_CHECKING:
    from skillyard.catalog import FileContent
    from skillyard.cli.screen import Screen

_LIMIT: Final = 256 * 1024 * 1024  # bytes; a person may want what is too long for a model


def add_read_arguments(parser: argparse.ArgumentParser) -> None:
    """What `read` takes."""
    parser.add_argument("name", help="the skill's name or id")
    parser.add_argument("file", nargs="?", default="SKILL.md", help="a path inside the skill (default: %(default)s)")
    parser.add_argument("-o", "--output", metavar="FILE", help="write the bytes to this file; needed for what is not text")


def read_command(arguments: argparse.Namespace) -> int:
    """Print the file as it is, or copy it."""
    screen: Screen = arguments.screen
    catalog = open_catalog(arguments)
    skill = catalog.get(arguments.name)
    require_consent(catalog, skill, screen)
    content = skill.read_file(arguments.file, limit=_LIMIT)
    if content.note:
        screen.note(content.note)
    if arguments.output:
        Path(arguments.output).write_bytes(content.data)
        screen.note(f"wrote {len(content.data):,} bytes to {arguments.output}")
    elif content.text is None:
        raise BinaryFile(
            f"{content.path} is not text ({len(content.data):,} bytes)",
            hint=f"copy it: skillyard read {skill.id} {content.path} --output FILE",
        )
    if screen.as_json:
        screen.data(_shape(skill.id, content))
    elif not arguments.output:
        _show(screen, content)
    return OK


def _show(screen: Screen, content: FileContent) -> None:
    """The bytes for a program; for a terminal the text, sanitized, on a line of its own."""
    text = content.text or ""
    if screen.is_terminal:
        screen.write(text if text.endswith("\n") else text + "\n")
    else:
        screen.raw(content.data)


def _shape(skill_id: str, content: FileContent) -> dict[str, object]:
    return {"id": skill_id, "path": content.path, "size": len(content.data), "text": content.text, "note": content.note}
