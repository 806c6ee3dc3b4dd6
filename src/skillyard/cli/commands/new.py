"""`skillyard new`: a skill that `check` finds fine from its first minute."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from skillyard.cli.failures import OK
from skillyard.cli.opening import discover
from skillyard.cli.templates import SCRIPT_FIELDS, body, script

if TYPE_CHECKING:
    from skillyard.catalog import Skill
    from skillyard.cli.screen import Screen

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What `new` takes."""
    parser.add_argument("name", help="lower-case letters, digits and hyphens, as in report-writer")
    parser.add_argument(
        "--description", required=True, metavar="TEXT", help="what it does and when to use it: all that a model sees at first"
    )
    place = parser.add_mutually_exclusive_group()
    place.add_argument("--user", action="store_true", help="for you, in every project (this is the default)")
    place.add_argument("--in-project", action="store_true", help="for everyone who works on this project")
    place.add_argument("--in", dest="folder", metavar="DIR", help="in this folder of skills")
    parser.add_argument("--with-script", action="store_true", help="with a script that runs, and the schema of its input")


def run(arguments: argparse.Namespace) -> int:
    """Make the folder and say what to do next."""
    screen: Screen = arguments.screen
    catalog = discover(arguments, roots=arguments.root)
    skill = catalog.create(
        arguments.name,
        arguments.description,
        body(arguments.name, arguments.description.strip(), with_script=arguments.with_script),
        source="project" if arguments.in_project else "user",
        root=arguments.folder or (arguments.root[0] if arguments.root else None),
    )
    if arguments.with_script:
        _add_script(skill)
    if screen.as_json:
        screen.data({"skill": skill.to_dict(), "files": ["SKILL.md", *(file.name for file in skill.files())]})
    else:
        screen.line(f"made {skill.path}", style="ok")
        screen.note(f"next: write its steps, then `skillyard check {skill.directory}`{_try(skill, arguments.with_script)}")
    return OK


def _add_script(skill: Skill) -> None:
    from skillyard.document import set_front_matter

    folder, document = Path(skill.directory), Path(skill.path)
    document.write_text(set_front_matter(document.read_text("utf-8"), SCRIPT_FIELDS), "utf-8", newline="\n")
    (folder / "scripts").mkdir()
    (folder / "scripts" / "execute.py").write_text(script(skill.name), "utf-8", newline="\n")


def _try(skill: Skill, with_script: bool) -> str:
    command = f'skillyard run {skill.name} --root {skill.root.path} --input \'{{"text": "hello world"}}\''
    return f" and `{command}`" if with_script else ""
